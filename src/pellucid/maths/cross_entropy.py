"""Cross-entropy from logits: the price of a prediction, and its clean gradient p - y.

Comes in: logits and the class that occurred. Goes out: nats per example. It does not know where
logits come from; the fused kernel `pellucid.objectives.linear_cross_entropy` is tested against it.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.softmax import logsumexp, softmax


def _smoothed(logits: Array, targets: Array, label_smoothing: float) -> Array:
    xp = namespace(logits)
    n = logits.shape[-1]
    classes = xp.arange(n, dtype=targets.dtype, device=targets.device)
    hit = xp.astype(xp.expand_dims(targets, axis=-1) == classes, logits.dtype)
    return hit * (1 - label_smoothing) + label_smoothing / n


def cross_entropy(
    logits: Array, targets: Array, *, label_smoothing: float = 0.0, z_loss: float = 0.0
) -> Array:
    """How surprised the model is by what came, in nats.

    L = -sum_i y_i log p_i + z_loss (log Z)^2,  y = (1 - s) onehot + s / K

    Without smoothing this is -log p_target. The z-loss keeps log Z near 0, since softmax itself
    does not care how large Z is.

    Args:
        logits: (..., classes). targets: (...), whole numbers in [0, classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `cross_entropy_grad`.
    Source:
        Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7 (smoothing);
        Chowdhery et al. 2022, "PaLM", section 5 (z-loss).
    """
    xp = namespace(logits)
    y = _smoothed(logits, targets, label_smoothing)
    log_z = logsumexp(logits)
    # 0 * -inf would be nan: a class that is masked out and not the target costs nothing
    weighted = y * xp.where(y > 0, logits, xp.zeros_like(logits))
    return log_z - xp.sum(weighted, axis=-1) + z_loss * log_z**2


def cross_entropy_grad(
    logits: Array, targets: Array, *, label_smoothing: float = 0.0, z_loss: float = 0.0
) -> Array:
    """The gradient of `cross_entropy` by the logits: what was said minus what came.

    dL/dlogits = p (1 + 2 z_loss log Z) - y

    It sums to zero over the classes when there is no z-loss.

    Args:
        As `cross_entropy`. Returns (..., classes).
    """
    xp = namespace(logits)
    y = _smoothed(logits, targets, label_smoothing)
    scale = 1 + 2 * z_loss * xp.expand_dims(logsumexp(logits), axis=-1)
    return softmax(logits) * scale - y
