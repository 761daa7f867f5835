"""What a model predicts at fixed places: whether cross-entropy still has something to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.maths.distillation import forward_kl, reverse_kl
from pellucid.maths.softmax import logsumexp
from pellucid.vitals.async_metrics import AsyncMetrics

#: A token is certain where the model gives it more than this: its gradient is all but gone.
_CERTAIN = 0.99
#: Logits that are worked on at once: what is computed on the way is several times as large.
_AT_ONCE = 2**21
#: Another model that predictions are compared with.
Other = Literal["reference", "teacher"]


class Predicted(NamedTuple):
    """Logits of some places, in float32 at least, and their targets where those are known."""

    logits: Float[Tensor, "places vocab"]
    targets: Int[Tensor, " places"] | None

    def measure(self, tape: AsyncMetrics) -> None:
        """Put what these predictions say of the second equation onto the tape."""
        log_z = _of_each(logsumexp, self.logits)
        tape.put("logits.log_z", lambda: log_z.mean())
        tape.put("logits.spread", lambda: self.logits.var(-1, correction=0).mean())
        targets = self.targets
        if targets is None:
            return
        log_p = self.logits.gather(1, targets[:, None])[:, 0] - log_z
        tape.put("predictions.certain", lambda: (log_p.exp() > _CERTAIN).double().mean())
        tape.put(
            "predictions.error_norm", lambda: _of_each(error_norm, self.logits, targets).mean()
        )
        tape.put("loss.probe", lambda: -log_p.mean())

    def moved_to(self, after: Predicted, tape: AsyncMetrics) -> None:
        """Put how far the predictions have moved from here to `after` onto the tape."""
        pair = after.logits, self.logits
        tape.put("update.kl_forward", lambda: _of_each(forward_kl, *pair).mean())
        tape.put("update.kl_backward", lambda: _of_each(reverse_kl, *pair).mean())

    def compared(self, name: Other, other: Predicted, tape: AsyncMetrics, *, first: bool) -> None:
        """Put how far the predictions are from those of another model onto the tape.

        From a reference, which is not to be left: KL(model || reference). From a teacher, whose
        predictions are to be learnt: KL(teacher || model).
        """
        pair = self.logits, other.logits
        if name == "teacher":
            tape.put("teacher.kl", lambda: _of_each(forward_kl, *pair).mean())
            return
        distance = _of_each(reverse_kl, *pair).mean()
        tape.put("reference.kl", distance)
        same = self.logits.argmax(-1) == other.logits.argmax(-1)
        tape.put("reference.same", same.double().mean())
        if first:
            tape.put("reference.kl_start", distance)


def _of_each(
    measure: Callable[..., Tensor], logits: Tensor, *other_logits: Tensor
) -> Float[Tensor, " places"]:
    """What `measure` gives for every place, a few places at a time."""
    tensors, step = (logits, *other_logits), max(1, _AT_ONCE // logits.shape[-1])
    parts = [slice(start, start + step) for start in range(0, len(logits), step)]
    return torch.cat([measure(*(tensor[part] for tensor in tensors)) for part in parts])


def error_norm(
    logits: Float[Tensor, "places vocab"], targets: Int[Tensor, " places"]
) -> Float[Tensor, " places"]:
    """||p - y||, the gradient of cross-entropy by the logits: between 0 and sqrt(2).

    ||p - y||^2 = sum_i p_i^2 - 2 p_y + 1
    """
    p = torch.softmax(logits, dim=-1)
    hit = p.gather(1, targets[:, None])[:, 0]
    # (1 - p_y)^2 + sum_i p_i^2 - p_y^2, so that nothing near 1 is taken from 1
    off_target = (p.square().sum(-1) - hit.square()).clamp(min=0)
    return ((1 - hit).square() + off_target).sqrt()
