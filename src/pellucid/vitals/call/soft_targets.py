"""What a teacher asks for, read from the gradient of a loss whose targets are not single tokens.

A loss against a teacher's distribution t has the gradient w (p - t). A student that knows nothing
yet has one p for all tokens, so each place pulls the token that the teacher finds likeliest.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.paid_targets import PaidTargets
from pellucid.vitals.call.target_rows import paid_heads

#: Fewer places, and fewer different tokens, say nothing.
_FEWEST, _KINDS = 64, 16
#: A student whose entropy is this share of the largest one, or more, knows nothing yet.
_UNTAUGHT = 0.8
#: The logarithm of a probability of 0 counts as this number, times 0.
_LEAST = -1e4


def measure_choice(
    arguments: Arguments,
    ids: Int[Tensor, "rows time"] | None,
    paid: PaidTargets | None,
    outputs: Tensor,
) -> dict[str, float]:
    """The signs `targets.head`, and `targets.taught`: how often a place pulls the next token.

    The latter is in standard errors above chance, as if next tokens came in another order. A
    student that knows something is pulled to what it misses, which need not be the next token.

    Args:
        arguments: The call, cut to a few rows.
        ids: The ids that the model reads.
        paid: What the loss pays for; single tokens as targets are no teacher's.
        outputs: The student's logits (some rows, time, vocab).
    """
    if ids is None or paid is None or paid.names_targets or outputs.ndim != 3:
        return {}
    if not paid.is_of_softmax:
        return {}  # the numbers of a place may be no shares of one whole
    signs = dict[str, float]()
    if ids.shape == paid.all.shape:
        n_rows = len(paid.rows)
        signs["targets.head"] = paid_heads(arguments, ids[:n_rows], paid.all[:n_rows])
    log_p = outputs.float().log_softmax(-1)
    entropy = -(log_p.exp() * log_p.clamp_min(_LEAST)).sum(-1).mean()
    if float(entropy) < _UNTAUGHT * math.log(outputs.shape[-1]):
        return signs
    targets = paid.all
    if ids.shape != targets.shape or ids.shape[1] < 2:
        return signs
    is_paid = targets[:, :-1] != IGNORED
    pulled, following = targets[:, :-1][is_paid].long(), ids[:, 1:][is_paid].long()
    n, size = len(pulled), int(max(targets.max(), ids.max())) + 1
    counts = [torch.bincount(tokens, minlength=size).double() for tokens in (pulled, following)]
    if n < _FEWEST or min(int((count > 0).sum()) for count in counts) < _KINDS:
        return signs
    chance = float((counts[0] / n * counts[1] / n).sum())
    share = int((pulled == following).sum()) / n
    # not below that of one place, where no token is in both
    error = math.sqrt(max(chance * (1 - chance), 1 / n) / n)
    return signs | {"targets.taught": (share - chance) / error}
