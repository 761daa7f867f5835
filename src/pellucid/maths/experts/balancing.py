"""How evenly experts are used: the losses and the step that balance a mixture of them."""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import NOT_NEGATIVE, distribution, floats, not_negative
from pellucid.maths.softmax import logsumexp, softmax


@equation(probability=distribution("... experts"), share=not_negative("... experts"))
def load_balancing_loss(probability: Array, share: Array) -> Array:
    """A loss that is least when all experts get equally many tokens.

    L = N sum_i f_i P_i

    P_i is the mean probability that the router gives to expert i, and f_i the share of tokens that
    chose it. If all N experts are equal, L is k, the number of experts that a token uses. The
    choice has no gradient, so f only says which probabilities to lower.

    Args:
        probability: (..., experts), P. share: (..., experts), f. Returns (...).
    Gradient:
        `load_balancing_loss_grad`.
    Raises:
        MathsError: P does not sum to 1, or f is negative.
    Source:
        Fedus, Zoph and Shazeer 2022, "Switch Transformers", eq. 4 to 6.
    See also:
        `balancing_step`, which needs no loss.
    Example:
        load_balancing_loss(array([0.25, 0.25, 0.25, 0.25]), array([0.5, 0.5, 0.5, 0.5]))
        load_balancing_loss(array([0.5, 0.5, 0.0, 0.0]), array([1.0, 1.0, 0.0, 0.0]))
    """
    xp = namespace(probability, share)
    return probability.shape[-1] * xp.sum(share * probability, axis=-1)


@equation(load_balancing_loss)
def load_balancing_loss_grad(probability: Array, share: Array) -> Array:
    """The gradient of `load_balancing_loss` by the probabilities.

    dL/dP_i = N f_i

    Args:
        As `load_balancing_loss`. Returns (..., experts).
    """
    return probability.shape[-1] * share


@equation(logits=floats("... experts"))
def router_z_loss(logits: Array) -> Array:
    """A price on large logits of a router, whose softmax would lose precision.

    L = (log Z)^2, log Z = log sum_i exp(x_i)

    Args:
        logits: (..., experts). Returns (...).
    Units:
        Nats squared.
    Gradient:
        `router_z_loss_grad`.
    Raises:
        MathsError: the logits are not floating, or have no axis.
    Source:
        Zoph et al. 2022, "ST-MoE: Designing Stable and Transferable Sparse Expert Models", eq. 5.
    Example:
        router_z_loss(array([1.0, 2.0]))
    """
    return logsumexp(logits) ** 2


@equation(router_z_loss)
def router_z_loss_grad(logits: Array) -> Array:
    """The gradient of `router_z_loss` by the logits.

    dL/dx = 2 log Z softmax(x)

    Args:
        As `router_z_loss`. Returns like logits.
    """
    return 2 * logsumexp(logits)[..., None] * softmax(logits)


@equation(bias=floats("experts"), load=not_negative("experts"), rate=NOT_NEGATIVE)
def balancing_step(bias: Array, load: Array, *, rate: float) -> Array:
    """The next bias of each expert in the router's choice, after an update.

    b_i <- b_i + u sign(mean(c) - c_i)

    c_i is how many tokens of the update chose expert i. Experts with too few tokens become likelier
    and the others less likely, and no gradient disturbs the main loss.

    Args:
        bias: (experts,), b. load: (experts,), c. rate: u. Returns (experts,).
    Raises:
        MathsError: the load or the rate is negative.
    Source:
        Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts",
        algorithm 1.
    See also:
        `load_balancing_loss`.
    Example:
        balancing_step(array([0.0, 0.0]), array([3.0, 1.0]), rate=0.1)
    """
    xp = namespace(bias, load)
    return bias + rate * xp.sign(xp.mean(load) - load)
