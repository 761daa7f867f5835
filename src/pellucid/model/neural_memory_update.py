"""Write a text into a memory chunk by chunk, and read the memory after each token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.model.views import View


class MemoryState(NamedTuple):
    """The memory before the current chunk, the memory now, and its momentum."""

    before: Float[Tensor, "batch heads d_value d_key"]
    now: Float[Tensor, "batch heads d_value d_key"]
    momentum: Float[Tensor, "batch heads d_value d_key"]

    @classmethod
    def new(cls, memory: Float[Tensor, "batch heads d_value d_key"]) -> MemoryState:
        """The state of a memory before the first token."""
        return cls(memory, memory, torch.zeros_like(memory))


class Gates(NamedTuple):
    """The gates of each token: theta, log eta and log (1 - alpha), per head."""

    rate: Float[Tensor, "batch heads time"]
    log_persistence: Float[Tensor, "batch heads time"]
    log_kept: Float[Tensor, "batch heads time"]


class Steps(NamedTuple):
    """Which tokens are written, end a chunk, or start a document, row by row."""

    real: Bool[Tensor, "batch time"]
    ends_chunk: Bool[Tensor, "batch time"]
    starts_document: Bool[Tensor, "batch time"]


def through_text(
    state: MemoryState,
    q: Float[Tensor, "batch heads time d_key"],
    k: Float[Tensor, "batch heads time d_key"],
    v: Float[Tensor, "batch heads time d_value"],
    gates: Gates,
    *,
    view: View,
    chunk: int,
    fresh: Float[Tensor, "batch heads d_value d_key"],
) -> tuple[Float[Tensor, "batch heads time d_value"], MemoryState]:
    """The memory's output for each token, after its own step, and the state after all tokens.

    Chunks count real tokens from the start of the text or of a document. So padding does not change
    the result, and neither does the division of a text into calls.

    Args:
        state: before the first token.
        q, k: (batch, heads, time, d_key). v: (batch, heads, time, d_value).
        gates: of each token.
        view: padding and documents.
        chunk: tokens per chunk.
        fresh: the memory at the start of each document.

    Raises:
        PellucidError: tokens may look ahead.
    """
    if view.prefix is not None or not (view.causal or view.forwards or q.shape[2] == 1):
        raise PellucidError(
            "a neural memory reads from left to right, so no token can see later ones: leave the "
            "prefix out, and use another attention for an encoder"
        )
    steps = _steps(view, chunk, q)
    reads: list[Tensor] = []
    for first, end in _spans(view, steps, chunk, q.shape[2]):
        span = slice(first, end)
        if steps is not None:
            state = _select_rows(steps.starts_document[:, first], MemoryState.new(fresh), state)
        read, state = _read_and_write(
            state,
            q[:, :, span],
            k[:, :, span],
            v[:, :, span],
            Gates(*(gate[:, :, span] for gate in gates)),
            None if steps is None else steps.real[:, None, span].to(q.dtype),
        )
        reads.append(read)
        next_chunk = state._replace(before=state.now)
        if steps is not None:
            state = _select_rows(steps.ends_chunk[:, end - 1], next_chunk, state)
        elif (view.start + end) % chunk == 0:
            state = next_chunk
    return torch.cat(reads, dim=2), state


def _read_and_write(
    state: MemoryState, q: Tensor, k: Tensor, v: Tensor, gates: Gates, real: Tensor | None
) -> tuple[Tensor, MemoryState]:
    """The outputs for some tokens of one chunk, and the state after them.

    With e_i = 2 (M_before k_i - v_i), a step subtracts theta_i e_i k_i^T, and after token t

        S_t = E_t0 S - sum_i E_ti theta_i e_i k_i^T,    E_ti = eta_(i+1) ... eta_t
        M_t = A_t0 M + sum_j A_tj S_j,                  A_tj = (1 - alpha_(j+1)) ... (1 - alpha_t)

    So M_t q_t is a causal product of q and k with weights W = A E, and no M_t is formed.
    """
    if real is not None:  # padding makes no step and causes no decay
        gates = Gates(*(gate * real for gate in gates))
    decay, decay_from_start = _products(gates.log_kept)
    lasting, lasting_from_start = _products(gates.log_persistence)
    if real is not None:
        decay = decay * real[:, :, None, :]
    writes = gates.rate[..., None] * 2 * (k @ state.before.mT - v)
    weights = decay @ lasting
    momentum_share = (decay @ lasting_from_start[..., None]).squeeze(-1)
    read = (
        decay_from_start[..., None] * (q @ state.now.mT)
        + momentum_share[..., None] * (q @ state.momentum.mT)
        - (q @ k.mT * weights) @ writes
    )
    last = -1
    momentum = lasting_from_start[..., last, None, None] * state.momentum - _weighted_sum(
        lasting[..., last, :], writes, k
    )
    memory = (
        decay_from_start[..., last, None, None] * state.now
        + momentum_share[..., last, None, None] * state.momentum
        - _weighted_sum(weights[..., last, :], writes, k)
    )
    return read, MemoryState(state.before, memory, momentum)


def _weighted_sum(weights: Tensor, writes: Tensor, k: Tensor) -> Tensor:
    return (weights[..., None] * writes).mT @ k


def _products(logs: Float[Tensor, "batch heads time"]) -> tuple[Tensor, Tensor]:
    """Products of the factors after i up to t, zero where i > t; and from the start up to t."""
    sums = logs.cumsum(-1)
    log_products = sums[..., :, None] - sums[..., None, :]
    is_later = torch.ones_like(log_products[0, 0], dtype=torch.bool).triu(1)
    return log_products.masked_fill(is_later, -torch.inf).exp(), sums.exp()


def _select_rows(rows: Tensor, if_true: MemoryState, if_false: MemoryState) -> MemoryState:
    mask = rows[:, None, None, None]
    return MemoryState(*(torch.where(mask, a, b) for a, b in zip(if_true, if_false, strict=True)))


def _steps(view: View, chunk: int, q: Tensor) -> Steps | None:
    """None if every token is real and there is one document: then all rows have equal steps."""
    if view.padding is None and view.documents is None:
        return None
    batch, time, start = q.shape[0], q.shape[2], view.start
    all_real = torch.ones(batch, start + time, dtype=torch.bool, device=q.device)
    padding = all_real if view.padding is None else view.padding
    n_real = padding.long().cumsum(1)[:, start:]
    real = padding[:, start:]
    starts_document = torch.zeros_like(real)
    if view.documents is not None:
        starts_document[:, 1:] = view.documents[:, 1:] != view.documents[:, :-1]
    count = n_real - torch.where(starts_document, n_real - real.long(), 0).cummax(1).values
    return Steps(real, ends_chunk=real & (count % chunk == 0), starts_document=starts_document)


def _spans(view: View, steps: Steps | None, chunk: int, time: int) -> Iterator[tuple[int, int]]:
    """First and end of each run of tokens that can be written at once."""
    if steps is None:
        cuts = [cut for cut in range(1, time) if (view.start + cut) % chunk == 0]
    else:
        is_cut = steps.ends_chunk[:, :-1].any(0) | steps.starts_document[:, 1:].any(0)
        cuts = [index + 1 for index, cut in enumerate(is_cut.cpu().numpy()) if cut]
    return zip([0, *cuts], [*cuts, time], strict=True)
