"""The scaling of rotary positions in a `config.json`: each rope_type, read and described."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.errors import CheckpointError
from pellucid.reader import short

Scaling = config.RotaryScaling | None


def take_number(parameters: Table, name: str, default: float | None = None) -> Any:
    """A number, removed from the table; `default` if it is absent or null."""
    value = parameters.pop(name, None)
    if value is None:
        if default is None:
            raise CheckpointError(f"config.json: the rope parameter {name!r} is missing")
        return default
    if type(value) not in (int, float):
        raise CheckpointError(f"config.json: {name} must be a number, was {value!r}")
    return value


def _default(parameters: Table, context_length: int) -> Scaling:
    return None


def _linear(parameters: Table, context_length: int) -> Scaling:
    return config.LinearScaling(factor=float(take_number(parameters, "factor")))


def _llama3(parameters: Table, context_length: int) -> Scaling:
    return config.Llama3Scaling(
        factor=float(take_number(parameters, "factor")),
        low_frequency_factor=float(take_number(parameters, "low_freq_factor")),
        high_frequency_factor=float(take_number(parameters, "high_freq_factor")),
        original_context_length=_original(parameters, context_length),
    )


def _yarn(parameters: Table, context_length: int) -> Scaling:
    factor = float(take_number(parameters, "factor"))
    mscale, mscale_all = parameters.pop("mscale", None), parameters.pop("mscale_all_dim", None)
    plain = (
        _mscale(factor, mscale) / _mscale(factor, mscale_all)
        if mscale and mscale_all
        else _mscale(factor)
    )
    truncated = parameters.pop("truncate", True)
    return config.YaRN(
        factor=factor,
        original_context_length=_original(parameters, context_length),
        beta_fast=float(take_number(parameters, "beta_fast", 32.0)),
        beta_slow=float(take_number(parameters, "beta_slow", 1.0)),
        attention_factor=float(take_number(parameters, "attention_factor", plain)),
        truncated=bool(truncated),
    )


def _dynamic(parameters: Table, context_length: int) -> Scaling:
    return config.DynamicNTK(
        factor=float(take_number(parameters, "factor")), original_context_length=context_length
    )


def _longrope(parameters: Table, context_length: int) -> Scaling:
    original = _original(parameters, context_length)
    factor = float(take_number(parameters, "factor", context_length / original))
    return config.LongRoPE(
        short=_factors(parameters, "short_factor"),
        long=_factors(parameters, "long_factor"),
        original_context_length=original,
        attention_factor=float(
            take_number(parameters, "attention_factor", longrope_attention_factor(factor, original))
        ),
    )


def longrope_attention_factor(factor: float, original_length: int) -> float:
    """The factor of cos and sin (Ding et al. 2024, "LongRoPE", released with Phi-3)."""
    if factor <= 1 or original_length <= 1:
        return 1.0
    return math.sqrt(1 + math.log(factor) / math.log(original_length))


def _factors(parameters: Table, name: str) -> tuple[float, ...]:
    raw: Any = parameters.pop(name, None)
    values = cast("list[Any]", raw) if isinstance(raw, list) else None
    if values is None or any(type(value) not in (int, float) for value in values):
        value = short(cast("object", raw))
        raise CheckpointError(f"config.json: {name} must be a list of numbers, was {value}")
    return tuple(map(float, values))


def _mscale(factor: float, times: float = 1.0) -> float:
    """The factor of cos and sin (Peng et al. 2023, "YaRN", eq. 22)."""
    return 1.0 if factor <= 1 else 0.1 * times * math.log(factor) + 1.0


def _original(parameters: Table, context_length: int) -> int:
    return int(take_number(parameters, "original_max_position_embeddings", context_length))


_LONGROPE = frozenset(
    {
        "short_factor", "long_factor", "factor", "attention_factor",
        "original_max_position_embeddings",
    }
)  # fmt: skip
#: For each rope_type the names of its numbers, and the function that reads them.
ROPE_TYPES: dict[str, tuple[frozenset[str], Callable[[Table, int], Scaling]]] = {
    "default": (frozenset(), _default),
    "linear": (frozenset({"factor"}), _linear),
    "llama3": (
        frozenset(
            {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}
        ),
        _llama3,
    ),
    "yarn": (
        frozenset(
            {
                "factor", "original_max_position_embeddings", "attention_factor", "beta_fast",
                "beta_slow", "mscale", "mscale_all_dim", "truncate",
            }
        ),
        _yarn,
    ),
    "dynamic": (frozenset({"factor"}), _dynamic),
    "longrope": (_LONGROPE, _longrope),
    "su": (_LONGROPE, _longrope),  # its first name
}  # fmt: skip

REFUSED_TYPES = {
    "mrope": "its angles count places in pictures and films too, and pellucid reads text alone",
}


def describe_scaling(scaling: Scaling) -> Table | None:
    """The value of `rope_scaling`; None for a kind that `transformers` does not have."""
    match scaling:
        case None:
            return None
        case config.LinearScaling(factor=factor):
            return {"rope_type": "linear", "factor": factor}
        case config.Llama3Scaling():
            return {
                "rope_type": "llama3",
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_frequency_factor,
                "high_freq_factor": scaling.high_frequency_factor,
                "original_max_position_embeddings": scaling.original_context_length,
            }
        case config.YaRN():
            return {
                "rope_type": "yarn",
                "factor": scaling.factor,
                "original_max_position_embeddings": scaling.original_context_length,
                "attention_factor": scaling.attention_factor,
                "beta_fast": scaling.beta_fast,
                "beta_slow": scaling.beta_slow,
                "truncate": scaling.truncated,
            }
        case config.DynamicNTK(factor=factor):
            return {"rope_type": "dynamic", "factor": factor}
        case config.LongRoPE():
            return {
                "rope_type": "longrope",
                "short_factor": list(scaling.short),
                "long_factor": list(scaling.long),
                "original_max_position_embeddings": scaling.original_context_length,
                "attention_factor": scaling.attention_factor,
            }
        case config.NTKScaling():
            # `transformers` has no such kind; the comparison will show the difference
            return None
