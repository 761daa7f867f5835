"""The random generators that a step may use: seeded at its start, saved and restored.

(seed, step) alone seeds the generators of each update: torch's, and also Python's and NumPy's, for
rewards and other code of the user. So you can repeat an update alone, and an observer that draws
numbers between two updates changes nothing. Checkpoints have the states for code that draws between
updates.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor


def seed_step(seed: int, step: int) -> None:
    """Seed all generators for the update that follows `step` updates.

    These are torch's on every device, and the global ones of Python and NumPy.
    """
    _seed(f"{seed}:{step}")


def seed_part(seed: int, step: int, part: int) -> None:
    """Seed all generators for one part of the batch; the first part goes on from `seed_step`.

    So a part has the same random numbers wherever it is computed.

    Args:
        seed: the run's seed.
        step: how many updates are done.
        part: the number of the part, from 0.
    """
    _seed(f"{seed}:{step}:{part}" if part else f"{seed}:{step}")


def _seed(words: str) -> None:
    digest = hashlib.sha256(words.encode()).digest()
    cast("Any", torch).manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    random.seed(digest)
    np.random.seed(np.frombuffer(digest, dtype=np.uint32))


@contextmanager
def generators_kept() -> Generator[None]:
    """Restore the caller's generators at the end. Also a decorator."""
    tensors, states = generator_states()
    try:
        yield
    finally:
        restore_generators(tensors, states)


def generator_states() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The states of torch's generators as tensors, of Python's and NumPy's as JSON.

    A device that nothing has used yet is left out: to ask it would start it.
    """
    tensors = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        for index, state in enumerate(torch.cuda.get_rng_state_all()):
            tensors[f"cuda:{index}"] = state
    version, words, gauss = random.getstate()
    kind, keys, place, has_gauss, cached = cast("Any", np.random.get_state())
    return tensors, {
        "python": [version, list(words), gauss],
        "numpy": [kind, keys.tolist(), place, has_gauss, cached],
    }


def restore_generators(tensors: Mapping[str, Tensor], states: Mapping[str, Any]) -> None:
    """Restore the states of `generator_states`; a generator without a state stays as it is."""
    if "cpu" in tensors:
        torch.set_rng_state(tensors["cpu"])
    for name, state in tensors.items():
        if name.startswith("cuda:") and int(name[5:]) < torch.cuda.device_count():
            torch.cuda.set_rng_state(state, int(name[5:]))
    if "python" in states:
        version, words, gauss = states["python"]
        random.setstate((version, tuple(words), gauss))
    if "numpy" in states:
        kind, keys, place, has_gauss, cached = states["numpy"]
        np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), place, has_gauss, cached))
