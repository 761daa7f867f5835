"""Documents that share a row: where each begins behind another one."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.alignment import alignment
from pellucid.vitals.call.arguments import Arguments

#: A document that is left behind has at least so many tokens.
_SHORTEST = 4


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
