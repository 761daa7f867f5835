"""Whether the rows of a batch are in the order of their text, or across it, or in none.

In a text, pairs of neighbours come again far more often than the frequencies of their tokens
explain. Rows of a batch have no such order among themselves.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from pellucid.vitals.call.token_order import (
    count_pairs,
    interleaving,
    is_clearly_tied,
    pair_ratio,
)
from pellucid.vitals.ledger.batch_rows import Rows

#: Texts of fewer kinds of tokens, as DNA and proteins, may have hardly any order to learn; of still
#: fewer, as digits, forms with one length come again in the rows below by chance.
_FEWEST_KINDS, _FEWEST_LETTERS = 50, 20
#: Pairs that come again as often as others: at most so many deviations more, of so many by chance.
#: Those at one distance stand out if they are so many deviations more.
_DEVIATIONS, _CLEAR, _FEWEST_PAIRS = 2, 6, 2
#: A standard deviation, of the median of all deviations.
_OF_MEDIAN = 1.4826
#: Tokens at more distances are not compared: each costs 50 microseconds.
_FARTHEST = 48
#: A place that holds one id in so many rows belongs to a form.
_FORM = 0.5
#: Neighbours of a text come together twice as often as by chance, or more.
_NEIGHBOUR_RATIO = 2
#: Columns hold a text if their neighbours are tied so many times as much as rows further apart.
_TIED = 1.5
#: Fewer tokens say nothing, and fewer gaps from one place of an id to the next.
_FEWEST_TOKENS, _FEWEST_GAPS = 256, 32
#: torch's modules that read (time, rows, features), unless they say `batch_first`.
_WITH_TIME = (
    nn.RNNBase,
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)
#: An id that fills every so many places has nearly all of its gaps so wide; a special one, which
#: also ends texts, most of them.
_PERIODS, _NEARLY_ALL, _MAJORITY = (2, 3, 4), 0.85, 0.6
#: So many of the most frequent ids are looked at: padding may be one of them.
_FREQUENT = 3


def text_in_columns(ids: Int[Tensor, "rows time"]) -> float:
    """How often pairs below each other come again, over by chance, if rows hold no text; else 0.

    A batch (time, rows) that is read as (rows, time) has its texts in the columns. Rows of one form
    are alike at any distance, and texts one below the other are tied to the next row the most.

    Args:
        ids: The rows as they are read.
    """
    if (pair_ratio(ids, 1) or 1.0) > 1 or len(_kinds(ids)) < _FEWEST_LETTERS:
        return 0.0
    ratio_of_neighbours = _ratio_of_unequal(ids[:-1], ids[1:])
    half = max(2, len(ids) // 2)
    ratio_apart = _ratio_of_unequal(ids[:-half], ids[half:])
    return ratio_of_neighbours if ratio_of_neighbours > _TIED * ratio_apart else 0.0


class LayoutNotes:
    """Notes whether a model reads ids as (time, rows), as torch's modules do by default.

    Args:
        inputs: The ids that the model is called with, of a few rows.
        ids: All of them; None if it is called with vectors.
    """

    def __init__(self, inputs: Tensor, ids: Tensor | None) -> None:
        self._shape, self._ids = tuple(inputs.shape[:2]), ids
        self._is_time_first = False

    def note(self, name: str, module: nn.Module, arguments: Any) -> None:
        """Note the first axis of what a module of torch's reads."""
        if not isinstance(module, _WITH_TIME) or len({*self._shape}) < 2:
            return
        states = next((value for value in arguments if isinstance(value, Tensor)), None)
        is_of_ids = states is not None and states.ndim == 3 and states.shape[:2] == self._shape
        self._is_time_first |= is_of_ids and not getattr(module, "self_attn", module).batch_first

    def signs(self) -> dict[str, float]:
        """What tells a batch (rows, time) that is read as (time, rows); nothing of other models."""
        if not self._is_time_first or self._ids is None or self._ids.ndim != 2:
            return {}
        return {"call.time_first": 1.0, "batch.across": text_in_columns(self._ids.T)}


