"""Cross-entropy: the loss of a prediction, and its simple gradient p - y."""

from __future__ import annotations

from pellucid.maths.arrays import Array, device_of, log_of, namespace, ratio, times
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import FRACTION, NOT_NEGATIVE, distribution, index, scores
from pellucid.maths.softmax import log_softmax, logsumexp, softmax


def _smoothed(logits: Array, targets: Array, label_smoothing: float) -> Array:
    xp = namespace(logits)
    n = logits.shape[-1]
    classes = xp.arange(n, dtype=targets.dtype, device=device_of(targets))
    hit = xp.astype(xp.expand_dims(targets, axis=-1) == classes, logits.dtype)
    return hit * (1 - label_smoothing) + label_smoothing / n


@equation(
    logits=scores("... classes"),
    targets=index("...", size="classes"),
    label_smoothing=FRACTION,
    z_loss=NOT_NEGATIVE,
)
def cross_entropy(
    logits: Array, targets: Array, *, label_smoothing: float = 0.0, z_loss: float = 0.0
) -> Array:
    """The model's surprise at the target, in nats.

    L = -sum_i y_i log p_i + z_loss (log Z)^2,  y = (1 - s) onehot + s / K

    Without smoothing this is -log p_target. The z-loss keeps log Z near 0: softmax alone does not
    depend on how large Z is.

    Args:
        logits: (..., classes). targets: (...), whole numbers in [0, classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `cross_entropy_grad`.
    Fails:
        It is infinite if the target is masked (-inf). With smoothing every class counts, so it is
        infinite if any class is masked.
    Raises:
        MathsError: the targets are not one class for each row of logits, or the smoothing is not
            between 0 and 1.
    Source:
        Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7 (smoothing);
        Chowdhery et al. 2022, "PaLM", section 5 (z-loss).
    See also:
        `cross_entropy_from_probabilities`, `soft_cross_entropy`, `focal_loss`.
    Example:
        cross_entropy(array([1.0, 2.0, 3.0]), array(2))
        cross_entropy_grad(array([1.0, 2.0, 3.0]), array(2))
    """
    xp = namespace(logits)
    y = _smoothed(logits, targets, label_smoothing)
    # a masked class that is not the target adds nothing
    loss = -xp.sum(times(y, log_softmax(logits)), axis=-1)
    return loss + z_loss * logsumexp(logits) ** 2 if z_loss else loss


@equation(cross_entropy)
def cross_entropy_grad(
    logits: Array, targets: Array, *, label_smoothing: float = 0.0, z_loss: float = 0.0
) -> Array:
    """The gradient of `cross_entropy` by the logits: the prediction minus the target.

    dL/dlogits = p (1 + 2 z_loss log Z) - y

    Without z-loss it sums to zero over the classes.

    Args:
        As `cross_entropy`. Returns (..., classes).
    """
    xp = namespace(logits)
    y = _smoothed(logits, targets, label_smoothing)
    scale = 1 + 2 * z_loss * xp.expand_dims(logsumexp(logits), axis=-1)
    return softmax(logits) * scale - y


@equation(logits=scores("... classes"), y=distribution("... classes"))
def soft_cross_entropy(logits: Array, y: Array) -> Array:
    """Cross-entropy when the target is a distribution: a teacher's prediction, or many answers.

    L = -sum_i y_i log p_i,  p = softmax(logits)

    Args:
        logits: (..., classes). y: like logits, the targets. Returns (...).
    Units:
        Nats.
    Gradient:
        `soft_cross_entropy_grad`.
    Fails:
        Its minimum is the entropy of y, not 0.
    Raises:
        MathsError: y is not shaped like the logits, or does not sum to one.
    Source:
        Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2.
    Example:
        soft_cross_entropy(array([1.0, 2.0, 3.0]), array([0.1, 0.2, 0.7]))
    """
    return -namespace(logits, y).sum(times(y, log_softmax(logits)), axis=-1)


@equation(soft_cross_entropy)
def soft_cross_entropy_grad(logits: Array, y: Array) -> Array:
    """The gradient of `soft_cross_entropy` by the logits.

    dL/dlogits = p - y

    Args:
        As `soft_cross_entropy`. Returns like logits.
    """
    return softmax(logits) - y


@equation(p=distribution("... classes"), targets=index("...", size="classes"))
def cross_entropy_from_probabilities(p: Array, targets: Array) -> Array:
    """The surprise at the target, when the prediction is already a distribution.

    L = -log p_target

    Args:
        p: (..., classes). targets: (...), whole numbers in [0, classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `cross_entropy_from_probabilities_grad`.
    Fails:
        Softmax rounds small probabilities to 0: below 1e-38 in float32 the loss is infinite and the
        gradient is lost. Use `cross_entropy`, which takes logits.
    Raises:
        MathsError: p does not sum to one, or the targets are not classes.
    Source:
        Shannon 1948, "A Mathematical Theory of Communication", section 6.
    Example:
        cross_entropy_from_probabilities(array([0.1, 0.2, 0.6, 0.1]), array(2))
    """
    return -log_of(_of_target(p, targets))


@equation(cross_entropy_from_probabilities)
def cross_entropy_from_probabilities_grad(p: Array, targets: Array) -> Array:
    """The gradient of `cross_entropy_from_probabilities` by the probabilities.

    dL/dp_i = -1 / p_i for the target, 0 for the others

    Args:
        As `cross_entropy_from_probabilities`. Returns like p.
    """
    return -ratio(_smoothed(p, targets, 0.0), p)


@equation(logits=scores("... classes"), targets=index("...", size="classes"), gamma=NOT_NEGATIVE)
def focal_loss(logits: Array, targets: Array, *, gamma: float) -> Array:
    """Cross-entropy with less weight on targets that the model already predicts well.

    L = -(1 - p_t)^gamma log p_t,  p_t the probability of the target

    With gamma = 0 it is cross-entropy.

    Args:
        logits: (..., classes). targets: (...), whole numbers in [0, classes). Returns (...).
        gamma: at least 0.
    Units:
        Weighted nats: no longer a code length.
    Gradient:
        `focal_loss_grad`.
    Fails:
        It is not a proper scoring rule: the prediction that minimises it is more uniform than the
        true distribution.
    Raises:
        MathsError: the targets are not classes, or gamma is negative.
    Source:
        Lin et al. 2017, "Focal Loss for Dense Object Detection", eq. 4.
    Example:
        focal_loss(array([1.0, 2.0, 3.0]), array(2), gamma=2.0)
    """
    log_p = _of_target(log_softmax(logits), targets)
    return -times(_missing(log_p) ** gamma, log_p)


@equation(focal_loss)
def focal_loss_grad(logits: Array, targets: Array, *, gamma: float) -> Array:
    """The gradient of `focal_loss` by the logits.

    dL/dlogits = [ (1 - p_t)^gamma - gamma (1 - p_t)^(gamma - 1) p_t log p_t ] (p - y)

    Args:
        As `focal_loss`. Returns like logits.
    """
    y = _smoothed(logits, targets, 0.0)
    log_p = _of_target(log_softmax(logits), targets)
    missing = _missing(log_p)
    weighted_log_p = ratio(times(namespace(log_p).exp(log_p), log_p), missing)
    scale = missing**gamma * (1 - gamma * weighted_log_p)
    return scale[..., None] * (softmax(logits) - y)


def _of_target(x: Array, targets: Array) -> Array:
    return namespace(x).take_along_axis(x, targets[..., None], axis=-1)[..., 0]


def _missing(log_p: Array) -> Array:
    """1 - p, exact for p near 1."""
    return -namespace(log_p).expm1(log_p)
