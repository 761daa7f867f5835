"""A page: the numbers of some updates in a row, on their device, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pellucid.vitals.ledger.batch_rows import (
    PARTS,
    ROWS,
    Rows,
    gram_checksums,
    kinship,
    overlaps,
    row_checksums,
)
from pellucid.vitals.ledger.bounds import noise_ratio, share_at_bound
from pellucid.vitals.ledger.label_tokens import LabelledRows

#: The columns of `Page.statistics`.
COLUMNS = (
    "before",
    "after",
    "gradient",
    "size",
    "step",
    "slope",
    "uphill",
    "moved",
    "written",
    "undone",
    "aside",
    "lost",
    "pull",
    "left",
    "cut",
    "agrees",
    "stale",
    "outputs",
    "fresh",
    "class_low",
    "class_high",
    "follows",
    "lowered",
    "shifted",
    "rounded",
    "reverted",
    "overlap",
    "weight_bound",
    "gradient_bound",
    "noise",
    "pulled",
    "kinship",
    "tokens",
    *(f"text{i}" for i in range(ROWS)),
    *(f"gram{i}" for i in range(ROWS * PARTS)),
)
#: Of the numbers that an update moved, so few may have stayed for the update to count as undone.
_STAYED = 0.02
#: Two gradients are one from this cosine on. One is another's in place of its own if its own one is
#: further away than that of rounding and clipping.
_SAME, _OTHER = 1 - 1e-9, 1 - 1e-4
#: Weights are pulled to the first ones if a write has this cosine, or more, with the way back.
_PULL_COSINE = 0.99
#: A checksum has so many bits, which a float64 holds exactly.
_BITS = 52


class Page:
    """One row per update: the witnesses before it, their gradients, the witnesses after it.

    Args:
        rows: The most updates.
        width: The numbers of all witnesses.
        hooked: How many numbers of gradients are also kept as they arrive.
        device: The device of the witnesses.
        dtype: The widest type of the witnesses.
    """

    def __init__(
        self, rows: int, width: int, hooked: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, device=device, dtype=dtype)

        self.before, self.gradient, self.after = (zeros(rows, width) for _ in range(3))
        #: the first gradient that arrives in an update, and the one that was there before it
        self.old, self.new = zeros(rows, hooked), zeros(rows, hooked)
        #: the gradient once all of its parts have arrived
        self.total = zeros(rows, hooked)
        #: the sum of the absolute gradients of the logits
        self.outputs = zeros(rows)
        #: how often a gradient arrived where none was
        self.fresh = zeros(rows)
        #: the lowest and the highest class of the batch's labels; -1 if they are no classes
        self.classes = zeros(rows, 2) - 1
        #: the shares of targets that are the next ids and are pushed down, and how far they lie
        self.pulls = zeros(rows, 3) - 1
        #: the first rows of each batch, and numbers of the other texts that they are to become
        self.texts: list[Rows | None] = [None] * rows
        self.targets: list[Tensor | None] = [None] * rows
        #: the first rows of each batch, and their classes
        self.labelled: list[LabelledRows | None] = [None] * rows
        #: the masked places of each batch
        self.masks: list[Tensor | None] = [None] * rows
        #: the weights after the update before the page, and before the first of all, if known
        self.previous: Tensor | None = None
        self.start: Tensor | None = None

    def statistics(
        self, n: int, decay: Tensor, narrow: Tensor, hooked: slice, matrices: Tensor
    ) -> Tensor:
        """Numbers (n, columns) of the first `n` rows.

        Args:
            n: The number of rows that are filled.
            decay: The coupled weight decay of each number of a witness.
            narrow: Whether each number has 16 bits.
            hooked: The columns of the gradients that are also kept as they arrive.
            matrices: The columns (matrices, numbers) of each matrix.
        """
        before, gradient, after = (x[:n].double() for x in (self.before, self.gradient, self.after))
        old, new, total = (x[:n].double() for x in (self.old, self.new, self.total))
        change = after - before
        first = before[:1] if self.previous is None else self.previous.double()[None]
        gap = before - torch.cat([first, after[:-1]])
        decays, is_narrow = decay.to(before.device) > 0, narrow.to(before.device)
        stayed = (change == 0) & (gradient != 0)
        used = gradient[:, hooked]
        numbers: Sequence[Tensor] = (
            checksum(before),
            checksum(after),
            checksum(gradient),
            _rms(before),
            _rms(change),
            _rms(gradient),
            _cosine(change, gradient),
            (change != 0).any(1).double(),
            _rms(gap),
            _undone(change, gap),
            _aside(change, gap),
            _share(stayed & is_narrow, (gradient != 0) & is_narrow),
            _ratio(_rms(decay.to(before) * before), _rms(gradient * decays)),
            _ratio(_rms(old), _rms(new)),
            _ratio((used * total).sum(1), total.square().sum(1)),
            _cosine(used, total) if total.shape[1] else gradient.new_zeros(n),
            _stale(used, total),
            self.outputs[:n].double(),
            self.fresh[:n].double(),
            *self.classes[:n].double().unbind(1),
            *self.pulls[:n].double().unbind(1),
            _rounded(before, change, gap),
            _reverted(before, change),
            overlaps(self.masks[:n]).to(before),
            share_at_bound(before, matrices),
            share_at_bound(gradient, matrices),
            noise_ratio(used, total),
            _pulled(gap, before - gap, self.start),
            kinship(self.texts[:n]).to(before),
            *row_checksums(self.texts[:n], self.targets[:n]).to(before).unbind(1),
            *gram_checksums(self.texts[:n], self.targets[:n]).to(before).unbind(1),
        )
        return torch.stack([*numbers], 1)


def checksum(numbers: Tensor) -> Tensor:
    """A number per row (rows, width) that equal rows share and others, practically, do not."""
    bits = numbers.contiguous().view(torch.int64)
    places = torch.arange(numbers.shape[1], device=numbers.device)
    # odd factors: no bit of a number is lost
    mixed = (bits ^ (bits >> 29)) * (places * 0x9E3779B97F4A7C1 * 2 + 1)
    total = mixed.sum(1)
    return ((total ^ (total >> 31)) & ((1 << _BITS) - 1)).double()


def copy_into(row: Tensor, numbers: Sequence[Tensor | None], sizes: Sequence[int]) -> None:
    """Copy numbers of several tensors to a row; zeros for one that is missing."""
    empty: Callable[[int], Tensor] = row.new_zeros
    total = [empty(size) if x is None else x for x, size in zip(numbers, sizes, strict=True)]
    torch.cat(total, out=row)


def rows_of(numbers: Sequence[float]) -> list[dict[str, float]]:
    """A page's statistics as one table per row."""
    width = len(COLUMNS)
    return [
        dict(zip(COLUMNS, numbers[i : i + width], strict=True))
        for i in range(0, len(numbers), width)
    ]


