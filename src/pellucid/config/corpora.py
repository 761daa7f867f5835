"""Data that are rows with named columns: instructions, pairs, labels, preferences, prompts.

A column is named, or a text with columns in braces: "Translate to French: {english}". What is left
out is found by the names that are usual.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """Prompts with their answers, or whole chats in a column of messages.

    `template` is a file with a Jinja template for messages; left out, it is the tokenizer's own,
    or the one that pellucid uses where that has none.
    """

    paths: tuple[str, ...]
    prompt: str | None = None
    answer: str | None = None
    messages: str | None = None
    template: str | None = None

    def __post_init__(self) -> None:
        _require_paths(self.paths)
        if self.messages is not None and (self.prompt or self.answer):
            raise ConfigError("messages hold prompts and answers both: leave prompt and answer out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """A text and what is to be written of it: parallel sentences, questions and answers."""

    paths: tuple[str, ...]
    source: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        _require_paths(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """Texts with the name of their class, or names, parted by `separator`, or a list of them."""

    paths: tuple[str, ...]
    text: str | None = None
    label: str | None = None
    separator: str | None = None

    def __post_init__(self) -> None:
        _require_paths(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """Prompts, each with an answer that was chosen and one that was rejected."""

    paths: tuple[str, ...]
    prompt: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    template: str | None = None

    def __post_init__(self) -> None:
        _require_paths(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Prompts to answer; the whole row goes to the reward."""

    paths: tuple[str, ...]
    prompt: str | None = None
    template: str | None = None

    def __post_init__(self) -> None:
        _require_paths(self.paths)


Rows = Conversations | Pairs | Labelled | Preferences | Prompts


def _require_paths(paths: tuple[str, ...]) -> None:
    if not paths:
        raise ConfigError("paths must name at least one file or folder")
