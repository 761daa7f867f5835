"""Checks that config classes share; each error says the name, the value and what is allowed."""

from __future__ import annotations

import math

from pellucid.errors import ConfigError
from pellucid.reader import short

#: More than any model or run has, by name, and why; all others have `_FAR`. What a machine has
#: memory for is another question.
_LARGEST = {
    "n_layers": (10_000, "the deepest models that were ever trained have a thousand layers"),
    "n_heads": (2**14, "the widest models have some hundreds"),
    "n_kv_heads": (2**14, "the widest models have some hundreds"),
    "d_head": (2**14, "the widest heads have some hundreds"),
    "d_model": (2**18, "the widest models have some tens of thousands"),
    "d_ff": (2**20, "the widest models have a hundred thousand"),
    "vocab_size": (2**22, "the largest known vocabularies have a million tokens"),
    "context_length": (2**24, "the longest known contexts have ten million tokens"),
    "batch_size": (2**20, "a batch is held in memory, and learns less per text as it grows"),
    "accumulation": (2**20, "a batch has at least one sequence in each part"),
    "rank": (2**16, "a rank is less than the width of the model"),
    "n_samples": (2**16, "all of them are written before one update"),
    "max_new_tokens": (2**20, "no model reads that far back"),
    "newton_schulz_steps": (1000, "five come as near as float32 can"),
    "power_iterations": (1000, "one is enough where it goes on from the last"),
    "n_buckets": (2**16, "a bias is learnt for each"),
    "total_steps": (10**10, "no run lasts that long"),
    "threads": (2**14, "no machine has as many processors"),
}
_FAR = (10**15, "no run lasts that long")


def at_least(name: str, value: float, least: float) -> None:
    """Refuse a value below `least`, above what any model or run has, and what is not finite."""
    _finite(name, value)
    if not value >= least:
        raise ConfigError(f"{name} must be at least {least}, was {short(value)}")
    largest, why = _LARGEST.get(name, _FAR)
    if value > largest:
        raise ConfigError(f"{name} must be at most {largest:,}, was {short(value)}: {why}")


def positive(name: str, value: float) -> None:
    """Refuse zero, negative, and what is not finite."""
    _finite(name, value)
    if not value > 0:
        raise ConfigError(f"{name} must be greater than 0, was {value}")


def fraction(name: str, value: float) -> None:
    """Refuse what is not in [0, 1)."""
    if not 0 <= value < 1:
        raise ConfigError(f"{name} must be at least 0 and less than 1, was {value}")


def _finite(name: str, value: float) -> None:
    if not -math.inf < value < math.inf:
        raise ConfigError(f"{name} must be a finite number, was {short(value)}")
