"""What is known of a run's data before there is a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pellucid.data.shards import PreparedText
from pellucid.data.store import StoredExamples
from pellucid.tokenizers import Tokenizer

Data = PreparedText | StoredExamples


@dataclass(frozen=True, slots=True)
class Ready:
    """A tokenizer, what puts the encoded data into a folder, and the classes, where there are."""

    tokenizer: Tokenizer
    fill: Callable[[Path], Data]
    classes: tuple[str, ...] | None = None
