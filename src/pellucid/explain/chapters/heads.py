"""Heads: all heads of a stack at once, by where they look; small maps of one layer's heads.

The chapter opens every layer once, and forms the map of one head at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import torch
from torch import Tensor

from pellucid.catalogue import message
from pellucid.explain.chapter_types import Content, Matrix, Receipt, Table
from pellucid.explain.chapters.pictures import pooled_map
from pellucid.explain.expressions import Number
from pellucid.explain.receipts.builder import Expression, ReceiptBuilder, cell, total
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_INDUCTION = message("heads.induction-share-given-to-what")
#: Ways to sort heads: the number, its name, and -1 if the largest comes first.
_ORDERS = (
    ("entropy", message("heads.lowest-entropy"), 1),
    ("previous", message("word.token-before"), -1),
    (message("word.induction"), message("word.induction"), -1),
    ("first", message("heads.first-token-sink"), -1),
)
_MEASURES = (("previous", message("word.token-before")), ("first", message("word.first-token")))
#: How many heads are named in each order.
_RANKS = 10
#: The number of small maps, at most, and their number of cells.
_MAPS, _CELLS = 16, 16


@dataclass(frozen=True, slots=True)
class HeadNumbers:
    """Where one head looks, as means over its queries.

    `entropy` is in nats, None if some shares are below 0. `previous` is the share of the token
    before, over the queries that have one; `first` the share of the first token, over all other
    queries. `induction` is the share of the token after the previous occurrence of the query's
    token, over the queries that have one; None if no token comes twice, or the keys are of another
    text.

    Source:
        Olsson et al. 2022, "In-context Learning and Induction Heads": prefix matching.
    """

    entropy: float | None
    previous: float
    first: float
    induction: float | None


def measure_head(weights: Tensor, repeated_pairs: Sequence[tuple[int, int]] = ()) -> HeadNumbers:
    """Where a square of weights, (queries, keys), looks; `again` as `repeats` gives it."""
    wide = weights.double()
    rows = _entropy(wide)
    previous_shares = wide.diagonal(-1) if min(wide.shape) > 1 else wide.new_zeros(1)
    first = wide[1:, 0] if len(wide) > 1 else wide.new_zeros(1)
    entropy = None if bool((wide < 0).any()) else float(rows.mean())
    return HeadNumbers(
        entropy,
        float(previous_shares.mean()),
        float(first.mean()),
        _induction(wide, repeated_pairs),
    )


def repeats(ids: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(query, key): each token that came before, and the token after its previous occurrence.

    It leaves out pairs such as "a a": there the key is the query itself, and the head would have
    nothing to remember.
    """
    last: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for query, token in enumerate(ids):
        if token in last and last[token] + 1 < query:
            pairs.append((query, last[token] + 1))
        last[token] = query
    return tuple(pairs)


def _induction(weights: Tensor, repeated_pairs: Sequence[tuple[int, int]]) -> float | None:
    if not repeated_pairs:
        return None
    queries, keys = zip(*repeated_pairs, strict=True)
    return float(weights[list(queries), list(keys)].mean())


def _entropy(weights: Tensor) -> Tensor:
    """-sum w log w of each row, in nats; 0 log 0 is 0."""
    return -torch.xlogy(weights, weights).sum(-1)


def build(trace: Trace, selection: Selection) -> Content:
    """The grid of all heads, three numbers each; the maps of the selected layer's."""
    n_heads = selection.attention(trace).n_heads
    ids = [] if selection.cross else to_list(trace.stack_pass(selection.side).ids[0])
    pairs, n_layers = repeats(ids), trace.n_layers(selection.side)
    grid = [_layer(trace, selection, layer, pairs) for layer in range(n_layers)]
    n_maps = min(n_heads, _MAPS)
    has_negative = bool((trace[f"{selection.head_name}.weights"][selection.token] < 0).any())
    notes = [message("heads.means-over-the-queries-of")]
    if pairs:
        notes.append(message("heads.induction-is-the-mean-over", n=len(pairs)))
    elif not selection.cross:
        notes.append(message("heads.no-token-comes-again-after"))
    if n_maps < n_heads:
        notes.append(message("heads.small-maps-the-first-of", n_maps=n_maps, n_heads=n_heads))
    if any(numbers.entropy is None for _, numbers in _list_heads(selection, grid)):
        notes.append(message("heads.rotated-features-make-shares-below"))
    return Content(
        sentence=_describe_heads(selection, grid),
        pictures=(
            _grid(selection, grid, "entropy", message("heads.entropy-in-nats-0-looks")),
            _grid(selection, grid, "previous", message("heads.share-given-to-the-token")),
            _grid(selection, grid, "first", message("heads.share-given-to-the-first")),
            _grid(selection, grid, message("word.induction"), _INDUCTION) if pairs else None,
            _ranking(selection, grid),
            *(
                pooled_map(trace, replace(selection, head=head), max_cells=_CELLS)
                for head in range(n_maps)
            ),
        ),
        receipts=() if has_negative else (entropy_receipt(trace, selection),),
        notes=notes,
    )


