"""Numbers that follow from a model and a sentence: positions, distances, frequencies, differences.

`DERIVED` has them by the names of parameters, each with its origin in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.course.exercises.leaves import array
from pellucid.maths.positions.relative_positions import alibi_slopes
from pellucid.maths.positions.rotary import rotary_frequencies
from pellucid.maths.softmax import logsumexp

if TYPE_CHECKING:
    from pellucid.course.exercises.model_numbers import ModelNumbers

#: The base of rotary positions in most models.
_ROTARY_BASE = 10000.0


@dataclass(frozen=True, slots=True)
class Derived:
    """Numbers of one kind: their origin in words, and how to take `count` of them at a place."""

    origin: str
    take: Callable[[ModelNumbers, int, int], Any]


def _positions(numbers: ModelNumbers, count: int, start: int) -> Any:
    n_first = max(len(numbers.token_ids) - count, 0) + 1
    return np.arange(count) + start % n_first


def _distances(numbers: ModelNumbers, count: int, start: int) -> Any:
    """From the first token to the last: the ends of the sentence as well as neighbours."""
    reach = len(numbers.token_ids) - 1 - start % max(len(numbers.token_ids) - 1, 1)
    return np.round(np.linspace(-reach, reach, count)).astype(int)


def _frequencies(numbers: ModelNumbers, count: int, start: int) -> Any:
    width = numbers.width("query") // 2 * 2
    pairs = np.arange(start % 2, start % 2 + count) % max(width // 2, 1)
    return rotary_frequencies(pairs.astype(float), n_rotated=width, base=_ROTARY_BASE)


def _heads(numbers: ModelNumbers, count: int, start: int) -> Any:
    return (np.arange(count) + start) % numbers.n_heads


def _slopes(numbers: ModelNumbers, count: int, start: int) -> Any:
    return alibi_slopes(_heads(numbers, count, start).astype(float), n_heads=numbers.n_heads)


def _log_ratio(numbers: ModelNumbers, count: int, start: int) -> Any:
    log_p = np.asarray(numbers.take("log_p", (count, 1), start)).ravel()
    return log_p + math.log(numbers.trace.model.token_embedding.num_embeddings)


def _margin(numbers: ModelNumbers, count: int, start: int) -> Any:
    logits = np.asarray(numbers.take("logits", (count, 2), start))
    return logits[:, 0] - logits[:, 1]


def _log_z(numbers: ModelNumbers, count: int, start: int) -> Any:
    logits = array(numbers.trace["logits"])
    return logsumexp(np.take(logits, range(start, start + count), axis=0, mode="wrap"))


def _spectral_norms(numbers: ModelNumbers, count: int, start: int) -> Any:
    """The largest singular values of a layer's matrices."""
    block = numbers.trace.stack_pass(numbers.trace.side).stack.blocks[numbers.layer]
    matrices = [weight for weight in block.parameters() if weight.ndim == 2]
    chosen = (matrices[(start + n) % len(matrices)] for n in range(count))
    return [np.linalg.norm(array(matrix), 2) for matrix in chosen]


_POSITIONS = Derived("positions of tokens in your sentence", _positions)
DERIVED: dict[str, Derived] = {
    **dict.fromkeys(("positions", "query_positions", "key_positions"), _POSITIONS),
    **dict.fromkeys(("queries", "keys"), _POSITIONS),
    "distances": Derived("distances between tokens of your sentence", _distances),
    "frequencies": Derived("rotary frequencies for the heads of your model", _frequencies),
    "heads": Derived("heads of a layer of your model", _heads),
    "slopes": Derived("ALiBi's slopes for the heads of your model", _slopes),
    "log_ratio": Derived(
        "log p of your sentence's tokens, minus the log p of a guess among all words", _log_ratio
    ),
    "margin": Derived("differences of two logits after each token", _margin),
    "log_z": Derived("log Z of the logits in your sentence", _log_z),
    "norms": Derived(
        "largest singular values of matrices of your model's last layer", _spectral_norms
    ),
}
