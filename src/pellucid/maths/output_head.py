"""Both ends of a language model: the embedding, and the output head with its cross-entropy."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.cross_entropy import cross_entropy, cross_entropy_grad
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, index


@equation(weight="vocab_size d_model", ids=index("...", size="vocab_size"))
def embedding(weight: Array, ids: Array) -> Array:
    """The row of each id: a one-hot vector times a matrix, by lookup instead of a product.

    x = onehot(ids) W

    Args:
        weight: W, (vocab_size, d_model). ids: (...), whole numbers in [0, vocab_size). Returns
            (..., d_model).
    Gradient:
        `embedding_grad`.
    Raises:
        MathsError: an id has no row.
    Source:
        Bengio et al. 2003, "A Neural Probabilistic Language Model", section 3.1.
    Example:
        embedding(array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), array([2, 0, 2]))
    """
    xp = namespace(weight)
    flat = xp.take(weight, xp.reshape(ids, (-1,)), axis=0)
    return xp.reshape(flat, (*ids.shape, weight.shape[-1]))


@equation(ids=index("...", size="vocab_size"), grad="... d_model", vocab_size=COUNT)
def embedding_grad(ids: Array, grad: Array, *, vocab_size: int) -> Array:
    """The gradient that reaches the matrix when `grad` reaches the embedded tokens: a scatter-add.

    dL/dW = onehot(ids)^T g

    Each row gets the sum of the gradients at all positions of its token. A token that does not
    occur gets exactly zero.

    Args:
        ids: (...). grad: (..., d_model). Returns (vocab_size, d_model).
    """
    return _scattered(ids, grad, vocab_size)


def _at_least_one_target(targets: Array) -> None:
    checks.at_least(1, **{"the number of targets": math.prod(targets.shape)})


@equation(
    _at_least_one_target,
    x="... d_model",
    weight="classes d_model",
    bias="classes",
    targets=index("...", size="classes"),
)
def linear_head_loss(x: Array, weight: Array, bias: Array, targets: Array) -> Array:
    """The mean cross-entropy of logits that are a linear function of hidden states.

    z = x W^T + b,  L = -1/N sum_t log softmax(z_t)_target

    Args:
        x: (..., d_model). weight: W, (classes, d_model). bias: b, (classes,). targets: (...), whole
            numbers in [0, classes). Returns one number: the mean over every row.
    Units:
        Nats per row.
    Gradient:
        `linear_head_grads`.
    Raises:
        MathsError: the shapes do not fit, or a target is no class.
    Source:
        Bishop 2006, "Pattern Recognition and Machine Learning", eq. 4.108.
    See also:
        `pellucid.objectives.linear_cross_entropy`, which never forms all logits at once.
    Example:
        linear_head_loss(array([[1.0, 2.0]]), array([[0.1, 0.2], [0.3, 0.4]]), zeros(2), array([1]))
    """
    return namespace(x, weight).mean(cross_entropy(_scores(x, weight, bias), targets))


@equation(linear_head_loss)
def linear_head_grads(
    x: Array, weight: Array, bias: Array, targets: Array
) -> tuple[Array, Array, Array]:
    """The gradients of `linear_head_loss` by the hidden states, the matrix and the bias.

    dx_t = (p_t - y_t) W / N,  dW = sum_t (p_t - y_t) x_t^T / N,  db = sum_t (p_t - y_t) / N

    Row k of dW is sum_t (p_t(k) - y_t(k)) x_t: a step moves row k towards the hidden states whose
    target is k, and away from all others.

    Args:
        As `linear_head_loss`. Returns dx, dW, db.
    Source:
        Bishop 2006, "Pattern Recognition and Machine Learning", eq. 4.109.
    """
    xp = namespace(x, weight)
    error = cross_entropy_grad(_scores(x, weight, bias), targets)
    rows = xp.reshape(error, (-1, weight.shape[0]))
    rows = rows / rows.shape[0]
    hidden = xp.reshape(x, (-1, weight.shape[1]))
    dx = xp.reshape(rows @ weight, x.shape)
    return dx, xp.matrix_transpose(rows) @ hidden, xp.sum(rows, axis=0)


@equation(
    _at_least_one_target,
    weight="vocab_size d_model",
    ids=index("...", size="vocab_size"),
    targets=index("...", size="vocab_size"),
)
def tied_loss(weight: Array, ids: Array, targets: Array) -> Array:
    """The loss of the smallest tied model: one matrix embeds a token and scores the next one.

    x = W[ids],  L = -1/N sum_t log softmax(W x_t)_target

    Args:
        weight: W, (vocab_size, d_model). ids, targets: (...), whole numbers in [0, vocab_size).
            Returns one number.
    Units:
        Nats per token.
    Gradient:
        `tied_loss_grad`.
    Fails:
        Its scores are symmetric: if b is likely after a, then a gets the same score after b.
    Raises:
        MathsError: ids and targets have different shapes, or one of them has no row.
    Source:
        Press and Wolf 2017, "Using the Output Embedding to Improve Language Models", section 3.
    Example:
        tied_loss(array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), array([0, 1]), array([2, 2]))
    """
    xp = namespace(weight)
    no_bias = xp.zeros_like(weight[:, 0])
    return linear_head_loss(embedding(weight, ids), weight, no_bias, targets)


@equation(tied_loss)
def tied_loss_grad(weight: Array, ids: Array, targets: Array) -> Array:
    """The gradient of `tied_loss` by the matrix: its gradient as head plus that as embedding.

    dW = sum_t (p_t - y_t) x_t^T / N + onehot(ids)^T dx

    With layers in between, dx first passes back through them; it is still the sum of two paths.

    Args:
        As `tied_loss`. Returns like weight.
    Source:
        Press and Wolf 2017, "Using the Output Embedding to Improve Language Models", section 3.
    """
    xp = namespace(weight)
    no_bias = xp.zeros_like(weight[:, 0])
    dx, as_head, _ = linear_head_grads(embedding(weight, ids), weight, no_bias, targets)
    return as_head + _scattered(ids, dx, weight.shape[0])


def _scores(x: Array, weight: Array, bias: Array) -> Array:
    xp = namespace(x, weight, bias)
    return x @ xp.matrix_transpose(weight) + bias


def _scattered(ids: Array, grad: Array, vocab_size: int) -> Array:
    """onehot(ids)^T grad: the array standard has no addition at indices."""
    xp = namespace(grad)
    rows = xp.arange(vocab_size, dtype=ids.dtype, device=device_of(ids))
    hit = xp.astype(rows[:, None] == xp.reshape(ids, (1, -1)), grad.dtype)
    return hit @ xp.reshape(grad, (-1, grad.shape[-1]))
