"""Rows of ids that belong together: both answers of a pair, and several answers to one prompt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.typed import to_list
from pellucid.vitals.call.pair_weights import (
    PaidAnswer,
    differ_in_unit,
    explain_weights,
    same_answer,
)

#: More comparisons of ids than this take too long.
_MOST = 2**24
#: Of fewer pairs, one side is the longer, the first or the stranger one by chance.
_FEWEST_PAIRS = 6
#: Two answers to one prompt share so many tokens more than answers to other prompts do.
_PROMPT = 4
#: A last token of so many is a small part of an answer.
_LONG = 4
#: Weights of one group add up to no more than this share of their sizes, in half precision.
_CENTRED = 0.02
#: Rows of a later call come after all of an earlier one.
_CALL = 2**20

#: Ids (rows, time), and a mask of the same shape that is 1 for real tokens, if there is one.
MaskedIds = tuple[Tensor, Tensor | None]


class RowReadings(NamedTuple):
    """What the gradient of a call shows of its rows.

    Attributes:
        rows: Which rows of the call these are (n).
        weights: Their weights (n), negative where an answer is made less likely.
        surplus: How much likelier their tokens are than the model's own would be, in nats a token
            (n); NaN if unknown.
        log_p: log P of all tokens that are paid for (n), in nats; None, or NaN, if unknown.
        n_tokens: How many these are (n); None if unknown.
    """

    rows: Tensor
    weights: Tensor
    surplus: Tensor
    log_p: Tensor | None = None
    n_tokens: Tensor | None = None


def pair_signs(
    calls: Sequence[MaskedIds], readings: Mapping[int, RowReadings] | None = None
) -> dict[str, float]:
    """How much the two answers of a pair differ.

    The partner of a row is the one that differs from it in the fewest tokens behind the start that
    both share; of two rows that are raised, or lowered, neither is the other's partner.
    `answers.tail` is the median of these numbers, of the longer row of the two, and
    `answers.equal` the share of rows that are the same as their partner.

    Args:
        calls: The rows of each call.
        readings: What the gradient showed of some calls.
    """
    rows = [row for ids, mask in calls for row in texts_of(ids, mask)]
    width = max(map(len, rows), default=0)
    if len(rows) < 2 or len(rows) ** 2 * width > _MOST:
        return {}
    # no id is negative: behind its end, no row shares anything with another
    padded = torch.full((len(rows), width), -1, device=rows[0].device)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    is_same = (padded[:, None] == padded[None]) & (padded >= 0)[:, None]
    shared = is_same.long().cumprod(2).sum(2)
    lengths = torch.tensor([len(row) for row in rows], device=padded.device)
    differing = torch.maximum(lengths[:, None], lengths[None]) - shared
    sides = _sides(calls, readings or {}).to(padded.device)
    differing = differing.masked_fill(sides[:, None] * sides[None] > 0, width + 1)
    tails = differing.fill_diagonal_(width + 1).amin(1)
    return {
        "answers.tail": float(tails.double().quantile(0.5)),
        "answers.equal": float((tails == 0).double().mean()),
    }


class _Answer(NamedTuple):
    place: int
    ids: Tensor
    surplus: float
    paid: PaidAnswer


def compare_pairs(
    calls: Sequence[MaskedIds], readings: Mapping[int, RowReadings]
) -> dict[str, float]:
    """Which answer of each pair is the longer one, comes first, and is the stranger one.

    The partner of a raised row is the lowered one that shares the longest start with it; of
    several, the nearest. `answers.longer` is the share of raised answers that are longer (a pair of
    one length counts half). `answers.first` is the share that comes before its partner, and
    `answers.stranger` the share that surprises the model more; `answers.gap` is the median of this
    surprise, in nats a token. `answers.split` is the share of raised answers whose prompt another
    raised answer has, and no lowered one. `answers.matched` is 1 if each has a partner of its own.

    Args:
        calls: The rows of each call.
        readings: What the gradient showed of some calls.
    """
    raised, lowered = list[_Answer](), list[_Answer]()
    for call, reading in sorted(readings.items()):
        if not 0 <= call < len(calls):
            continue
        texts = texts_of(*calls[call])
        columns: list[list[float]] = [
            to_list(torch.full_like(reading.weights, torch.nan) if column is None else column)
            for column in reading
        ]
        for row, weight, surplus, log_p, n_tokens in zip(*columns, strict=True):
            if row < len(texts) and weight:
                paid = PaidAnswer(abs(weight), log_p, n_tokens, surplus)
                answer = _Answer(call * _CALL + int(row), texts[int(row)], surplus, paid)
                (raised if weight > 0 else lowered).append(answer)
    width = max((len(answer.ids) for answer in (*raised, *lowered)), default=0)
    if len(raised) < _FEWEST_PAIRS or not lowered or len(raised) * len(lowered) * width > _MOST:
        return {}
    pairs = [(answer, _partner(answer, lowered)) for answer in raised]
    shared = [_shared(a.ids, b.ids) for a, b in pairs]
    chosen, rejected = (
        [to_list(pair[side].ids[n:]) for pair, n in zip(pairs, shared, strict=True)]
        for side in (0, 1)
    )
    signs = {
        "answers.longer": fmean(0.5 * (1 + _sign(len(a.ids) - len(b.ids))) for a, b in pairs),
        "answers.first": fmean(a.place < b.place for a, b in pairs),
        "answers.pairs": float(len(pairs)),
        "answers.matched": float(len({b.place for _, b in pairs}) == len(pairs)),
        "answers.split": _split(
            [_lead(a, raised) - n for (a, _), n in zip(pairs, shared, strict=True)]
        ),
        "answers.same_chosen": same_answer(chosen),
        "answers.same_rejected": same_answer(rejected),
    }
    gaps = [b.surplus - a.surplus for a, b in pairs if math.isfinite(b.surplus - a.surplus)]
    if len(gaps) >= _FEWEST_PAIRS:
        signs["answers.stranger"] = fmean(gap > 0 for gap in gaps)
        signs["answers.gap"] = median(gaps)
    paid_pairs = [(a.paid, b.paid) for a, b in pairs]
    return signs | explain_weights(paid_pairs) | differ_in_unit(paid_pairs)


def _sides(calls: Sequence[MaskedIds], readings: Mapping[int, RowReadings]) -> Tensor:
    """1 for each row that is raised, -1 for one that is lowered, 0 if unknown, of all calls."""
    sides = [torch.zeros(len(ids)) for ids, _ in calls]
    for call, reading in readings.items():
        if 0 <= call < len(calls):
            rows = reading.rows.cpu()
            is_in = rows < len(sides[call])
            sides[call][rows[is_in]] = reading.weights.float().cpu().nan_to_num().sign()[is_in]
    return torch.cat(sides)


def _partner(answer: _Answer, others: Sequence[_Answer]) -> _Answer:
    """The other answer to a prompt: it shares the longest start, and of several it is nearest."""

    def likeness(other: _Answer) -> tuple[int, int, bool]:
        distance = other.place - answer.place
        return _shared(answer.ids, other.ids), -abs(distance), distance > 0

    return max(others, key=likeness)


def _lead(answer: _Answer, raised: Sequence[_Answer]) -> int:
    """The longest start that it shares with another raised answer."""
    starts = (_shared(answer.ids, sibling.ids) for sibling in raised if sibling is not answer)
    return max(starts, default=0)


def _split(leads: Sequence[int]) -> float:
    """The share of answers that share more with their own side; 0 if it is by a few tokens."""
    return fmean(lead > 0 for lead in leads) if median(leads) >= _PROMPT else 0.0


def _shared(first: Tensor, second: Tensor) -> int:
    """How many tokens both begin with."""
    n = min(len(first), len(second))
    return int((first[:n] == second[:n]).long().cumprod(0).sum())


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def alike(ids: Int[Tensor, "rows time"], prompts: Int[Tensor, "rows start"]) -> float | None:
    """The share of answers that equal another answer to their prompt.

    None if no prompt is answered twice.

    Args:
        ids: Prompts with their answers.
        prompts: The prompt of each of these rows.
    """
    if len(ids) ** 2 * ids.shape[1] > _MOST:
        return None
    is_other = ~torch.eye(len(ids), dtype=torch.bool, device=ids.device)
    is_rival = _equal_rows(prompts) & is_other
    if not bool(is_rival.any()):
        return None
    has_rival, is_copy = is_rival.any(1), (_equal_rows(ids) & is_rival).any(1)
    return float(is_copy.sum() / has_rival.sum())


def begin_alike(ids: Int[Tensor, "rows time"], prompts: Int[Tensor, "n start"]) -> bool:
    """Whether each row begins with one of the prompts and is longer, in any order."""
    starts = ids[:, : prompts.shape[1]]
    if ids.shape[1] <= prompts.shape[1] or starts.numel() * len(prompts) > _MOST:
        return False
    return bool((starts[:, None] == prompts[None]).all(2).any(1).all())


def first_rows_of(prompts: Int[Tensor, "rows start"]) -> list[int]:
    """For each row the first one with its prompt, by which answers to one prompt are grouped."""
    return to_list(_equal_rows(prompts).long().argmax(1))


def mixed_groups(prompts: Int[Tensor, "rows start"], reading: RowReadings) -> dict[str, float]:
    """Whether advantages are centred over rows side by side, which answer different prompts.

    The weights of a group add up to 0 if its mean is taken off. If n answers to a prompt are far
    apart, n rows side by side are no group. Nothing if some prompt has one answer, or more answers
    than another.

    Args:
        prompts: The prompt of each row of the call.
        reading: The weights of some of its rows.
    """
    first_rows = first_rows_of(prompts)
    sizes = set(Counter(first_rows).values())
    size = min(sizes)
    if size < 2 or len(sizes) > 1 or size == len(first_rows):
        return {}
    weights = dict(zip(to_list(reading.rows), to_list(reading.weights.nan_to_num()), strict=True))
    groups: dict[int, list[int]] = {}
    blocks: dict[int, list[int]] = {}
    for row, first in enumerate(first_rows):
        groups.setdefault(first, []).append(row)
        blocks.setdefault(row // size, []).append(row)
    mixed_blocks = [rows for rows in blocks.values() if len({first_rows[row] for row in rows}) > 1]
    blocks_centred, groups_centred = (
        [_is_centred([weights[row] for row in rows]) for rows in parts if weights.keys() >= {*rows}]
        for parts in (mixed_blocks, groups.values())
    )
    if not blocks_centred:
        return {}
    # without a group that is known whole, one block may be centred by chance
    is_shown = not all(groups_centred) if groups_centred else len(blocks_centred) > 1
    return {"answers.mixed": float(all(blocks_centred) and is_shown)}


def pays_last_alone(gradient: Tensor, start: int) -> bool:
    """Whether the one place with a gradient in each answer of several tokens is the last one.

    Args:
        gradient: (rows, time, vocab) of the loss by the logits.
        start: The length of the prompts.
    """
    is_paid = (gradient != 0).any(-1)
    last = gradient.shape[1] - 2  # the last place has no token behind it, if it was read at all
    rows = is_paid[is_paid.any(1)]
    is_long = gradient.shape[1] - start >= _LONG
    return (
        is_long and len(rows) > 0 and bool((rows.sum(1) == 1).all() & rows[:, last:].any(1).all())
    )


def _is_centred(weights: Sequence[float]) -> bool:
    total = sum(map(abs, weights))
    return total > 0 and abs(sum(weights)) < _CENTRED * total


def texts_of(ids: Tensor, mask: Tensor | None) -> list[Tensor]:
    """The real tokens of each row."""
    if mask is None or mask.shape != ids.shape:
        return list(ids)
    return [row[is_real] for row, is_real in zip(ids, mask.bool(), strict=True)]


def _equal_rows(ids: Int[Tensor, "rows time"]) -> Bool[Tensor, "rows rows"]:
    return (ids[:, None] == ids[None]).all(2)
