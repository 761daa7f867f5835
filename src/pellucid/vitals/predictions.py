"""The predictions of a model at fixed places: whether cross-entropy still has a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.maths.distillation import forward_kl, reverse_kl
from pellucid.maths.divergences import entropy_of_logits
from pellucid.maths.softmax import logsumexp
from pellucid.vitals.async_metrics import AsyncMetrics

#: A token above this probability is certain: almost nothing of its gradient is left.
_CERTAIN = 0.99
#: Logits per chunk; intermediate results are several times as large.
_LOGITS_PER_CHUNK = 2**21
#: Another model that predictions are compared with.
Other = Literal["reference", "teacher"]


class Predicted(NamedTuple):
    """Logits of some places, in float32 at least, and their targets if known."""

    logits: Float[Tensor, "places vocab"]
    targets: Int[Tensor, " places"] | None

    def measure(self, metrics: AsyncMetrics) -> None:
        """Record the signs of the second equation."""
        log_z = _by_place(logsumexp, self.logits)
        metrics.record("logits.log_z", lambda: log_z.mean())
        metrics.record("logits.spread", lambda: self.logits.var(-1, correction=0).mean())
        metrics.record(
            "predictions.entropy", lambda: _by_place(entropy_of_logits, self.logits).mean()
        )
        targets = self.targets
        if targets is None:
            return
        log_p = self.logits.gather(1, targets[:, None])[:, 0] - log_z
        metrics.record("predictions.certain", lambda: (log_p.exp() > _CERTAIN).double().mean())
        metrics.record(
            "predictions.error_norm", lambda: _by_place(error_norm, self.logits, targets).mean()
        )
        metrics.record("loss.probe", lambda: -log_p.mean())

    def record_change(self, after: Predicted, metrics: AsyncMetrics) -> None:
        """Record the distance from these predictions to those `after` an update."""
        pair = after.logits, self.logits
        metrics.record("update.kl_forward", lambda: _by_place(forward_kl, *pair).mean())
        metrics.record("update.kl_backward", lambda: _by_place(reverse_kl, *pair).mean())

    def record_comparison(
        self, name: Other, other: Predicted, metrics: AsyncMetrics, *, first: bool
    ) -> None:
        """Record the distance from the predictions of another model.

        From a reference that the model should stay close to: KL(model || reference). From a teacher
        that it should learn from: KL(teacher || model).
        """
        pair = self.logits, other.logits
        if name == "teacher":
            metrics.record("teacher.kl", lambda: _by_place(forward_kl, *pair).mean())
            return
        distance = _by_place(reverse_kl, *pair).mean()
        metrics.record("reference.kl", distance)
        agrees = self.logits.argmax(-1) == other.logits.argmax(-1)
        metrics.record("reference.same", agrees.double().mean())
        if first:
            metrics.record("reference.kl_start", distance)


def _by_place(
    measure: Callable[..., Tensor], logits: Tensor, *other_logits: Tensor
) -> Float[Tensor, " places"]:
    """`measure` of every place, computed for a few places at a time."""
    tensors, step = (logits, *other_logits), max(1, _LOGITS_PER_CHUNK // logits.shape[-1])
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
    # (1 - p_y)^2 + sum_i p_i^2 - p_y^2: this subtracts no two numbers near 1
    off_target = (p.square().sum(-1) - hit.square()).clamp(min=0)
    return ((1 - hit).square() + off_target).sqrt()
