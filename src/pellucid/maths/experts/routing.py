"""Mixtures of experts: which experts a token uses, with what weights, and how they are balanced."""

from __future__ import annotations

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import (
    COUNT,
    FLAG,
    POSITIVE,
    floats,
)
from pellucid.maths.logistic import sigmoid
from pellucid.maths.softmax import softmax


def _enough_scores(scores: Array, n_active: int) -> None:
    if n_active > scores.shape[-1]:
        raise MathsError(
            f"n_active must be at most the number of experts, was {n_active} of {scores.shape[-1]}"
        )


def _enough_experts(logits: Array, n_active: int) -> None:
    _enough_scores(logits, n_active)


@equation(_enough_scores, scores=floats("... experts"), n_active=COUNT)
def choose_experts(scores: Array, *, n_active: int) -> Array:
    """Which experts a token uses: those with the largest scores.

    m_i = 1 if s_i is one of the k largest scores, else 0; of equal scores the first wins

    Args:
        scores: (..., experts). n_active: k, at most the number of experts. Returns truth values.
    Gradient:
        None: the choice is a step. Experts learn from the tokens that they get, and the router from
        the weights of the chosen experts alone.
    Raises:
        MathsError: k is larger than the number of experts.
    Source:
        Shazeer et al. 2017, "Outrageously Large Neural Networks", eq. 5.
    Example:
        choose_experts(array([0.1, 0.5, 0.4]), n_active=2)
    """
    xp = namespace(scores)
    order = xp.argsort(scores, axis=-1, descending=True, stable=True)
    return xp.argsort(order, axis=-1, stable=True) < n_active


@equation(_enough_experts, logits=floats("... experts"), n_active=COUNT, normalised=FLAG)
def softmax_router(logits: Array, *, n_active: int, normalised: bool) -> Array:
    """The weight of each expert for a token: its share in a softmax, and 0 if it is not chosen.

    w_i = m_i p_i, p = softmax(x); with `normalised` w_i = m_i p_i / sum_j m_j p_j

    m marks the k largest shares. The normalised weights are a softmax over the chosen experts, so
    it is the same whether softmax comes before the choice or after it.

    Args:
        logits: (..., experts). n_active: k. normalised: whether the weights sum to 1. Returns
        (..., experts).
    Gradient:
        `softmax_router_grad`.
    Fails:
        With k = 1 a normalised weight is always 1, so the router learns nothing from the loss.
    Raises:
        MathsError: k is larger than the number of experts.
    Source:
        Shazeer et al. 2017, "Outrageously Large Neural Networks", eq. 3 (normalised); Fedus, Zoph
        and Shazeer 2022, "Switch Transformers", eq. 1 and 2 (not normalised).
    See also:
        `sigmoid_router`, `mixture_of_experts`.
    Example:
        softmax_router(array([1.0, 3.0, 2.0]), n_active=2, normalised=True)
        softmax_router(array([1.0, 3.0, 2.0]), n_active=2, normalised=False)
    """
    xp = namespace(logits)
    chosen = choose_experts(logits, n_active=n_active)
    if normalised:
        return softmax(xp.where(chosen, logits, xp.full_like(logits, -xp.inf)))
    return xp.where(chosen, softmax(logits), xp.zeros_like(logits))


@equation(softmax_router, grad="... experts")
def softmax_router_grad(logits: Array, grad: Array, *, n_active: int, normalised: bool) -> Array:
    """The gradient that reaches the logits when `grad` reaches the weights.

    dL/dx_i = w_i (g_i - sum_j w_j g_j) if normalised, else p_i (m_i g_i - sum_j w_j g_j)

    Args:
        As `softmax_router`. grad: like logits. Returns like logits.
    """
    xp = namespace(logits, grad)
    weights = softmax_router(logits, n_active=n_active, normalised=normalised)
    mean = xp.sum(weights * grad, axis=-1, keepdims=True)
    if normalised:
        return weights * (grad - mean)
    return weights * grad - softmax(logits) * mean