def _list_heads(
    selection: Selection, grid: list[list[HeadNumbers]]
) -> Iterator[tuple[str, HeadNumbers]]:
    for layer, row in enumerate(grid):
        for head, numbers in enumerate(row):
            yield replace(selection, layer=layer, head=head).head_name, numbers


def _describe_heads(selection: Selection, grid: list[list[HeadNumbers]]) -> str:
    """How many there are, and which of them look most at the token before and at the first."""
    numbers_by_name = dict(_list_heads(selection, grid))
    text: str = message(
        f"heads.look-at-the-{'source' if selection.cross else 'sentence'}", n=len(numbers_by_name)
    )
    measures = (("first", message("word.first-token")),) if selection.cross else _MEASURES
    for measure, target_name in measures:
        name = max(numbers_by_name, key=lambda name: getattr(numbers_by_name[name], measure))
        mean_share = getattr(numbers_by_name[name], measure)
        text += message(
            "heads.looks-most-at-the-on", name=name, target_name=target_name, mean_share=mean_share
        )
    return text


def _layer(
    trace: Trace, selection: Selection, layer: int, repeated_pairs: Sequence[tuple[int, int]]
) -> list[HeadNumbers]:
    attention = trace.layer(selection.side, layer).attentions.get(
        "cross" if selection.cross else ""
    )
    if attention is None:
        return []
    layer_place = replace(selection, layer=layer)
    return [
        measure_head(trace[f"{replace(layer_place, head=head).head_name}.weights"], repeated_pairs)
        for head in range(attention.n_heads)
    ]


def _grid(selection: Selection, grid: list[list[HeadNumbers]], measure: str, title: str) -> Matrix:
    widest = max(map(len, grid))
    letter = selection.layer_name[0]
    return Matrix(
        title=title,
        rows=tuple(f"{letter}{layer}" for layer in range(len(grid))),
        columns=tuple(f"H{head}" for head in range(widest)),
        values=tuple(
            tuple(
                None if head >= len(row) else getattr(row[head], measure) for head in range(widest)
            )
            for row in grid
        ),
        scale="sequential",
        address="",
    )


def _ranking(selection: Selection, grid: list[list[HeadNumbers]]) -> Table:
    """The heads in the order of each number, those that look most that way first."""
    heads = list(_list_heads(selection, grid))
    orders: dict[str, list[str]] = {}
    for measure, title, sign in _ORDERS:
        ranked = sorted(
            (sign * value, name, value)
            for name, numbers in heads
            if (value := getattr(numbers, measure)) is not None
        )
        if ranked:
            orders[title] = [f"{name} {value:.2f}" for _, name, value in ranked[:_RANKS]]
    longest = max(map(len, orders.values()))
    return Table(
        title=message("heads.heads-in-the-order-of", longest=longest, n_heads=len(heads)),
        columns=tuple(orders),
        rows=tuple(zip_longest(*orders.values(), fillvalue="")),
    )


def entropy_receipt(trace: Trace, selection: Selection) -> Receipt:
    """-sum w log w of one query, over the keys with a share."""
    build, address = ReceiptBuilder(trace), f"{selection.head_name}.weights"
    weights = trace[address][selection.token]
    terms: list[Expression] = []
    for key in to_list((weights > 0).nonzero().flatten()):
        # from the row, which is read once: a long text has many keys
        w = Number(float(weights[key]), f"w{key}", cell(address, selection.token, key))
        terms.append(w * w.log())
    return build.receipt(
        cell(address, selection.token),
        title=message(
            "heads.entropy-of-in-in-nats",
            query=selection.query(trace),
            head_name=selection.head_name,
        ),
        formula="-Σ w log w",
        expression=-total(terms),
        source=(_entropy, "torch.xlogy"),
        model=float(_entropy(weights.double()[None])[0]),
    )
