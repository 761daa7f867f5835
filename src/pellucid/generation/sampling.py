"""Sample the next token from its distribution."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.sampling import keep_min_p, keep_top_p, repetition_penalty
from pellucid.maths.softmax import softmax
from pellucid.typed import to_numpy

if TYPE_CHECKING:
    from pellucid.model import Transformer

#: The largest penalty on a repetition, and the reciprocal of the smallest.
_PENALTY = 1e9
#: Below this temperature the likeliest token is certain, and quotients would overflow.
_COLDEST = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to sample tokens, how many, and when to stop.

    Temperature 0 is greedy. The order is: `repetition_penalty` lowers the logits of tokens that are
    in the text or its prompt (1 changes nothing); then the temperature, `top_k`, `top_p`, `min_p`.
    `guesses` and `draft` change no token: one text is written faster where guesses are right.

    Attributes:
        max_new_tokens: how many tokens to write at most.
        temperature: the logits are divided by it.
        seed: of the draws; row r of a batch has a generator of its own.
        stop: texts that end a continuation.
        guesses: how many tokens are guessed ahead at most, from what the text repeats.
        draft: a smaller model with the same token ids that guesses instead.
    """

    max_new_tokens: int = 200
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    guesses: int = 0
    draft: Transformer | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks = (
            ("max_new_tokens", self.max_new_tokens >= 1, "at least 1"),
            ("temperature", self.temperature >= 0, "at least 0 (0 is greedy)"),
            ("top_k", self.top_k is None or self.top_k >= 1, "at least 1"),
            ("top_p", self.top_p is None or 0 < self.top_p <= 1, "in (0, 1]"),
            ("min_p", self.min_p is None or 0 < self.min_p <= 1, "in (0, 1]"),
            (
                "repetition_penalty",
                1 / _PENALTY <= self.repetition_penalty <= _PENALTY,
                "from 1e-9 to 1e9: beyond, logits overflow (1 changes nothing)",
            ),
            ("seed", 0 <= self.seed < 2**63, "between 0 and 2^63 - 1"),
            ("guesses", 0 <= self.guesses <= 32, "between 0 and 32"),
            ("stop", all(self.stop), "texts that are not empty"),
        )
        for name, is_valid, allowed in checks:
            if not is_valid:
                raise ConfigError(f"{name} must be {allowed}, was {getattr(self, name)}")


def distribution(logits: Array, sampling: Sampling) -> Array:
    """The probabilities from which the next token is sampled.

    Args:
        logits: (rows, vocab), of any array library. Returns the same shape, in float64 if the
            device supports it.
        sampling: has a temperature above 0.
    """
    xp = namespace(logits)
    logits = xp.astype(logits, _wide(logits))
    # the maximum becomes 0 first, so that no low temperature makes it infinite
    logits = logits - xp.max(logits, axis=-1, keepdims=True)
    logits = logits / max(sampling.temperature, _COLDEST)
    if sampling.top_k is not None and sampling.top_k < logits.shape[-1]:
        # as `keep_top_k`, without sorting the whole vocabulary
        largest = torch.as_tensor(logits).topk(sampling.top_k).values
        least = xp.asarray(largest[..., -1:])
        logits = xp.where(logits >= least, logits, xp.full_like(logits, -xp.inf))
    if sampling.top_p is not None:
        logits = keep_top_p(logits, sampling.top_p)
    if sampling.min_p is not None:
        logits = keep_min_p(logits, sampling.min_p)
    return softmax(logits)


def penalise_repetition(logits: Tensor, ids: Tensor, sampling: Sampling) -> Tensor:
    """The logits with the repetition penalty for the tokens in `ids`, if there is one.

    Args:
        logits: (rows, vocab).
        ids: (rows, time), the texts so far.
        sampling: has the penalty.
    """
    if sampling.repetition_penalty == 1:
        return logits
    present = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, ids, value=True)
    return repetition_penalty(logits, present, sampling.repetition_penalty)


def choose(
    logits: Float[Tensor, "rows vocab"], uniforms: Float[Tensor, " rows"], sampling: Sampling
) -> Int[Tensor, " rows"]:
    """The token at which the cumulative distribution passes the row's uniform number.

    Args:
        logits: (rows, vocab).
        uniforms: (rows,), uniform numbers in [0, 1).
        sampling: the temperature and the filters.
    """
    array = _as_array(logits)
    xp = namespace(array)
    if sampling.temperature == 0:
        return torch.as_tensor(xp.argmax(array, axis=-1))
    cumulative = torch.as_tensor(xp.cumulative_sum(distribution(array, sampling), axis=-1))
    # scaled by the total, which rounding may leave a little below 1
    reach = uniforms.to(cumulative)[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, reach, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)


def log_p_of(
    logits: Float[Tensor, "rows vocab"], tokens: Int[Tensor, " rows"]
) -> Float[Tensor, " rows"]:
    """log P of one token of each row, in nats: z_token - log Z."""
    array = _as_array(logits)
    xp = namespace(array)
    top = xp.max(array, axis=-1, keepdims=True)
    # the terms, at most 1 each, are in float32, their sum in float64
    total = xp.sum(xp.exp(array - top), axis=-1, dtype=_wide(array))
    log_z = torch.as_tensor(xp.log(total) + top[:, 0])
    return logits.gather(1, tokens[:, None])[:, 0] - log_z


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """The index of the first stop text, or None."""
    places = [text.find(stop) for stop in stops]
    return min((place for place in places if place >= 0), default=None)


def row_generator(seed: int, row: int) -> torch.Generator:
    """The random generator of one row, seeded by both numbers."""
    digest = hashlib.sha256(f"{seed}:{row}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def _as_array(logits: Float[Tensor, "rows vocab"]) -> Array:
    """Logits on a CPU as a NumPy array, other logits unchanged.

    torch would start its threads for a vocabulary. They keep spinning after the work, on cores that
    should read the next token's weights. NumPy uses one thread.
    """
    return to_numpy(logits.detach().contiguous()) if logits.device.type == "cpu" else logits


def _wide(array: Array) -> Any:
    """float64; float32 on MPS, which has no float64."""
    xp = namespace(array)
    return xp.float32 if "mps" in str(device_of(array)) else xp.float64