def _rms(x: Tensor) -> Tensor:
    return x.square().mean(1).sqrt()


def _cosine(x: Tensor, y: Tensor) -> Tensor:
    """The cosine of each row; 0 if one side is zero."""
    return (x * y).mean(1) / (_rms(x) * _rms(y)).clamp_min(1e-300)


def _stale(used: Tensor, total: Tensor) -> Tensor:
    """How many updates before a gradient that is used arrived; 0 if it is the update's own.

    -1 if one of them is not known, or is zero; and for the first one, which has none before it.
    """
    norms = [x.square().sum(1, keepdim=True).sqrt() for x in (used, total)]
    units = [x / norm.clamp_min(1e-300) for x, norm in zip((used, total), norms, strict=True)]
    cosines = units[0] @ units[1].T
    age = torch.arange(len(used), device=used.device)
    is_earlier = (age[:, None] > age) & (cosines > _SAME)
    is_other = cosines.diagonal() < _OTHER
    ages = (age[:, None] - age).masked_fill(~is_earlier, len(used)).amin(1)
    stale = torch.where(is_earlier.any(1) & is_other, ages, 0).to(used)
    is_known = ((norms[0] * norms[1])[:, 0] > 0) & (age > 0)
    return torch.where(is_known, stale, -1.0)


