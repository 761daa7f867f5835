"""What an export wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A folder that other programs read.

    `family` is the architecture that the files name. `notes` are sentences about parts that were
    added without an effect, and about what a reader has to know.
    """

    folder: Path
    family: str
    notes: tuple[str, ...] = ()
