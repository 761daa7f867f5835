"""Every random generator a step may use: set at its start, saved and brought back.

Comes in: a seed and a step, or saved states. Goes out: generators in a known state. It does not
know what is drawn.

Each update draws from generators that are seeded by (seed, step) alone: torch's, and Python's and
NumPy's too, for rewards and other code of the user's. So an update can be repeated by itself, and
an observer that draws numbers between two updates changes nothing. The generators are saved all the
same, for what is drawn between updates.
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
    """Seed all generators for the update that follows `step` updates: of every device of torch's,
    Python's and NumPy's global ones.
    """
    digest = hashlib.sha256(f"{seed}:{step}".encode()).digest()
    cast("Any", torch).manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    random.seed(digest)
    np.random.seed(np.frombuffer(digest, dtype=np.uint32))


@contextmanager
def generators_kept() -> Generator[None]:
    """Whatever is drawn within, the caller's generators are afterwards as they were.

    Also a decorator.
    """
    tensors, states = generator_states()
    try:
        yield
    finally:
        restore_generators(tensors, states)


def generator_states() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The states of torch's generators as tensors, of Python's and NumPy's as JSON.

    Those of a device that nothing has used yet are left out: asking would wake it.
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
    """Bring back what `generator_states` gave; a generator whose state is not there stays."""
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