def _undone(change: Tensor, gap: Tensor) -> Tensor:
    """What is taken back of nearly every number that the update before moved; -1 if unknown.

    A mask of pruned weights takes back its own part alone, and a norm the part along the weights.
    """
    ratio = -gap[1:] / change[:-1]
    is_finite = ratio.isfinite()
    share = _low_quantile(ratio.masked_fill(~is_finite, math.inf), is_finite.sum(1))
    return torch.cat([share.new_full((1,), -1.0), share])


def _low_quantile(x: Tensor, counts: Tensor) -> Tensor:
    """The quantile `_STAYED` of the numbers in each row, as torch has it; -1 without numbers.

    `torch.quantile` sorts all numbers, though the quantile is among the first few.

    Args:
        x: The numbers (rows, width), and inf where there is none.
        counts: The numbers in each row.
    """
    place = (counts - 1).clamp_min(0).to(x) * _STAYED
    n_lowest = min(x.shape[1], math.floor(x.shape[1] * _STAYED) + 2)
    lowest = x.topk(n_lowest, 1, largest=False).values
    low_place = place.floor()
    high_place = (low_place + 1).clamp_max(n_lowest - 1)
    low, high = (lowest.gather(1, i.long()[:, None])[:, 0] for i in (low_place, high_place))
    weight = place - low_place
    return torch.where(counts == 0, -1.0, torch.where(weight == 0, low, low.lerp(high, weight)))


def _aside(change: Tensor, gap: Tensor) -> Tensor:
    """The share of the numbers that something else moved, and not back; -1 if unknown.

    Masks, averages and limits of weights take back what the update before did.
    """
    is_moved, is_back = gap[1:] != 0, gap[1:] * change[:-1] < 0
    return torch.cat([gap.new_full((1,), -1.0), _share(is_moved & ~is_back, is_moved)])


def _pulled(gap: Tensor, last: Tensor, start: Tensor | None) -> Tensor:
    """The share of the way from the start that a write takes back, if it goes straight there.

    0 of a write that goes elsewhere, and without one; -1 if the start is not known.

    Args:
        gap: The change between two updates.
        last: The weights before it.
        start: The weights at the start.
    """
    if start is None:
        return gap.new_full((len(gap),), -1.0)
    to_start = start.double() - last
    share = _rms(gap) / _rms(to_start).clamp_min(1e-300)
    return torch.where(_cosine(gap, to_start) >= _PULL_COSINE, share, 0.0)


def _rounded(before: Tensor, change: Tensor, gap: Tensor) -> Tensor:
    """The share of the numbers that moved and went back, where all now have 16 bits; else 0."""
    half = before.to(torch.bfloat16).double(), before.half().double()
    is_short = (before == half[0]).all(1) | (before == half[1]).all(1)
    is_stepped = change[:-1] != 0
    is_back = is_stepped & (gap[1:] == -change[:-1]) & (before[1:] != 0)
    share = _share(is_back, is_stepped) * is_short[1:]
    return torch.cat([share.new_zeros(1), share])


def _reverted(before: Tensor, change: Tensor) -> Tensor:
    """The share of the numbers that the update before moved and that are as before it; else -1."""
    is_stepped = change[:-1] != 0
    share = _share(is_stepped & (before[1:] == before[:-1]), is_stepped)
    return torch.cat([share.new_full((1,), -1.0), share])


def _share(part: Tensor, total: Tensor) -> Tensor:
    return _ratio(part.sum(1).double(), total.sum(1).double())


def _ratio(part: Tensor, total: Tensor) -> Tensor:
    """The ratio of each row; -1 if there is nothing to divide by."""
    return torch.where(total == 0, torch.full_like(part, -1.0), part / total)
