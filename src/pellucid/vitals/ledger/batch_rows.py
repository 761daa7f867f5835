"""Checksums of a batch's rows: equal for the same text, however it is padded or masked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.vitals.taps.recorded_call import is_plain

#: Most rows of a batch that get a checksum.
ROWS = 8
#: Masks lie in so many pieces of a row, on average, and answers in one.
_RUNS = 2
#: Ids are counted modulo a number. Halves of a batch have so many tokens and so much in common, or
#: say nothing.
_KINDS, _FEWEST_TOKENS, _LIKENESS = 256, 64, 0.5
#: The same of single rows, of which each id counts once.
_WORDS = 512
#: Of few ids, chance alone makes batches alike.
_MOST_CHANCE = 0.5
#: More classes are those of a vocabulary.
MOST_CLASSES = 32
#: Fewer rows are often of one class by chance.
_CLASSED = 4
#: A checksum has so many bits, which a float32 holds exactly.
_BITS = 24
#: Tokens of a piece of text, how many kinds of checksums pieces have, and the factor of these.
GRAM, PARTS, _ODD = 8, 4, 0x9E3779B97F4A7C1 * 2 + 1
#: The ids (rows, time) of a batch's first rows; True where they are tokens, None if all are.
Rows = tuple[Tensor, Tensor | None]


def kinds_of_tokens(
    ids: Int[Tensor, "rows time"], real: Tensor | None = None
) -> Float[Tensor, "rows kinds"]:
    """1 for each kind of token that a row has; ids are counted modulo a number.

    Args:
        ids: The ids of the rows.
        real: Whether they are tokens; None if all are.
    """
    real = torch.ones_like(ids) if real is None else real
    counts = torch.zeros((len(ids), _WORDS), device=ids.device)
    return counts.scatter_add(1, ids % _WORDS, real.float()).clamp_max(1.0)


def last_places(is_counted: Bool[Tensor, "rows time"]) -> Int[Tensor, "rows 1"]:
    """The last place of each row that counts; 0 if none does.

    Args:
        is_counted: Whether a place counts.
    """
    places = torch.arange(is_counted.shape[1], device=is_counted.device)
    return torch.where(is_counted, places, 0).amax(1, keepdim=True)


def first_rows(ids: Int[Tensor, "batch time"], mask: Any = None, labels: Any = None) -> Rows | None:
    """Copies of the first rows, and where they have tokens; None if ids are no rows.

    Args:
        ids: The ids that the model reads.
        mask: 1 for tokens and 0 for padding, if the call has such a mask.
        labels: The labels of the call; a masked token is known by its label.
    """
    if ids.ndim != 2:
        return None
    rows = ids[:ROWS].long()
    if _is_like(labels, rows):
        labels = labels[:ROWS].long()
        # classes of tokens are no tokens
        is_text = (labels.amax() >= MOST_CLASSES) | (rows.amax() < MOST_CLASSES)
        rows = torch.where((labels >= 0) & is_text, labels, rows)
    else:
        rows = rows.clone()
    return rows, mask[:ROWS] != 0 if _is_like(mask, rows) else None


def masked_places(ids: Int[Tensor, "batch time"], labels: Any) -> Bool[Tensor, "rows time"] | None:
    """The places of the first rows that are paid for, if most of them hold one id, a mask.

    None without a label for each place. No place is True if they hold various ids, or lie together.

    Args:
        ids: The ids that the model reads.
        labels: The labels of the call.
    """
    if ids.ndim != 2 or not _is_like(labels, ids):
        return None
    ids, is_paid = ids[:ROWS], labels[:ROWS] >= 0
    first = ids.flatten()[is_paid.flatten().long().argmax()]
    is_masked = 2 * ((ids == first) & is_paid).sum() > is_paid.sum()
    n_runs = (is_paid[:, 1:] & ~is_paid[:, :-1]).sum()
    return is_paid & is_masked & (n_runs >= _RUNS * len(ids))


def overlaps(batches: Sequence[Tensor | None]) -> Float[Tensor, " batches"]:
    """How far the masked places of each batch are those of the one before; -1 if unknown.

    The places of both, of those of either. By chance a share d of all places gives d / (2 - d).

    Args:
        batches: Of each batch, what `masked_places` gives.
    """
    shares = [-torch.ones(())] * len(batches)
    for i, (before, places) in enumerate(pairwise(batches), start=1):
        if before is None or places is None:
            continue
        rows, time = (min(sizes) for sizes in zip(before.shape, places.shape, strict=True))
        before, places = before[:rows, :time], places[:rows, :time]
        n_either = (before | places).sum()
        share = (before & places).sum() / n_either.clamp_min(1)
        is_known = before.any() & places.any() & (2 * n_either < before.numel())
        shares[i] = torch.where(is_known, share, -1.0)
    device = next((places.device for places in batches if places is not None), None)
    return torch.stack([share.to(device) for share in shares])


def kinship(batches: Sequence[Rows | None]) -> Float[Tensor, " batches"]:
    """How like a batch is to the batch that is most like it, over how like its own halves are.

    Likeness is the correlation of how often each id comes, less what the largest of so many is by
    chance, 0 at least. -1 if it is unknown: of one batch, of short ones, and of halves that have
    little in common.

    Args:
        batches: At least one batch, each as `first_rows` gives it.
    """
    ids, real = _stacked(batches)
    n = len(ids)
    counts = torch.zeros((n, ROWS, _KINDS), device=ids.device)
    counts.scatter_add_(2, ids % _KINDS, real.float())
    halves = torch.stack([counts[:, ::2].sum(1), counts[:, 1::2].sum(1)], 1)
    is_long = (halves.sum(2) >= _FEWEST_TOKENS).all(1)
    # ids that no batch uses say nothing
    is_used = counts.sum((0, 1)) > 0
    units, profile = _directions(halves, is_used), _directions(halves.sum(1), is_used)
    own_likeness = (units[:, 0] * units[:, 1]).sum(1)
    is_other = is_long & ~torch.eye(n, dtype=torch.bool, device=ids.device)
    likeness = (profile @ profile.T).masked_fill(~is_other, -1.0).amax(1)
    # the largest of m correlations of n unrelated numbers is about the root of 2 ln m / n
    spread = 2 * is_other.sum(1).clamp_min(1).log() / is_used.sum().clamp_min(1)
    chance = spread.sqrt().clamp_max(_MOST_CHANCE)
    likeness = (likeness - chance) / (1 - chance)
    is_known = is_long & is_other.any(1) & (own_likeness >= _LIKENESS)
    return torch.where(is_known, likeness.clamp_min(0.0) / own_likeness.clamp_min(_LIKENESS), -1.0)


def _directions(counts: Tensor, is_used: Tensor) -> Tensor:
    """Counts without their mean over the ids that are used, of length 1."""
    n_used = is_used.sum().clamp_min(1)
    centred = (counts - counts.sum(-1, keepdim=True) / n_used) * is_used
    return torch.nn.functional.normalize(centred, dim=-1)


def text_checksums(labels: Int[Tensor, "batch time"]) -> Int[Tensor, " rows"]:
    """A number of the labels of each of the first rows; 0 of a row that has none.

    Args:
        labels: Below 0 where they are ignored.
    """
    labels = labels[:ROWS].long()
    return _checksums(labels, (labels >= 0).long())


def row_checksums(
    batches: Sequence[Rows | None], targets: Sequence[Tensor | None] = ()
) -> Float[Tensor, "batches 1+rows"]:
    """The mean length of each batch's first rows, and a number of each.

    The number of a row without tokens is 0, and all are 0 for a batch without rows.

    Args:
        batches: At least one batch, each as `first_rows` gives it.
        targets: For each batch the numbers of the rows' targets, if these are other texts.
    """
    ids, real = _stacked(batches)
    n_each = [ROWS if batch is None else len(batch[0]) for batch in batches]
    n_rows = torch.tensor(n_each).to(ids.device, non_blocking=True)
    checksums = (_checksums(ids, real) ^ _of_all(targets, ids)) * real.any(2)
    return torch.cat([(real.sum((1, 2)) / n_rows)[:, None], checksums.float()], 1)


def _checksums(ids: Int[Tensor, "*rows time"], real: Int[Tensor, "*rows time"]) -> Tensor:
    """A number of each row, the same however it is padded; 0 of a row without tokens."""
    # padding at the start moves nothing: places are counted from the first token
    places = real.cumsum(-1)
    mixed = (ids + 1) * (places * 0x9E3779B97F4A7C1 * 2 + 1)
    mixed = ((mixed ^ (mixed >> 29)) * real).sum(-1)
    return (mixed ^ (mixed >> 31)) & ((1 << _BITS) - 1)


def _of_all(
    targets: Sequence[Tensor | None], ids: Int[Tensor, "batches rows time"]
) -> Int[Tensor, "batches rows"]:
    """The numbers of all rows' targets; 0 where there are none."""
    numbers = ids.new_zeros(ids.shape[:2])
    for batch, checksums in zip(numbers, targets, strict=False):
        if checksums is not None:
            batch[: len(checksums)] = checksums
    return numbers


