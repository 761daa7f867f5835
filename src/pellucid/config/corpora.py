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

    Attributes:
        paths: files, folders and patterns, as in `Files`.
        prompt: a column, or a text with columns in braces; absent, the column with a usual name.
        answer: a column, or a text with columns in braces; absent, the column with a usual name.
        messages: the column with the messages of a chat; it excludes prompt and answer.
        template: a file with a Jinja template for messages; absent, the tokenizer's own, or the
            plain one.
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
    """A text and the text to write from it: parallel sentences, questions and answers.

    Attributes:
        paths: files, folders and patterns, as in `Files`.
        source, target: a column, or a text with columns in braces; absent, the column with a usual
            name.
    """

    paths: Paths
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled(Checked):
    """Texts with the name of their class, or of several classes.

    Attributes:
        paths: files, folders and patterns, as in `Files`.
        text, label: a column, or a text with columns in braces; absent, the column with a usual
            name.
        separator: the sign between several labels of one text; a list of labels needs none.
    """

    paths: Paths
    text: str | None = None
    label: str | None = None
    separator: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences(Checked):
    """Prompts, each with a chosen and a rejected answer.

    Attributes:
        paths: files, folders and patterns, as in `Files`.
        prompt, chosen, rejected: a column, or a text with columns in braces; absent, the column
            with a usual name.
        template: a file with a Jinja template for messages; absent, the tokenizer's own, or the
            plain one.
    """

    paths: Paths
    prompt: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    template: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts(Checked):
    """Prompts to answer; the reward gets the whole row.

    Attributes:
        paths: files, folders and patterns, as in `Files`.
        prompt: a column, or a text with columns in braces; absent, the column with a usual name.
        template: a file with a Jinja template for messages; absent, the tokenizer's own, or the
            plain one.
    """

    paths: Paths
    prompt: str | None = None
    template: str | None = None


#: A corpus of rows with columns.
Rows = Conversations | Pairs | Labelled | Preferences | Prompts
