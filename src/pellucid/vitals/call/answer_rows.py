"""Rows of ids that belong together: both answers of a pair, and several answers to one prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor

#: More comparisons of ids than this take too long.
_MOST = 2**24
#: Of fewer pairs, the longer answers are the chosen ones by chance.
_FEWEST_PAIRS = 8

#: Ids (rows, time), and a mask of the same shape that is 1 for real tokens, if there is one.
MaskedIds = tuple[Tensor, Tensor | None]


def pair_signs(calls: Sequence[MaskedIds]) -> dict[str, float]:
    """How much the two answers of a pair differ.

    The partner of a row is the one that differs from it in the fewest tokens behind the start that
    both share. `answers.tail` is the median of these numbers, of the longer row of the two, and
    `answers.equal` the share of rows that are the same as their partner.

    Args:
        calls: The rows of each call.
    """
    rows = [row for ids, mask in calls for row in _texts(ids, mask)]
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
    tails = differing.fill_diagonal_(width + 1).amin(1)
    return {
        "answers.tail": float(tails.double().quantile(0.5)),
        "answers.equal": float((tails == 0).double().mean()),
    }


def longer_answers(
    calls: Sequence[MaskedIds], weighed: Mapping[int, tuple[Tensor, Tensor]]
) -> dict[str, float]:
    """The share of pairs whose raised answer is the longer one, and their number.

    The partner of a raised row is the lowered one that shares the longest start with it. A pair of
    one length counts as half.

    Args:
        calls: The rows of each call.
        weighed: For some calls, which of their rows have a weight, and the weights (rows), which
            are negative where an answer is made less likely.
    """
    raised, lowered = list[Tensor](), list[Tensor]()
    for call, (places, row_weights) in weighed.items():
        if not 0 <= call < len(calls):
            continue
        texts = _texts(*calls[call])
        numbers: list[float] = cast("Any", row_weights).tolist()
        rows: list[int] = cast("Any", places).tolist()
        for place, weight in zip(rows, numbers, strict=True):
            if place < len(texts) and weight:
                (raised if weight > 0 else lowered).append(texts[place])
    width = max(map(len, (*raised, *lowered)), default=0)
    if len(raised) < _FEWEST_PAIRS or not lowered or len(raised) * len(lowered) * width > _MOST:
        return {}
    shares = [
        0.5 * (1 + _sign(len(row) - len(max(lowered, key=lambda lower: _shared(row, lower)))))
        for row in raised
    ]
    return {"answers.longer": sum(shares) / len(shares), "answers.pairs": float(len(shares))}


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


def _texts(ids: Tensor, mask: Tensor | None) -> list[Tensor]:
    """The real tokens of each row."""
    if mask is None or mask.shape != ids.shape:
        return list(ids)
    return [row[is_real] for row, is_real in zip(ids, mask.bool(), strict=True)]


def _equal_rows(ids: Int[Tensor, "rows time"]) -> Bool[Tensor, "rows rows"]:
    return (ids[:, None] == ids[None]).all(2)
