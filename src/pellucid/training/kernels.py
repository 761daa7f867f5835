"""How a model is computed: by which attention kernel, and compiled or not.

`pellucid.counting.choose_kernel` chooses the kernel by the shape alone, so that the same seed gives
the same bits. The choice comes from measurement (`python -m benchmarks.attention_kernels`). On a
CPU in bfloat16, forward and backward of torch's fused kernel take longer than matrix products and a
softmax; in float32 the fused kernel is faster. Beyond 512 keys the process's allocator decides: if
it gives large blocks back to the system, fetching the pages of the attention weights costs more
than the products save.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Literal, assert_never, cast

import torch
from torch import Tensor

from pellucid.model import (
    Block,
    CrossAttention,
    Experts,
    LatentAttention,
    MultiHeadAttention,
    Transformer,
)
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
)

_log = logging.getLogger(__name__)

Kernel = Literal["fused", "products"]
Recompute = Literal["none", "selective", "full"]


def attend_by(model: Transformer, kernel: Kernel) -> None:
    """Let `kernel` compute the attention of every layer that can use it."""
    for layer in _layers(model):
        layer.fused = kernel == "fused"


def kernel_of(model: Transformer) -> Kernel:
    """The kernel that computes a model's attention."""
    return "fused" if all(layer.fused for layer in _layers(model)) else "products"


def _layers(
    model: Transformer,
) -> Iterator[MultiHeadAttention | CrossAttention | LatentAttention]:
    """The layers that have a choice: those with softmax attention over all keys of a text."""
    for module in model.modules():
        facts = attention_facts(module)
        match facts:
            case SoftmaxAttentionFacts() | LatentAttentionFacts():
                yield cast("MultiHeadAttention | CrossAttention | LatentAttention", module)
            case LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts():
                pass
            case _:
                assert_never(facts)


def recompute_by(model: Transformer, recompute: Recompute) -> None:
    """Let the backward pass compute so much of each block again."""
    for block in _blocks(model):
        block.recompute = recompute


def compiler_problem(device: torch.device) -> str | None:
    """The reason why `torch.compile` does not work here: it is tried on a function of one line."""

    def probe(x: Tensor) -> Tensor:
        return (x * 2).relu().sum()

    try:
        cast("Any", torch).compile(probe)(torch.ones(8, device=device))
    except Exception as error:  # a missing compiler may raise anything; the model then runs eagerly
        _log.info("torch.compile does not work here", exc_info=True)
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return None


def compile_blocks(model: Transformer) -> None:
    """Compile each block in place; blocks that are alike share one compilation.

    Of a block with experts only attention is compiled: the sizes of the experts' products differ
    from batch to batch, and each would be compiled anew.

    Hooks on a block are called. Hooks on modules inside a block are called only within
    `pellucid.typed.eagerly`.
    """
    for block in _blocks(model):
        has_experts = isinstance(block.feed_forward, Experts)
        cast("Any", block.attention if has_experts else block).compile()


def _blocks(model: Transformer) -> Iterator[Block]:
    for stack in (model.encoder, model.decoder):
        for block in () if stack is None else stack.blocks:
            yield cast("Block", block)