def gram_checksums(
    batches: Sequence[Rows | None], targets: Sequence[Tensor | None] = ()
) -> Float[Tensor, "batches rows*parts"]:
    """A few numbers of each row that rows with most of their text in common share; 0 without any.

    Each is the least of one kind of checksum of the row's pieces of `GRAM` tokens: the chance that
    two rows share it is the share of pieces that are in both, of those in either.

    Args:
        batches: At least one batch, each as `first_rows` gives it.
        targets: For each batch the numbers of the rows' targets, if these are other texts.

    Source:
        Broder 1997, "On the resemblance and containment of documents".
    """
    ids, real = _stacked(batches)
    if ids.shape[2] < GRAM:
        return torch.zeros((len(ids), ROWS * PARTS), device=ids.device)
    mixed = ids + 1 + _of_all(targets, ids)[..., None]
    for shift in (1, 2, 4):  # pieces of two, four and eight tokens
        mixed = mixed[..., :-shift] * _ODD + mixed[..., shift:]
        mixed = mixed ^ (mixed >> 29)
    is_text = (real[..., : 1 - GRAM] > 0) & (real[..., GRAM - 1 :] > 0)
    no_number = 1 << _BITS
    lowest: list[Tensor] = []
    for _ in range(PARTS):
        mixed = mixed * _ODD
        numbers = ((mixed >> 31) & (no_number - 1)).masked_fill(~is_text, no_number)
        lowest.append(numbers.amin(2))
    least = torch.stack(lowest, 2)
    return least.masked_fill(least == no_number, 0).float().flatten(1)


