"""From a chunk of logits to their gradient and each row's loss: in C, or by torch's operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid import native
from pellucid.batches import IGNORED
from pellucid.threads import threads


class Chunk(NamedTuple):
    """The settings that all chunks share."""

    bias: Tensor | None
    divisor: float
    label_smoothing: float
    z_loss: float
    soft_cap: float | None
    learning: bool


class ChunkErrors(NamedTuple):
    """The gradient by a chunk's logits in their dtype, and each row's loss, log Z and hit.

    `extra` are the terms of smoothing and z-loss.
    """

    errors: Tensor
    losses: Tensor
    log_z: Tensor
    hits: Tensor
    extra: Tensor


def sum_type(dtype: torch.dtype) -> torch.dtype:
    """The type of sums."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def errors_in_c(hidden: Tensor) -> Callable[[Tensor, Tensor, Chunk], ChunkErrors] | None:
    """`errors_by_torch` in C, if available: one pass instead of many, and in place."""
    kind = native.kind_of(hidden.dtype)
    run = None if kind is None or hidden.device.type != "cpu" else native.errors()
    if kind is None or run is None:
        return None

    def make(logits: Tensor, targets: Tensor, chunk: Chunk) -> ChunkErrors:
        losses, log_z, hits, extra = torch.empty(4, len(logits))
        targets = targets.contiguous()
        bias = None if chunk.bias is None else chunk.bias.float().contiguous()
        settings = native.Settings(
            logits.shape[1],
            IGNORED,
            chunk.label_smoothing,
            chunk.z_loss,
            chunk.divisor,
            chunk.learning,
        )
        rows = native.Rows(
            logits.data_ptr(),
            None if bias is None else bias.data_ptr(),
            *(tensor.data_ptr() for tensor in (targets, losses, log_z, hits, extra)),
            settings,
        )
        run(kind, rows, len(logits), threads())
        return ChunkErrors(logits, losses, log_z, hits, extra)

    return make


def errors_by_torch(logits: Tensor, targets: Tensor, chunk: Chunk) -> ChunkErrors:
    """(p (1 + 2 z_loss log Z) - y) / divisor, and 0 where the target is ignored."""
    dtype = logits.dtype
    logits = logits.to(sum_type(dtype), copy=True)
    if chunk.bias is not None:
        logits += chunk.bias
    slope = None
    if chunk.soft_cap is not None:
        logits.div_(chunk.soft_cap).tanh_()
        slope = 1 - logits.square()
        logits.mul_(chunk.soft_cap)
    smoothing, vocab = chunk.label_smoothing, logits.shape[1]
    supervised = (targets != IGNORED).to(logits.dtype)
    index = targets.clamp(min=0)[:, None]
    score = logits.gather(1, index)[:, 0]
    mean = logits.mean(-1) if smoothing else score
    # softmax in place, one exponential for both log Z and p
    top = logits.amax(-1)
    errors = logits.sub_(top[:, None]).exp_()
    total = errors.sum(-1)
    log_z = top + total.log()
    extra = (smoothing * (score - mean) + chunk.z_loss * log_z.square()) * supervised
    losses, hits = (log_z - score) * supervised, (score >= top) * supervised
    if chunk.learning:
        errors.mul_(((1 + 2 * chunk.z_loss * log_z) / total)[:, None])
        if smoothing:
            errors.sub_(smoothing / vocab)
        hit = torch.full_like(index, smoothing - 1, dtype=logits.dtype)
        errors.scatter_add_(1, index, hit).mul_((supervised / chunk.divisor)[:, None])
        if slope is not None:
            errors.mul_(slope)
    return ChunkErrors(errors.to(dtype), losses, log_z, hits, extra)
