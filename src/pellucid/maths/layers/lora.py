"""LoRA: a frozen matrix, and an update of low rank that is learnt."""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import ANY_NUMBER


@equation(
    x="... inputs",
    weight="outputs inputs",
    down="rank inputs",
    up="outputs rank",
    scale=ANY_NUMBER,
)
def lora(x: Array, weight: Array, down: Array, up: Array, *, scale: float) -> Array:
    """A linear layer whose matrix is frozen, plus a product of two thin matrices.

    y = W x + s B A x

    B A has the rank r of A at most, with r (inputs + outputs) numbers in place of inputs x outputs.
    B starts at 0, so the layer starts as it was. Afterwards W + s B A is one matrix again.

    Args:
        x: (..., inputs). weight: W, (outputs, inputs). down: A, (rank, inputs).
        up: B, (outputs, rank). scale: s, usually alpha / rank. Returns (..., outputs).
    Gradient:
        `lora_grad`.
    Fails:
        While B is 0, no gradient reaches A. If A is 0 as well, none reaches B, and nothing learns.
    Raises:
        MathsError: the shapes do not fit.
    Source:
        Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", eq. 3.
    Example:
        lora(array([1.0, 2.0]), eye(2), array([[1.0, 1.0]]), array([[0.0], [0.5]]), scale=2.0)
    """
    xp = namespace(x, weight, down, up)
    low = x @ xp.matrix_transpose(down)
    return x @ xp.matrix_transpose(weight) + scale * (low @ xp.matrix_transpose(up))


@equation(lora, grad="... outputs")
def lora_grad(
    x: Array, weight: Array, down: Array, up: Array, grad: Array, *, scale: float
) -> tuple[Array, Array, Array, Array]:
    """The gradients that reach x and the three matrices when `grad` reaches `lora`.

    dx = W^T g + s A^T B^T g,  dW = g x^T,  dA = s (B^T g) x^T,  dB = s g (A x)^T

    Training uses dA and dB, which are as thin as A and B. It never forms dW: W is frozen.

    Args:
        As `lora`. grad: (..., outputs). Returns dx, dweight, ddown, dup.
    """
    xp = namespace(x, weight, down, up, grad)
    low, low_grad = x @ xp.matrix_transpose(down), scale * (grad @ up)
    return (
        grad @ weight + low_grad @ down,
        outer_sum(grad, x),
        outer_sum(low_grad, x),
        scale * outer_sum(grad, low),
    )


def outer_sum(grad: Array, x: Array) -> Array:
    """The gradient of W in y = x W^T: the sum of g x^T over all tokens."""
    xp = namespace(grad, x)
    rows, inputs = (xp.reshape(a, (-1, a.shape[-1])) for a in (grad, x))
    return xp.matrix_transpose(rows) @ inputs