def _stacked(batches: Sequence[Rows | None]) -> tuple[Tensor, Tensor]:
    """The ids of all batches (batches, ROWS, width), and 1 where they are tokens."""
    width = max(0 if batch is None else batch[0].shape[1] for batch in batches)
    device = next((batch[0].device for batch in batches if batch is not None), None)
    empty = torch.zeros((ROWS, width), dtype=torch.long, device=device)
    pairs = [(empty, empty) if batch is None else batch for batch in batches]
    ids = torch.stack([_padded(rows, width) for rows, _ in pairs])
    real = torch.stack(
        [_padded(torch.ones_like(x) if mask is None else mask.long(), width) for x, mask in pairs]
    )
    return ids, real


def _padded(rows: Tensor, width: int) -> Tensor:
    """Rows with zeros after them: `ROWS` of this width."""
    missing = (0, width - rows.shape[1], 0, ROWS - rows.shape[0])
    return torch.nn.functional.pad(rows, missing) if any(missing) else rows


def _is_like(values: Any, ids: Tensor) -> bool:
    return (
        isinstance(values, Tensor)
        and values.ndim == 2
        and values.shape[1] == ids.shape[1]
        and not values.is_floating_point()
    )


def range_of_classes(labels: object) -> Tensor | None:
    """What `class_range` gives; None unless these are labels of enough rows, one class each."""
    if not isinstance(labels, Tensor) or labels.is_floating_point() or not is_plain(labels):
        return None
    return class_range(labels) if labels.ndim == 1 and len(labels) >= _CLASSED else None


def class_range(labels: Int[Tensor, " rows"]) -> Int[Tensor, " 2"]:
    """The lowest and the highest class; -1 twice if all labels are ignored.

    Args:
        labels: Of each row; below 0 where it is ignored.
    """
    highest = labels.amax()
    ignored = torch.full_like(labels, torch.iinfo(labels.dtype).max)
    lowest = torch.where(labels < 0, ignored, labels).amin()
    return torch.stack([torch.minimum(lowest, highest), highest]).clamp_min(-1)
