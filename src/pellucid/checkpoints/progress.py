"""How far a run is: the part of a checkpoint's state that other rooms read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.config import decode
from pellucid.config.checks import at_least
from pellucid.errors import CheckpointError, ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedProgress:
    """How far a run is, without tensors; a loss is None until it is measured.

    Attributes:
        step: updates that are done.
        tokens: terms that the run has learnt from.
        best_loss: the lowest held-out loss, in nats.
        best_saved_loss: the lowest one with a checkpoint.
        stale_evaluations: evaluations since the lowest loss.
    """

    step: int
    tokens: int
    best_loss: float | None
    best_saved_loss: float | None
    stale_evaluations: int = 0

    def __post_init__(self) -> None:
        at_least("step", self.step, 0)
        at_least("tokens", self.tokens, 0)
        at_least("stale_evaluations", self.stale_evaluations, 0)


def read_progress(state: Mapping[str, Any], file: Path) -> SavedProgress:
    """The progress in a checkpoint's state; `file` is for messages.

    Raises:
        CheckpointError: it is missing, or a number is impossible; names file, key and value.
    """
    try:
        return decode(SavedProgress, state.get("progress"), "progress")
    except ConfigError as error:
        raise CheckpointError(f"{file} is damaged: {error}") from None
