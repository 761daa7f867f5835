"""What cannot be watched in a training, and why: in words, by the sign that is missing."""

from __future__ import annotations

from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.predictions import Predicted
from pellucid.vitals.probe import ProbeRunner
from pellucid.vitals.update_sizes import Updates

_SHARDED = (
    "the weights are sharded over processes, which would all have to look at the same time: of "
    "softmax, variance, predictions and KL nothing is seen, and of gradients the part that is here"
)

_NO_BATCH = (
    "no batch has come by yet; of a model that is compiled with fullgraph=True none is seen: pass "
    "probe=Probe(...)"
)


def missing(
    anatomy: Anatomy,
    looking: ProbeRunner | None,
    predicted: Predicted | None,
    updates: Updates | None,
    *,
    has_loss: bool,
    reason: str = "",
) -> dict[str, str]:
    """Why each of these is not there; `reason` is why no rows could be kept."""
    reasons = {} if looking is None else dict(looking.missing)
    if anatomy.is_sharded:
        reasons["probe"] = _SHARDED
    elif looking is None:
        reasons["probe"] = reason or _NO_BATCH
    elif predicted is not None and predicted.targets is None:
        reasons["predictions.certain"] = (
            "what the model's outputs are to predict is not known: pass probe=Probe(...)"
        )
    if not has_loss:
        reasons["loss.value"] = "no loss was handed over: call w.step(loss)"
    if updates is None:
        reasons["gradient.norm"] = "no optimiser was given"
    elif not updates.adaptive:
        reasons["update.effective_step"] = "the matrices' optimiser is not of Adam's kind"
    return reasons