@equation(
    _enough_experts,
    logits=floats("... experts"),
    bias=floats("experts"),
    n_active=COUNT,
    scale=POSITIVE,
)
def sigmoid_router(logits: Array, bias: Array, *, n_active: int, scale: float) -> Array:
    """The weight of each expert for a token, from scores that do not compete.

    w_i = c m_i s_i / sum_j m_j s_j, s = sigmoid(x)

    m marks the k largest s_i + b_i. The bias b only moves the choice, to balance the load; it is
    not part of a weight and gets no gradient.

    Args:
        logits: (..., experts). bias: (experts,), b. n_active: k. scale: c. Returns (..., experts).
    Gradient:
        `sigmoid_router_grad`.
    Raises:
        MathsError: k is larger than the number of experts.
    Source:
        DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", eq. 13 to 16.
    See also:
        `softmax_router`, `balancing_step`.
    Example:
        sigmoid_router(array([1.0, 3.0, 2.0]), array([0.0, 0.0, 0.0]), n_active=2, scale=1.0)
        sigmoid_router(array([1.0, 3.0, 2.0]), array([0.5, 0.0, 0.0]), n_active=2, scale=1.0)
    """
    selected = _selected_scores(logits, bias, n_active)
    return scale * selected / _total(selected)


@equation(sigmoid_router, grad="... experts")
def sigmoid_router_grad(
    logits: Array, bias: Array, grad: Array, *, n_active: int, scale: float
) -> Array:
    """The gradient that reaches the logits when `grad` reaches the weights.

    dL/dx_i = m_i s_i (1 - s_i) (c g_i - sum_j w_j g_j) / sum_j m_j s_j

    Args:
        As `sigmoid_router`. grad: like logits. Returns like logits.
    """
    xp = namespace(logits, grad)
    selected = _selected_scores(logits, bias, n_active)
    total = _total(selected)
    mean = xp.sum(scale * selected / total * grad, axis=-1, keepdims=True)
    return selected * (1 - selected) * (scale * grad - mean) / total


@equation(weights=floats("... experts"), outputs=floats("... experts features"))
def mixture_of_experts(weights: Array, outputs: Array) -> Array:
    """The output of a layer of experts: the weighted sum of theirs.

    y = sum_i w_i f_i(x)

    Only experts with a weight other than 0 have to be computed. So a token costs as much as its k
    experts, however many there are.

    Args:
        weights: (..., experts). outputs: (..., experts, features). Returns (..., features).
    Gradient:
        `mixture_of_experts_grad`.
    Raises:
        MathsError: the shapes do not fit.
    Source:
        Jacobs et al. 1991, "Adaptive Mixtures of Local Experts"; Shazeer et al. 2017,
        "Outrageously Large Neural Networks", eq. 1.
    Example:
        mixture_of_experts(array([0.25, 0.75]), array([[4.0, 0.0], [0.0, 4.0]]))
    """
    xp = namespace(weights, outputs)
    return xp.sum(weights[..., None] * outputs, axis=-2)


@equation(mixture_of_experts, grad="... features")
def mixture_of_experts_grad(weights: Array, outputs: Array, grad: Array) -> tuple[Array, Array]:
    """The gradients that reach the weights and the experts when `grad` reaches the mixture.

    dL/dw_i = g . f_i,  dL/df_i = w_i g

    Args:
        As `mixture_of_experts`. grad: (..., features). Returns dweights, doutputs.
    """
    xp = namespace(weights, outputs, grad)
    upstream = grad[..., None, :]
    return xp.sum(outputs * upstream, axis=-1), weights[..., None] * upstream


def _selected_scores(logits: Array, bias: Array, n_active: int) -> Array:
    xp = namespace(logits, bias)
    scores = sigmoid(logits)
    chosen = choose_experts(scores + bias, n_active=n_active)
    return xp.where(chosen, scores, xp.zeros_like(scores))


def _total(selected: Array) -> Array:
    """The sums of the rows; 1 where all scores are 0."""
    xp = namespace(selected)
    total = xp.sum(selected, axis=-1, keepdims=True)
    return xp.where(total == 0, xp.ones_like(total), total)
