"""The feed-forward layer of a block, and dropout."""

from __future__ import annotations

from pellucid.maths.activations import gelu, gelu_grad, relu, relu_grad
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import DECAY_RATE, Words, truths
from pellucid.maths.layers.lora import outer_sum

_BENDS = {"gelu": (gelu, gelu_grad), "relu": (relu, relu_grad)}


@equation(
    x="... d_model",
    up="d_ff d_model",
    up_bias="d_ff",
    down="d_model d_ff",
    down_bias="d_model",
    activation=Words(("gelu", "relu")),
)
def feed_forward(
    x: Array, up: Array, up_bias: Array, down: Array, down_bias: Array, *, activation: str = "gelu"
) -> Array:
    """The layer that transforms each token alone: wider, bent, and back.

    y = W_2 f(W_1 x + b_1) + b_2

    Row i of W_1 is a pattern, and column i of W_2 is what unit i writes if the pattern is there.

    Args:
        x: (..., d_model). up: W_1, (d_ff, d_model). up_bias: b_1, (d_ff,).
        down: W_2, (d_model, d_ff). down_bias: b_2, (d_model,). Returns like x.
        activation: f, "gelu" or "relu".
    Gradient:
        `feed_forward_grad`.
    Fails:
        Without f it is one linear layer of rank d_model. A unit of a ReLU that no token moves gets
        no gradient.
    Raises:
        MathsError: the shapes do not fit.
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", eq. 2.
    See also:
        `swiglu`, the gated form.
    Example:
        feed_forward(array([1.0, -1.0]), eye(2), zeros(2), eye(2), zeros(2), activation="relu")
    """
    xp = namespace(x, up, up_bias, down, down_bias)
    bend, _ = _BENDS[activation]
    units = bend(x @ xp.matrix_transpose(up) + up_bias)
    return units @ xp.matrix_transpose(down) + down_bias


@equation(feed_forward, grad="... d_model")
def feed_forward_grad(
    x: Array,
    up: Array,
    up_bias: Array,
    down: Array,
    down_bias: Array,
    grad: Array,
    *,
    activation: str = "gelu",
) -> tuple[Array, Array, Array, Array, Array]:
    """The gradients that reach x, both matrices and both biases.

    dh = (W_2^T g) f'(W_1 x + b_1);  dx = W_1^T dh,  dW_1 = dh x^T,  db_1 = dh
    dW_2 = g f(W_1 x + b_1)^T,  db_2 = g, summed over tokens

    Args:
        As `feed_forward`. grad: like x. Returns dx, dup, dup_bias, ddown, ddown_bias.
    """
    xp = namespace(x, up, up_bias, down, down_bias, grad)
    bend, bend_grad = _BENDS[activation]
    before = x @ xp.matrix_transpose(up) + up_bias
    inner = bend_grad(before, grad @ down)
    tokens = tuple(range(x.ndim - 1))
    return (
        inner @ up,
        outer_sum(inner, x),
        xp.sum(inner, axis=tokens),
        outer_sum(grad, bend(before)),
        xp.sum(grad, axis=tokens),
    )


@equation(x="...", keep=truths("..."), rate=DECAY_RATE)
def dropout(x: Array, keep: Array, *, rate: float) -> Array:
    """Entries that are not kept become 0; the others grow, so that the mean stays.

    y = x m / (1 - p),  m = 1 where kept, else 0

    Args:
        x: (...). keep: truth values, (...): each true with probability 1 - p. rate: p, in [0, 1).
        Returns like x.
    Gradient:
        `dropout_grad`.
    Fails:
        It is for training alone. In evaluation nothing is dropped and nothing is scaled.
    Raises:
        MathsError: the shapes differ, or the rate is not in [0, 1).
    Source:
        Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting",
        section 10.
    Example:
        dropout(array([1.0, 2.0, 3.0, 4.0]), array([True, False, True, True]), rate=0.25)
    """
    xp = namespace(x, keep)
    return xp.where(keep, x / (1 - rate), xp.zeros_like(x))


@equation(dropout, grad="...")
def dropout_grad(grad: Array, keep: Array, *, rate: float) -> Array:
    """The gradient that reaches x: the same entries, with the same factor.

    dx = g m / (1 - p)

    Args:
        grad, keep: (...). Returns like grad.
    """
    return dropout(grad, keep, rate=rate)
