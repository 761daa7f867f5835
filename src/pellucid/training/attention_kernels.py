"""The kernel that computes a model's attention.

`pellucid.counting.choose_kernel` chooses it by the shape alone, so that the same seed gives the
same bits. The choice comes from measurement (`python -m benchmarks.attention_kernels`). On a CPU in
bfloat16, forward and backward of torch's fused kernel take longer than matrix products and a
softmax; in float32 the fused kernel is faster. Beyond 512 keys the process's allocator decides: if
it gives large blocks back to the system, fetching the pages of the attention weights costs more
than the products save.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pellucid.model import CrossAttention, MultiHeadAttention, Transformer

Kernel = Literal["fused", "products"]


def attend_by(model: Transformer, kernel: Kernel) -> None:
    """Let `kernel` compute the attention of every layer that can use it."""
    for layer in _layers(model):
        layer.fused = kernel == "fused"


def kernel_of(model: Transformer) -> Kernel:
    """The kernel that computes a model's attention."""
    return "fused" if all(layer.fused for layer in _layers(model)) else "products"


def _layers(model: Transformer) -> Iterator[MultiHeadAttention | CrossAttention]:
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | CrossAttention):
            yield module
