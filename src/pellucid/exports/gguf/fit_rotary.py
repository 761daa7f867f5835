"""Whether llama.cpp rotates queries and keys as a model does."""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid import config
from pellucid.errors import CheckpointError
from pellucid.exports.gguf.architecture import Architecture
from pellucid.exports.gguf.layers import rotary_of, windows_of
from pellucid.exports.gguf.rotary import CONTEXT_STEP

#: The ends of YaRN's ramp in llama.cpp, in turns.
_BETAS = (32.0, 1.0)


def check_rotary(architecture: Architecture, stack: config.Stack) -> None:
    """Refuse layers that rotate where llama.cpp does not, or by other angles.

    Args:
        architecture: of llama.cpp, one that rotates.
        stack: the stack.

    Raises:
        CheckpointError: names the difference.
    """
    windows = windows_of(stack)
    schemes: dict[bool, set[config.OnePositions]] = {False: set(), True: set()}
    any_window = any(windows)
    for index, (layer, window) in enumerate(zip(stack.layers, windows, strict=True)):
        windowed = window is not None
        rotates = _rotates(architecture, index, windowed=windowed, any_window=any_window)
        if isinstance(layer.positions, config.Rotary) != rotates:
            raise CheckpointError(
                f"layer {index + 1} has {type(layer.positions).__name__}, and llama.cpp's "
                f"{architecture.name} has {'Rotary' if rotates else 'NoPositions'} there"
            )
        if rotates:
            schemes[architecture.windows and windowed].add(layer.positions)
    if any(len(different) > 1 for different in schemes.values()):
        raise _differs(architecture)
    full, local = rotary_of(stack, windowed=False), rotary_of(stack, windowed=True)
    if architecture.windows and local is not None:
        _check_local(architecture, full or replace(local, scaling=None), local)
    rotary = full or local
    if rotary is None:
        return
    _check_width(architecture, stack, rotary)
    if rotary.scaling is not None:
        _check_scaling(architecture, rotary.scaling)


def _rotates(architecture: Architecture, index: int, *, windowed: bool, any_window: bool) -> bool:
    match architecture.rotates:
        case "all":
            return True
        case "windows":
            return windowed
        case "windows_if_any":
            return windowed or not any_window
        case "three_of_four":
            return (index + 1) % 4 != 0


def _differs(architecture: Architecture) -> CheckpointError:
    return CheckpointError(
        "positions differs from layer to layer in a way that llama.cpp's "
        f"{architecture.name} does not have"
    )


def _check_local(architecture: Architecture, full: config.Rotary, local: config.Rotary) -> None:
    match architecture.local:
        case "same":
            as_there = local == full or architecture.rotates != "all"
        case "unscaled":
            as_there = local == replace(full, scaling=None)
        case "own_base":
            as_there = local == replace(full, base=local.base, scaling=None)
    if not as_there:
        raise _differs(architecture)


def _check_width(architecture: Architecture, stack: config.Stack, rotary: config.Rotary) -> None:
    n_rotated = rotary.n_features
    if n_rotated not in (None, stack.d_head) and not architecture.partial:
        raise CheckpointError(
            f"positions.n_features is {n_rotated}, and llama.cpp's {architecture.name} rotates all "
            f"{stack.d_head} features of a head"
        )


def _check_scaling(architecture: Architecture, scaling: config.RotaryScaling) -> None:
    name = type(scaling).__name__
    allowed = list(architecture.scalings)
    if architecture.frequency_factors:
        allowed.append(config.Llama3Scaling)
    if type(scaling) not in allowed:
        raise CheckpointError(
            f"positions.scaling is {name}, which llama.cpp does not compute like this in "
            f"{architecture.name}: it has {', '.join(kind.__name__ for kind in allowed)}"
        )
    if isinstance(scaling, config.YaRN):
        _check_yarn(architecture, scaling)
    if isinstance(scaling, config.LongRoPE) and scaling.original_context_length < CONTEXT_STEP:
        raise CheckpointError(
            "positions.scaling.original_context_length is "
            f"{scaling.original_context_length}, and llama.cpp's {architecture.name} has its long "
            f"factors from a context of {CONTEXT_STEP} on"
        )


def _check_yarn(architecture: Architecture, scaling: config.YaRN) -> None:
    if (scaling.beta_fast, scaling.beta_slow) != _BETAS:
        raise CheckpointError(
            f"positions.scaling has beta_fast {scaling.beta_fast:g} and beta_slow "
            f"{scaling.beta_slow:g}, and llama.cpp has {_BETAS[0]:g} and {_BETAS[1]:g}"
        )
    if not scaling.truncated:
        raise CheckpointError(
            "positions.scaling.truncated is false, and llama.cpp rounds the ends of YaRN's ramp to "
            "whole features"
        )
    if architecture.yarn_in_scores and not math.isclose(scaling.attention_factor, 1.0):
        raise CheckpointError(
            f"positions.scaling.attention_factor is {scaling.attention_factor:g}, and llama.cpp's "
            f"{architecture.name} has 1"
        )
