"""The gradient by the logits as torch compiles it for a GPU: few passes over a chunk of logits.

Step by step, each operation reads and writes the chunk in float32: for bfloat16 logits about 26
bytes a logit beyond the products. Compiled, the logits are read for log Z, read again for the
gradient, and the gradient is written: about 6 bytes. Nothing here is in place, since torch fuses
such code best.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.objectives.chunk_errors import Chunk, ChunkErrors, sum_type

#: Whether losses are computed by compiled code: see `compiling_loss`.
_COMPILES_LOSS: ContextVar[bool] = ContextVar("_COMPILES_LOSS", default=False)


@contextmanager
def compiling_loss(on: bool) -> Generator[None]:
    """Within it, `linear_cross_entropy` compiles what C does not compute: a loss on a GPU."""
    token = _COMPILES_LOSS.set(on)
    try:
        yield
    finally:
        _COMPILES_LOSS.reset(token)


def compiled_errors() -> Callable[[Tensor, Tensor, Chunk], ChunkErrors] | None:
    """`fused_errors` of a chunk, compiled; None outside of `compiling_loss`."""
    if not _COMPILES_LOSS.get():
        return None
    run = _compiled()

    def make(logits: Tensor, targets: Tensor, chunk: Chunk) -> ChunkErrors:
        def scalar(number: float) -> Tensor:
            return torch.full((), number, dtype=sum_type(logits.dtype), device=logits.device)

        cap = None if chunk.soft_cap is None else scalar(chunk.soft_cap)
        numbers = map(scalar, (chunk.divisor, chunk.label_smoothing, chunk.z_loss))
        return ChunkErrors(*run(logits, targets, chunk.bias, *numbers, cap))

    return make


@cache
def _compiled() -> Callable[..., tuple[Tensor, ...]]:
    return cast("Any", torch).compile(fused_errors, fullgraph=True)


def fused_errors(
    logits: Tensor,
    targets: Tensor,
    bias: Tensor | None,
    divisor: Tensor,
    smoothing: Tensor,
    z_loss: Tensor,
    cap: Tensor | None,
) -> tuple[Tensor, ...]:
    """(p (1 + 2 z_loss log Z) - y) / divisor in the type of the logits, and sums of each row.

    Numbers are tensors on the device. Torch would compile anew for each divisor that is a Python
    number; for the second value of `smoothing` torch 2.13 compiles code that is wrong by 8%.

    Args:
        logits: without bias, (rows, vocab).
        targets: (rows,), or `IGNORED`.
        bias: of the head.
        divisor: the number of supervised tokens.
        smoothing: s.
        z_loss: the weight of (log Z)^2.
        cap: the soft cap of the logits.

    Returns:
        The gradient by the logits; -log p, log Z, the hits and the terms of smoothing and z-loss.
    """
    x = logits.to(sum_type(logits.dtype))
    if bias is not None:
        x = x + bias
    if cap is not None:
        x = cap * torch.tanh(x / cap)
    supervised = targets != IGNORED
    index = targets.clamp(min=0)[:, None]
    score, mean = x.gather(1, index)[:, 0], x.mean(-1)
    top, log_z = x.amax(-1), x.logsumexp(-1)
    is_target = torch.arange(x.shape[1], device=x.device) == index
    y = torch.where(is_target, 1 - smoothing, 0.0) + smoothing / x.shape[1]
    errors = (x - log_z[:, None]).exp() * (1 + 2 * z_loss * log_z)[:, None] - y
    if cap is not None:
        errors = errors * (1 - (x / cap).square())
    errors = torch.where(supervised[:, None], errors / divisor, 0.0)
    extra = smoothing * (score - mean) + z_loss * log_z.square()
    losses, hits = (log_z - score) * supervised, (score >= top) * supervised.to(x.dtype)
    return errors.to(logits.dtype), losses, log_z, hits, extra * supervised
