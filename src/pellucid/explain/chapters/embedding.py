"""Embedding: each token's row of numbers, and the tokens that have similar ones."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.explain.chapter_types import Bars, Chapter, Place, Receipt, Table
from pellucid.explain.outputs import widen
from pellucid.explain.receipts import embedding_receipt
from pellucid.explain.receipts.builder import apply, at, product, receipt, row, source_line
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.receipts.sums import stack_prefix
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_FEATURES, _NEAREST = 24, 5
#: To bound memory, however large the vocabulary.
_ROWS_AT_ONCE = 16_384


def build(trace: Trace, place: Place) -> Chapter:
    """A token's row, its nearest neighbours by cosine, and whether the head is the same matrix."""
    selection = select_place(trace, place)
    model = trace.model
    token_id = int(trace.stack_pass(selection.side).ids[0, selection.token])
    embedded = trace[at(f"{stack_prefix(trace, selection.side)}embedding", selection.token)]
    rows, width = model.token_embedding.weight.shape
    neighbours, cosines = nearest(model.token_embedding.weight, token_id)
    n_shown = min(_FEATURES, width)
    return Chapter(
        sentence=f"Token {selection.query(trace)} becomes row {token_id:,} of a table of {rows:,} "
        f"rows: {width} numbers that were learnt, the same wherever the token stands.",
        pictures=(
            Bars(
                title=f"the first {n_shown} of {width} features{_describe_scaling(trace)}",
                names=tuple(map(str, range(n_shown))),
                values=tuple(to_list(embedded[:n_shown].float())),
            ),
            Table(
                title="nearest tokens by cosine of their rows",
                columns=("token", "id", "cosine"),
                rows=tuple(
                    (piece(trace, word), word, cosine)
                    for word, cosine in zip(neighbours, cosines, strict=True)
                ),
            ),
        ),
        receipts=(
            embedding_receipt(trace, selection),
            *_cosine(trace, selection, token_id, neighbours),
        ),
        notes=(_tied(trace),),
    )


@torch.no_grad()
def nearest(table: Tensor, token_id: int) -> tuple[list[int], list[float]]:
    """The tokens whose rows point in the most similar direction, and the cosines."""
    own_row = widen(table[token_id])
    products, lengths = torch.empty_like(widen(table[:, 0])), torch.empty_like(widen(table[:, 0]))
    for start in range(0, len(table), _ROWS_AT_ONCE):
        rows = widen(table[start : start + _ROWS_AT_ONCE])
        products[start : start + len(rows)] = torch.mv(rows, own_row)
        lengths[start : start + len(rows)] = rows.square().sum(-1).sqrt()
    cosines = products / (lengths * lengths[token_id]).clamp_min(torch.finfo(own_row.dtype).tiny)
    cosines[token_id] = -torch.inf
    closest = cosines.topk(min(_NEAREST, len(cosines) - 1))
    return to_list(closest.indices), to_list(closest.values)


def _cosine(
    trace: Trace, selection: Selection, token_id: int, neighbours: list[int]
) -> tuple[Receipt, ...]:
    if not neighbours:
        return ()
    table, neighbour = trace.model.token_embedding.weight, neighbours[0]
    a = row(table[token_id], f"E[{token_id}]", at("token_embedding.weight", token_id))
    b = row(table[neighbour], f"E[{neighbour}]", at("token_embedding.weight", neighbour))
    lengths = apply("mul", apply("sqrt", product(a, a)), apply("sqrt", product(b, b)))
    cosine = receipt(
        trace,
        title=f"cosine of {selection.query(trace)} and {piece(trace, neighbour)}",
        formula="a · b / (|a| |b|)",
        expression=apply("div", product(a, b), lengths),
        address=at("token_embedding.weight", token_id),
        source=source_line(nearest, "cosines = products /"),
        model=nearest(table, token_id)[1][0],
    )
    return (cosine,)


def _describe_scaling(trace: Trace) -> str:
    """What is done to the row before the first layer, in words."""
    scaled = (
        f", times {trace.model.embedding_scale:.6g}" if trace.model.embedding_scale != 1 else ""
    )
    kind = "" if trace.model.segment_embedding is None else ", with the vector of its kind of text"
    return scaled + kind


def _tied(trace: Trace) -> str:
    if not trace.model.has_head:
        return "the model has no head: nothing else reads this table"
    if trace.model.head is None:
        return (
            "tied: the head that makes logits is this same table, so a token's row is both what "
            "it means and what speaks for it"
        )
    return "not tied: the head that makes logits is another matrix"
