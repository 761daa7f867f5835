"""The places of a batch's targets in its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.ledger.label_tokens import MOST_CLASSES

#: Offsets of a target from the place that predicts it: before it, at it, after it.
OFFSETS = range(-2, 5)
#: Fewer paid places say nothing.
FEWEST = 8
#: The least share that is equal, after chance, if the inputs hold the targets.
_CLEAR = 0.7
#: The least share above chance that is no accident.
_SOME = 0.05
#: A masked model is paid for this share of the places at most.
_SPARSE = 0.6
#: A mask fills at least so many places, of the number of targets, if it is not where they are.
_ELSEWHERE = 0.5
#: At least this share of the targets stands elsewhere among the inputs, if both are of one text.
_SHARED_IDS = 0.3
#: With fewer targets, as many may differ by chance.
_MANY = 64
#: With fewer different ids, other targets may have the same counts by chance.
_FEWEST_IDS = 16
#: An id that comes so often shows whether it has one name.
_REPEATED = 3


@dataclass(frozen=True, slots=True)
class Alignment:
    """The offset at which most targets equal an input, and the share that does.

    `chance` is the share that would be equal if inputs were put in another order.
    """

    offset: int
    share: float
    chance: float

    @property
    def is_clear(self) -> bool:
        """Whether far more targets are equal than by chance."""
        return self.share - self.chance >= _CLEAR * (1 - self.chance) > 0

    @property
    def follows(self) -> bool:
        """Whether nearly all targets are the next inputs."""
        return self.is_clear and self.offset == 1

    @property
    def is_partial(self) -> bool:
        """Whether some targets are the next tokens, more than by chance, and many are not."""
        return self.offset == 1 and not self.is_clear and self.share > 2 * self.chance + _SOME


def alignment(inputs: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> Alignment:
    """The offset d with the most places t whose target is the input at t + d.

    Args:
        inputs: The ids that the model reads.
        targets: The target of each place, `IGNORED` if it has none.
    """
    shares = {offset: _share(inputs, targets, offset) for offset in OFFSETS}
    # of equal ones the usual: the next token, then the same one
    offset = max(shares, key=lambda d: (round(shares[d], 2), d == 1, d == 0))
    return Alignment(offset, shares[offset], _chance(inputs, targets))


def _chance(inputs: Tensor, targets: Tensor) -> float:
    paid = targets[targets != IGNORED]
    if not len(paid):
        return 1.0
    size = int(max(paid.max(), inputs.max())) + 1
    shares = [torch.bincount(t.flatten(), minlength=size).double() for t in (paid, inputs)]
    return float((shares[0] / shares[0].sum() * shares[1] / shares[1].sum()).sum())


def _share(inputs: Tensor, targets: Tensor, offset: int) -> float:
    width = min(inputs.shape[1], targets.shape[1])
    first, last = max(0, -offset), min(width, inputs.shape[1] - offset)
    if last <= first:
        return 0.0
    paid = targets[:, first:last]
    n = int((paid != IGNORED).sum())
    if n < FEWEST:
        return 0.0
    equal = (paid == inputs[:, first + offset : last + offset]) & (paid != IGNORED)
    return int(equal.sum()) / n


def scrambled(inputs: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> float:
    """The share of targets that are inputs of the batch in any order, each used once.

    0 unless they are the very same tokens, but for one at the end of each row.
    """
    paid = targets[targets != IGNORED]
    size = int(max(paid.max(), inputs.max())) + 1
    first, second = (torch.bincount(t.flatten(), minlength=size) for t in (paid, inputs))
    n = int(torch.minimum(first, second).sum())
    is_same = len(paid) - n <= len(inputs) and int((second > 0).sum()) >= _FEWEST_IDS
    return n / len(paid) if is_same else 0.0


def are_classes(inputs: Int[Tensor, "rows time"] | None, targets: Int[Tensor, "rows time"]) -> bool:
    """Whether targets are few kinds, which stand nowhere in the inputs: classes, and no text.

    What comes before a class does not bound how well it is known: its own token may name it.

    Args:
        inputs: The ids that the model reads; None if unknown.
        targets: The target of each place, `IGNORED` if it has none.
    """
    if inputs is None or inputs.shape != targets.shape or int(targets.max()) >= MOST_CLASSES:
        return False
    return not alignment(inputs, targets).is_clear


def unrelated(inputs: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> float:
    """The share of targets that equal no input near them, after chance; 0 if they are few.

    Args:
        inputs: The ids that the model reads.
        targets: The target of each place, `IGNORED` if it has none.
    """
    paid = targets[targets != IGNORED]
    if len(paid) < _MANY or int((torch.bincount(paid) > 0).sum()) < _FEWEST_IDS:
        return 0.0
    aligned = alignment(inputs, targets)
    return min(1.0, 1 - (aligned.share - aligned.chance) / max(1e-9, 1 - aligned.chance))


def of_whole_batch(
    ids: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]
) -> dict[str, float]:
    """The signs of targets that are not the next tokens, of all rows of a batch.

    Args:
        ids: The ids that the model reads.
        targets: The target of each place, `IGNORED` if it has none.
    """
    return {
        "targets.scrambled": scrambled(ids, targets),
        "targets.renamed": renamed(ids, targets),
    }


def renamed(inputs: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> float:
    """The share of targets that the next input names by another id, always the same one.

    Each next input that comes several times counts. 0 if there are few kinds, or if two inputs
    share a name: a class of tokens, such as a part of speech, is no name.

    Args:
        inputs: The ids that the model reads.
        targets: The target of each place, `IGNORED` if it has none.
    """
    is_paid = targets[:, :-1] != IGNORED
    following, paid = inputs[:, 1:][is_paid].long(), targets[:, :-1][is_paid].long()
    if not len(paid):
        return 0.0
    size = int(max(inputs.max(), targets.max())) + 1
    both = following * size + paid
    kinds: tuple[Tensor, Tensor] = cast("Any", torch).unique(both, return_counts=True)
    pairs, counts = kinds
    by_input = torch.zeros(size, dtype=counts.dtype, device=counts.device)
    totals = by_input.index_add(0, pairs // size, counts)
    is_common = totals[pairs // size] >= _REPEATED
    best = by_input.scatter_reduce(0, pairs // size, counts, "amax")
    is_best = is_common & (counts == best[pairs // size])
    ids, names = pairs[is_best] // size, pairs[is_best] % size
    if len(names) < _FEWEST_IDS or int(torch.bincount(names).max()) > 1:
        return 0.0
    if 2 * int((ids != names).sum()) < len(names):
        return 0.0
    return int(counts[is_best].sum()) / int(totals[totals >= _REPEATED].sum())


def is_unmasked(inputs: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> bool:
    """Whether the inputs hold the targets, with no mask or with one mask for the others.

    Where various inputs differ from their targets, the model is to correct them.
    """
    is_paid = targets != IGNORED
    other = inputs[is_paid & (inputs != targets)]
    if len(other) <= 0.01 * int(is_paid.sum()):
        return True
    return int(torch.bincount(other).max()) > 0.5 * len(other)


def foreign(
    inputs: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"], mask: Tensor | None
) -> float:
    """The share of targets at places that hold another token, if the masked places are elsewhere.

    A mask is an id that fills about as many places that are not paid for, and is no target; 0
    without one.

    Args:
        inputs: The ids that the model reads.
        targets: The target of each place, `IGNORED` if it has none.
        mask: 1 for tokens and 0 for padding, if the call has such a mask.
    """
    is_paid, is_inner = targets != IGNORED, torch.ones_like(inputs, dtype=torch.bool)
    is_inner[:, 0] = is_inner[:, -1] = False
    if mask is not None and mask.shape == inputs.shape:
        is_inner &= mask.bool()
        is_inner[:, :-1] &= mask[:, 1:].bool()  # the last token of a text ends it
    n = int(is_paid.sum())
    size = int(max(inputs.max(), targets.max())) + 1
    counts = torch.bincount(inputs[is_inner & ~is_paid].flatten(), minlength=size)
    if float((counts[targets[is_paid]] > 0).float().mean()) < _SHARED_IDS:
        return 0.0  # inputs that are another text than the targets have no mask to be found
    counts[targets[is_paid]] = 0
    usual = int(counts.argmax())
    is_sparse = FEWEST <= n <= _SPARSE * is_paid.numel()
    if not is_sparse or int(counts[usual]) < _ELSEWHERE * n:
        return 0.0
    return float((is_paid & (inputs != usual) & (inputs != targets)).sum()) / n


def is_masked(inputs: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> bool:
    """Whether one id fills most places that are paid for, as in masked language models.

    The targets of these places have to differ, and most places must not be paid for.
    """
    if inputs.shape != targets.shape:
        return False
    is_paid = targets != IGNORED
    n = int(is_paid.sum())
    if n < FEWEST or n > _SPARSE * is_paid.numel():
        return False
    largest_shares = [
        int(torch.bincount(t[is_paid].clamp_min(0)).max()) / n for t in (inputs, targets)
    ]
    return largest_shares[0] > 0.5 > largest_shares[1]


def places_to_change(
    inputs: Tensor, tokens: Tensor | None, targets: Tensor | None, aligned: Alignment | None
) -> list[tuple[int, int, int]]:
    """For each row but the last: the first and the last place to change, and one that is paid for.

    A row changes from the target's own place on, or only there if the target is at or before the
    place that is paid for.

    Args:
        inputs: the rows (rows, time, ...) of the call.
        tokens: their ids (rows, time), if they are known.
        targets: the target of each place, `IGNORED` if it has none.
        aligned: how far the targets are from the inputs.
    """
    time = inputs.shape[1]
    is_aligned = aligned is not None and aligned.is_clear
    offset = aligned.offset if aligned is not None and is_aligned else 1
    places: list[tuple[int, int, int]] = []
    n_changed = count_changed(inputs)
    for row in range(n_changed):
        middle = max(1, time * (row + 1) // (n_changed + 1))
        paid: list[int] = []
        if tokens is not None and targets is not None:
            paid = _paid_places(tokens[row], targets[row], offset, exact=is_aligned)
        place = min(paid, key=lambda t: abs(t + offset - middle), default=middle - offset)
        first = min(max(0, place + offset), time - 1)
        places.append((first, time if offset > 0 else first + 1, min(max(0, place), time - 1)))
    return places


def count_changed(inputs: Tensor) -> int:
    """How many rows are changed: all but the last one; one if there is no other."""
    return max(1, len(inputs) - 1)


def _paid_places(inputs: Tensor, targets: Tensor, offset: int, *, exact: bool) -> list[int]:
    time = len(inputs)
    paid: list[int] = cast("Any", (targets != IGNORED).nonzero()[:, 0]).tolist()
    return [
        t
        for t in paid
        if 0 <= t + offset < time and (not exact or bool(inputs[t + offset] == targets[t]))
    ]
