"""Every random generator a step may use: set at its start, saved and brought back.

Comes in: a seed and a step, or saved states. Goes out: generators in a known state. It does not
know what is drawn.

Each update draws from generators that are seeded by (seed, step) alone. So an update can be
repeated by itself, and an observer that draws numbers between two updates changes nothing. The
generators are saved all the same, for a user's own parts that draw from Python's or NumPy's.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor


def seed_step(seed: int, step: int) -> None:
    """Seed torch's generators, of every device, for the update that follows `step` updates."""
    digest = hashlib.sha256(f"{seed}:{step}".encode()).digest()
    cast("Any", torch).manual_seed(int.from_bytes(digest[:8], "little") >> 1)


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
    """Bring back what `generator_states` gave."""
    torch.set_rng_state(tensors["cpu"])
    for name, state in tensors.items():
        if name.startswith("cuda:") and int(name[5:]) < torch.cuda.device_count():
            torch.cuda.set_rng_state(state, int(name[5:]))
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, place, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), place, has_gauss, cached))
