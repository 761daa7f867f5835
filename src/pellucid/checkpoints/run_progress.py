"""How far the run of a checkpoint was, as its `state.json` says.

Comes in: what was read. Goes out: numbers in their ranges, or a refusal by file and key. It does
not know what a run is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.config import decode
from pellucid.config.checks import at_least
from pellucid.errors import CheckpointError, ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """All that changes in a run besides tensors; a loss is None where none was measured."""

    step: int
    tokens: int
    best_loss: float | None
    best_saved_loss: float | None

    def __post_init__(self) -> None:
        at_least("step", self.step, 0)
        at_least("tokens", self.tokens, 0)


def reached(state: Mapping[str, Any], file: Path) -> Reached:
    """The progress in a checkpoint's state, which was read from `file`.

    Raises:
        CheckpointError: it is missing, or a number in it cannot be; names file, key and value.
    """
    try:
        return decode(Reached, state.get("progress"), "progress")
    except ConfigError as error:
        raise CheckpointError(f"{file} is damaged: {error}") from None
