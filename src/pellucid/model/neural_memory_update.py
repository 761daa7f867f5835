"""A text written into a memory chunk by chunk, and read on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.model.views import View


class MemoryState(NamedTuple):
    """The memory before the chunk in hand, the memory now, and its momentum."""

    before: Float[Tensor, "batch heads d_value d_key"]
    now: Float[Tensor, "batch heads d_value d_key"]
    momentum: Float[Tensor, "batch heads d_value d_key"]

    @classmethod
    def new(cls, memory: Float[Tensor, "batch heads d_value d_key"]) -> MemoryState:
        """A memory that has read nothing."""
        return cls(memory, memory, torch.zeros_like(memory))


class Gates(NamedTuple):
    """How each token is written: theta, log eta and log (1 - alpha), per head."""

    rate: Float[Tensor, "batch heads time"]
    log_persistence: Float[Tensor, "batch heads time"]
    log_kept: Float[Tensor, "batch heads time"]


class Steps(NamedTuple):
    """Which tokens are written, and where a chunk ends or a document begins, row by row."""

    real: Bool[Tensor, "batch time"]
    #: True at the last token of a chunk
    ends: Bool[Tensor, "batch time"]
    #: True at the first token of a document
    begins: Bool[Tensor, "batch time"]


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
    """What each token reads after it was written, and the state after all of them.

    Chunks are counted in real tokens from the beginning of the text or of a document, in which the
    memory is `fresh`; so neither padding nor where a text is cut into calls changes anything.

    Raises:
        PellucidError: tokens may look ahead.
    """
    if view.prefix is not None or not (view.causal or view.forwards or q.shape[2] == 1):
        raise PellucidError(
            "a memory is written from left to right, so no token may look ahead: leave the prefix "
            "out, and take another attention for an encoder"
        )
    steps = _steps(view, chunk, q)
    reads: list[Tensor] = []
    for first, end in _between(view, steps, chunk, q.shape[2]):
        span = slice(first, end)
        if steps is not None:
            state = _where(steps.begins[:, first], MemoryState.new(fresh), state)
        read, state = _read_and_write(
            state,
            q[:, :, span],
            k[:, :, span],
            v[:, :, span],
            Gates(*(gate[:, :, span] for gate in gates)),
            None if steps is None else steps.real[:, None, span].to(q.dtype),
        )
        reads.append(read)
        whole = state._replace(before=state.now)
        if steps is not None:
            state = _where(steps.ends[:, end - 1], whole, state)
        elif (view.start + end) % chunk == 0:
            state = whole
    return torch.cat(reads, dim=2), state


def _read_and_write(
    state: MemoryState, q: Tensor, k: Tensor, v: Tensor, gates: Gates, real: Tensor | None
) -> tuple[Tensor, MemoryState]:
    """Some tokens of one chunk: what each reads, and the state after them.

    With e_i = 2 (M_before k_i - v_i), what a step takes is theta_i e_i k_i^T, and after token t
    S_t = E_t0 S - sum_i E_ti theta_i e_i k_i^T,    E_ti = eta_(i+1) ... eta_t
    M_t = A_t0 M + sum_j A_tj S_j,                  A_tj = (1 - alpha_(j+1)) ... (1 - alpha_t)
    so that M_t q_t is a causal product of q and k, weighted by W = A E: no M_t is formed.
    """
    if real is not None:  # padding takes no step, and time stands still
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
    momentum = lasting_from_start[..., last, None, None] * state.momentum - _written(
        lasting[..., last, :], writes, k
    )
    memory = (
        decay_from_start[..., last, None, None] * state.now
        + momentum_share[..., last, None, None] * state.momentum
        - _written(weights[..., last, :], writes, k)
    )
    return read, MemoryState(state.before, memory, momentum)


def _written(weights: Tensor, writes: Tensor, k: Tensor) -> Tensor:
    return (weights[..., None] * writes).mT @ k


def _products(logs: Float[Tensor, "batch heads time"]) -> tuple[Tensor, Tensor]:
    """Products of the factors after i up to t, zero where i > t; and of all from the start to t."""
    sums = logs.cumsum(-1)
    between = sums[..., :, None] - sums[..., None, :]
    later = torch.ones_like(between[0, 0], dtype=torch.bool).triu(1)
    return between.masked_fill(later, -torch.inf).exp(), sums.exp()


def _where(rows: Tensor, where_true: MemoryState, where_false: MemoryState) -> MemoryState:
    chosen = rows[:, None, None, None]
    return MemoryState(
        *(torch.where(chosen, a, b) for a, b in zip(where_true, where_false, strict=True))
    )


def _steps(view: View, chunk: int, q: Tensor) -> Steps | None:
    """None where every token is real and there is one document: rows are then alike."""
    if view.padding is None and view.documents is None:
        return None
    batch, time, start = q.shape[0], q.shape[2], view.start
    everything = torch.ones(batch, start + time, dtype=torch.bool, device=q.device)
    padding = everything if view.padding is None else view.padding
    so_far = padding.long().cumsum(1)[:, start:]
    real = padding[:, start:]
    begins = torch.zeros_like(real)
    if view.documents is not None:
        begins[:, 1:] = view.documents[:, 1:] != view.documents[:, :-1]
    count = so_far - torch.where(begins, so_far - real.long(), 0).cummax(1).values
    return Steps(real=real, ends=real & (count % chunk == 0), begins=begins)


def _between(view: View, steps: Steps | None, chunk: int, time: int) -> Iterator[tuple[int, int]]:
    """From where to where tokens can be written at once."""
    if steps is None:
        cuts = [cut for cut in range(1, time) if (view.start + cut) % chunk == 0]
    else:
        cut = steps.ends[:, :-1].any(0) | steps.begins[:, 1:].any(0)
        cuts = [place + 1 for place, cuts_here in enumerate(cut.cpu().numpy()) if cuts_here]
    return zip([0, *cuts], [*cuts, time], strict=True)
