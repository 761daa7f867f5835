"""Data as rows with named columns: instructions, pairs, labels, preferences, prompts.

A field names a column, or gives a text with columns in braces: "Translate to French: {english}". If
you leave a column out, pellucid looks for its usual names.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.config.checks import Checked, Paths
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations(Checked):
    """Prompts with their answers, or whole chats in a column of messages.

    `template` is a file with a Jinja template for messages. Without it pellucid uses the
    tokenizer's own template, or its default one.
    """

    paths: Paths
    prompt: str | None = None
    answer: str | None = None
    messages: str | None = None
    template: str | None = None

    def _check(self) -> None:
        if self.messages is not None and (self.prompt or self.answer):
            raise ConfigError("messages hold prompts and answers both: leave prompt and answer out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Checked):
    """A text and the text to write from it: parallel sentences, questions and answers."""

    paths: Paths
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled(Checked):
    """Texts with the name of their class; or several names, split by `separator` or as a list."""

    paths: Paths
    text: str | None = None
    label: str | None = None
    separator: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences(Checked):
    """Prompts, each with a chosen and a rejected answer."""

    paths: Paths
    prompt: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    template: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts(Checked):
    """Prompts to answer; the reward gets the whole row."""

    paths: Paths
    prompt: str | None = None
    template: str | None = None


#: A corpus of rows with columns.
Rows = Conversations | Pairs | Labelled | Preferences | Prompts
