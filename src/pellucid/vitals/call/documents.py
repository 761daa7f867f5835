"""Documents that share a row: where each begins behind another one."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.alignment import alignment
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.dependence import Repetition, change, with_changes

#: A document that is left behind has at least so many tokens.
_SHORTEST = 4


def measure(
    arguments: Arguments,
    repeat: Repetition,
    tokens: Int[Tensor, "rows time"],
    targets: Int[Tensor, "rows time"],
) -> dict[str, float]:
    """How far a document moves when only those before it in its row change.

    Args:
        arguments: The call.
        repeat: Repeats it.
        tokens: The ids that the outputs follow.
        targets: The target of each place, `IGNORED` where nothing is paid for.
    """
    if (id_and_starts := find_starts(arguments, tokens, targets)) is None:
        return {}
    id, starts = id_and_starts
    is_later = starts.long().cumsum(1) > 0
    is_earlier = ~is_later & is_later.any(1, keepdim=True)
    variant = with_changes(arguments, arguments.ids, is_earlier)
    before, after = repeat(arguments), None if variant is None else repeat(variant)
    if before is None or after is None or before.shape[:2] != is_later.shape:
        return {}
    return {id: repeat.over_rounding(float(change(before, after)[is_later].max()))}


def find_starts(
    arguments: Arguments, tokens: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]
) -> tuple[str, Bool[Tensor, "rows time"]] | None:
    """Where documents begin behind others, and the sign that says how far these are read.

    Args:
        arguments: The call.
        tokens: The ids that the outputs follow.
        targets: The target of each place, `IGNORED` where nothing is paid for.
    """
    starts = declared_starts(arguments, tokens)
    if starts is not None:
        return "call.documents", starts
    starts = joined_starts(arguments, tokens, targets)
    if starts is None:
        return None
    is_end = torch.isin(tokens, tokens.new_tensor(arguments.ends))
    is_ended = bool(is_end[:, :-1][starts[:, 1:]].all())
    return "call.joined_ends" if is_ended else "call.joined", starts


def declared_starts(
    arguments: Arguments, tokens: Int[Tensor, "rows time"]
) -> Bool[Tensor, "rows time"] | None:
    """Where a document begins, as the call itself says; None if it says nothing of them.

    Positions begin anew, or a mask numbers the documents: 1, 1, 2, 2.

    Args:
        arguments: The call.
        tokens: The ids that the outputs follow.
    """
    positions, mask = arguments.tensor(arguments.positions), arguments.tensor(arguments.mask)
    starts = torch.zeros_like(tokens, dtype=torch.bool)
    if positions is not None and positions.shape == tokens.shape:
        starts[:, 1:] |= (positions[:, 1:] == 0) & (positions[:, :-1] >= _SHORTEST - 1)
    if mask is not None and mask.shape == tokens.shape and int(mask.max()) > 1:
        starts[:, 1:] |= (mask[:, 1:] != mask[:, :-1]) & (mask[:, 1:] > 0) & (mask[:, :-1] > 0)
    return starts if bool(starts.any()) else None


def joined_starts(
    arguments: Arguments, tokens: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]
) -> Bool[Tensor, "rows time"] | None:
    """Where a text begins with a start token, in rows of several questions with their answers.

    A conversation has one start token, however many turns it has. None unless each row holds
    several texts, and the loss leaves a part of each out. None for masked models too: they read
    texts that are joined (Liu et al. 2019, 1907.11692), and leave out what they see.

    Args:
        arguments: The call.
        tokens: The ids that the outputs follow.
        targets: The target of each place, `IGNORED` where nothing is paid for.
    """
    if not arguments.starts or not alignment(tokens, targets).is_clear:
        return None
    is_start = torch.isin(tokens, tokens.new_tensor(arguments.starts))
    starts = torch.zeros_like(is_start)
    starts[:, _SHORTEST:] = is_start[:, _SHORTEST:] & ~is_start[:, _SHORTEST - 1 : -1]
    is_paid = targets != IGNORED
    n_answers = (is_paid[:, 1:] & ~is_paid[:, :-1]).sum(1) + is_paid[:, 0].long()
    is_packed = bool((starts.any(1) & (n_answers > 1)).all())
    return starts if is_packed else None
