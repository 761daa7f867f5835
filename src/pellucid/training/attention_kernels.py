"""Which attention kernel a run uses.

Comes in: a built model, a precision, the rows of a pass. Goes out: the name of a kernel, and a
model that uses it. It does not know the kernels.

The choice is a function of the shape, so that the same seed gives the same bits; the function comes
from measurement (`python -m benchmarks.attention_kernels`). On a CPU, forward and backward of
torch's fused kernel take longer in bfloat16 than products of matrices and a softmax; in float32 it
is the faster one. Beyond 512 keys that depends on the process's allocator: where it gives large
blocks back, the weights' pages cost more than the products save.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pellucid.model import CrossAttention, MultiHeadAttention, Transformer
from pellucid.training import Precision

Kernel = Literal["fused", "products"]

#: Attention weights that products of matrices may keep for the way back, over all layers.
_WEIGHT_BYTES = 2**28
_LONGEST = 512


def choose_attention(model: Transformer, precision: Precision, *, rows: int) -> Kernel:
    """The faster kernel for passes of `rows` whole contexts."""
    length = model.context_length
    heads = sum(
        module.n_heads for module in model.modules() if isinstance(module, MultiHeadAttention)
    )
    weights = 2 * rows * heads * length**2
    narrow = model.device.type == "cpu" and precision == "bfloat16"
    short = length <= _LONGEST and weights <= _WEIGHT_BYTES
    return "products" if narrow and short else "fused"


def attend_by(model: Transformer, kernel: Kernel) -> None:
    """Have attention computed by `kernel`, where it can."""
    for layer in _layers(model):
        layer.fused = kernel == "fused"


def kernel_of(model: Transformer) -> Kernel:
    """By which kernel a model's attention is computed."""
    return "fused" if all(layer.fused for layer in _layers(model)) else "products"


def _layers(model: Transformer) -> Iterator[MultiHeadAttention | CrossAttention]:
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | CrossAttention):
            yield module
