"""From a config to rows, their columns and the form that encodes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import assert_never

from pellucid import config
from pellucid.config.corpora import Rows
from pellucid.data.chat.forms import (
    ConversationColumns,
    Conversations,
    PreferenceColumns,
    Preferences,
    PromptColumns,
    Prompts,
)
from pellucid.data.chat.templates import ChatTemplate, Template, template_for
from pellucid.data.columns import (
    USUAL,
    Column,
    are_numbered,
    find_languages,
    find_usual,
    parse_column,
    usual_column,
)
from pellucid.data.example import Form
from pellucid.data.pairs_and_labels import LabelColumns, Labelled, PairColumns, Pairs, classes_of
from pellucid.data.sources import read_rows
from pellucid.data.streams import Piped
from pellucid.data.table_rows import Row
from pellucid.errors import TextError
from pellucid.tokenizers import Tokenizer

#: The columns of a table, by the objective that reads them.
Columns = ConversationColumns | PairColumns | LabelColumns | PreferenceColumns | PromptColumns


def assemble_rows(rows: Rows, piped: Piped) -> Iterator[Row]:
    """The rows of all files that a config names, in order."""
    choices = [getattr(rows, part, None) for part in USUAL]
    return read_rows(rows.paths, numbered=are_numbered(choices), piped=piped)


def assemble_columns(rows: Rows, first: Row) -> Columns:
    """The column of each part: the one that you chose, or else the one with a usual name.

    Raises:
        TextError: no column has a usual name for a part, or more than one.
        ConfigError: a choice that cannot be read.
    """
    match rows:
        case config.Conversations(prompt=prompt, answer=answer, messages=messages):
            if messages is None and prompt is None and answer is None and _is_chat(first):
                return ConversationColumns(
                    messages=usual_column("messages", first), prompt=None, answer=None
                )
            if messages is not None:
                return ConversationColumns(
                    messages=parse_column(messages), prompt=None, answer=None
                )
            return ConversationColumns(
                messages=None,
                prompt=_column("prompt", prompt, first),
                answer=_column("answer", answer, first),
            )
        case config.Pairs(source=source, target=target):
            languages = find_languages(first)
            usual = (
                find_usual("source", first) is not None or find_usual("target", first) is not None
            )
            if source is None and target is None and languages is not None and not usual:
                return PairColumns(*languages)
            return PairColumns(_column("source", source, first), _column("target", target, first))
        case config.Labelled(text=text, label=label, separator=separator):
            return LabelColumns(
                _column("text", text, first), _column("label", label, first), separator
            )
        case config.Preferences(prompt=prompt):
            better = _column("chosen", rows.chosen, first)
            worse = _column("rejected", rows.rejected, first)
            in_answers = prompt is None and isinstance(better.value(first), list)
            usual = find_usual("prompt", first) if in_answers else _column("prompt", prompt, first)
            return PreferenceColumns(prompt=usual, chosen=better, rejected=worse)
        case config.Prompts(prompt=prompt):
            if prompt is None and find_usual("prompt", first) is None:
                messages = find_usual("messages", first)
                if messages is not None:
                    return PromptColumns(messages)
            return PromptColumns(_column("prompt", prompt, first))
        case _:
            assert_never(rows)


def assemble_template(rows: Rows, folder: Path | None) -> Template | None:
    """The chat template of rows that need one: your file, or the one in the tokenizer's folder.

    Raises:
        TextError: it cannot be read.
    """
    match rows:
        case config.Conversations() | config.Preferences() | config.Prompts():
            return template_for(rows.template, folder)
        case config.Pairs() | config.Labelled():
            return None
        case _:
            assert_never(rows)


def assemble_form(
    columns: Columns,
    rows: Iterable[Row],
    tokenizer: Tokenizer,
    *,
    context_length: int,
    template: Template | None,
    classes: Sequence[str] | None,
) -> Form:
    """The form that turns rows into examples.

    Args:
        columns: the columns of the rows.
        rows: all rows; the classes of labels come from them.
        tokenizer: the tokenizer.
        context_length: the most tokens of an example.
        template: the chat template, for chats.
        classes: the names of the classes; None takes them from the rows.

    Raises:
        TextError: labels that name fewer than two classes.
    """
    chat = None if template is None else ChatTemplate(template, tokenizer)
    match columns:
        case PairColumns():
            return Pairs(columns, tokenizer, context_length=context_length)
        case LabelColumns():
            known_classes = classes_of(columns, rows, classes)
            return Labelled(columns, known_classes, tokenizer, context_length=context_length)
        case _ if chat is None:
            raise TextError("chats need a template: pass the one that assemble_template returns")
        case ConversationColumns():
            return Conversations(columns, chat, context_length=context_length)
        case PreferenceColumns():
            return Preferences(columns, chat, context_length=context_length)
        case PromptColumns():
            return Prompts(columns, chat, context_length=context_length)
        case _:
            assert_never(columns)


def _column(part: str, choice: str | None, first: Row) -> Column:
    return usual_column(part, first) if choice is None else parse_column(choice)


def _is_chat(first: Row) -> bool:
    """Whether a row has a column of messages, but not a prompt with an answer."""
    if find_usual("messages", first) is None:
        return False
    if find_usual("prompt", first) is None or find_usual("answer", first) is None:
        return True
    raise TextError(
        f"{first.location}: it has messages and also a prompt with an answer. Choose with "
        f"--columns messages={USUAL['messages'][0]}, or with prompt=NAME,answer=NAME"
    )