def disorder(ids: Int[Tensor, "rows time"], is_real: Bool[Tensor, "rows time"]) -> float | None:
    """How often pairs of neighbours come again, over pairs further apart, if no order shows.

    Tokens of one row may belong to one text, so that they meet more often than by chance. In any
    order but a text's, they do so at all distances alike. None if tokens at one distance tell more
    of each other, or of their places, as those of a text or of a form do; and if the rows are too
    few to show it.

    Args:
        ids: The rows as they are read.
        is_real: Whether each place holds a token of a text.
    """
    is_form = _share_of_usual(ids) >= _FORM
    ids, is_real = ids[:, ~is_form], is_real[:, ~is_form]
    if ids.shape[1] < 2 or len(_kinds(ids[is_real])) < _FEWEST_KINDS:
        return None
    nearest = count_pairs(*_pairs(ids, is_real, 1))
    if nearest is None or nearest.by_chance < _FEWEST_PAIRS:
        return None
    distances = range(2, min(ids.shape[1], _FARTHEST))
    counts = [count_pairs(*_pairs(ids, is_real, distance)) for distance in distances]
    ratios = [pairs.n_equal / pairs.by_chance for pairs in counts if pairs and pairs.by_chance]
    usual = max(1.0, statistics.median(ratios or [1.0]))
    # tokens that a text repeats make more of the difference than chance does
    bend = statistics.median([abs(ratio - usual) for ratio in ratios] or [0.0])
    spread = max(_OF_MEDIAN * bend, (usual / nearest.by_chance) ** 0.5)
    ratio, highest = nearest.n_equal / nearest.by_chance, max(ratios, default=usual)
    if ratio > usual + _DEVIATIONS * spread or highest > usual + _CLEAR * spread:
        return None
    places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    return None if is_clearly_tied(places[is_real], ids[is_real]) else ratio / usual


def filled(ids: Int[Tensor, "rows time"], special_ids: Collection[int | None] = ()) -> float:
    """The share of places that one id fills at an even distance; 0 if none does.

    Texts that are joined begin anew, each at a distance of its own.

    Args:
        ids: Rows of text.
        special_ids: Special ids, which no text holds at even distances.
    """
    if ids.numel() < _FEWEST_TOKENS:
        return 0.0
    values, counts = cast("Any", torch).unique(ids, return_counts=True)
    for place in counts.topk(min(_FREQUENT, len(counts))).indices:
        rows, places = (ids == values[place]).nonzero().unbind(1)
        gaps = places.diff()[rows.diff() == 0]
        if len(gaps) < _FEWEST_GAPS:
            continue
        gap, is_named = int(gaps.mode().values), int(values[place]) in special_ids
        is_even = float((gaps == gap).double().mean()) >= (_MAJORITY if is_named else _NEARLY_ALL)
        if gap in _PERIODS and is_even:
            return 1 / gap
    return 0.0


def measure_batches(batches: Sequence[Rows | None]) -> dict[str, Tensor]:
    """The signs of the order of several batches, which show it where one has too few tokens.

    Args:
        batches: The first rows of each, and where they have tokens; None if they are unknown.
    """
    row_batches = [batch for batch in batches if batch is not None and batch[0].shape[1] > 1]
    if not row_batches:
        return {}
    width = min(rows.shape[1] for rows, _ in row_batches)
    ids = torch.cat([rows[:, :width] for rows, _ in row_batches])
    is_real = torch.cat(
        [
            (torch.ones_like(x) if mask is None else mask)[:, :width].bool()
            for x, mask in row_batches
        ]
    )
    nearest, signs = count_pairs(*_pairs(ids, is_real, 1)), {"batch.filled": filled(ids)}
    # otherwise neighbours tell of each other
    if nearest is not None and nearest.n_equal <= _NEIGHBOUR_RATIO * nearest.by_chance:
        ratio = disorder(ids, is_real)
        signs |= {} if ratio is None else {"batch.disorder": ratio}
        if bool(is_real.all()):
            signs["batch.interleaved"] = interleaving(ids)
            signs["batch.columns"] = text_in_columns(ids)
    return {id: torch.tensor(value, device="cpu") for id, value in signs.items()}


def _ratio_of_unequal(first: Int[Tensor, "rows time"], second: Int[Tensor, "rows time"]) -> float:
    """How often pairs of two tokens come again, over how often by chance; 1 if that is chance.

    An end that is a quarter of all tokens meets itself more often, or more rarely, by the lengths
    of a few texts.
    """
    is_unequal = first != second
    pairs = count_pairs(first[is_unequal], second[is_unequal])
    is_tied = pairs is not None and pairs.is_clear and pairs.n_equal > pairs.by_chance
    return pairs.n_equal / max(pairs.by_chance, 1.0) if pairs is not None and is_tied else 1.0


def _share_of_usual(ids: Int[Tensor, "rows time"]) -> Tensor:
    """For each place, the share of the rows that hold its most frequent id."""
    return (ids == ids.mode(0).values).double().mean(0)


def _pairs(
    ids: Int[Tensor, "rows time"], is_real: Bool[Tensor, "rows time"], distance: int
) -> tuple[Tensor, Tensor]:
    """The tokens at a distance, if both are real: the first ones and the second ones."""
    are_real = is_real[:, :-distance] & is_real[:, distance:]
    return ids[:, :-distance][are_real], ids[:, distance:][are_real]


def _kinds(ids: Tensor) -> Tensor:
    kinds: Tensor = cast("Any", torch).unique(ids)
    return kinds
