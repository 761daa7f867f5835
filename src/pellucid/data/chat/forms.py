"""Forms with chats: conversations, preferences and prompts.

A prompt in its own column is a message of the user, an answer a message of the assistant. The
template renders both as a chat of two messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pellucid.data.chat.messages import (
    ASSISTANT,
    Messages,
    answers_of,
    as_messages,
    first_said,
    messages_of,
)
from pellucid.data.chat.templates import ChatTemplate
from pellucid.data.columns import Column
from pellucid.data.example import Example, Refusal
from pellucid.data.table_rows import Row
from pellucid.json_text import json_text
from pellucid.reader import parse_json

NO_PROMPT = Refusal("it has no prompt")
NO_ANSWER = Refusal("it has no answer")
NO_ROOM = Refusal(
    "its prompt fills the window, and leaves no room for the answer: it needs a longer context"
)
UNMARKED = Refusal("the template marks no answer in it")
SAME_ANSWERS = Refusal("chosen and rejected are the same")
SAME_WHEN_CUT = Refusal("chosen and rejected are the same as far as they fit into the window")


class _Describable(Protocol):
    """Columns that can describe themselves."""

    @property
    def choices(self) -> list[str]: ...


C = TypeVar("C", bound=_Describable)


class _Answered(Generic[C]):
    """The common part of all forms: columns, a template, the longest example."""

    def __init__(self, columns: C, template: ChatTemplate, *, context_length: int) -> None:
        self._columns, self._template, self._longest = columns, template, context_length

    @property
    def choices(self) -> list[str]:
        """The columns and the template, as lines for people."""
        return [*self._columns.choices, f"template: {self._template.template.origin}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationColumns:
    """The column of messages, or the columns of a prompt and of its answer."""

    messages: Column | None
    prompt: Column | None
    answer: Column | None

    @property
    def choices(self) -> list[str]:
        """The columns and the template, as lines for people."""
        columns = {"messages": self.messages, "prompt": self.prompt, "answer": self.answer}
        return [
            f"{part}: {column.choice}" for part, column in columns.items() if column is not None
        ]

    def chat(self, row: Row) -> Messages | Refusal:
        """The messages of a row, at least one of them an answer."""
        if self.messages is not None:
            messages = messages_of(row, self.messages.choice, self.messages.value(row))
            return messages if any(text.strip() for text in answers_of(messages)) else NO_ANSWER
        assert self.prompt is not None
        assert self.answer is not None
        prompt = as_messages(row, self.prompt.choice, self.prompt.value(row), "user")
        answer = as_messages(row, self.answer.choice, self.answer.value(row), ASSISTANT)
        if not prompt:
            return NO_PROMPT
        return prompt + answer if answer else NO_ANSWER

    def texts(self, row: Row) -> list[str]:
        """The texts that a tokenizer may train on."""
        chat = self.chat(row)
        return [] if isinstance(chat, Refusal) else [message["content"] for message in chat]


class Conversations(_Answered[ConversationColumns]):
    """Columns "ids" and "supervised": 1 for tokens of the assistant, which the model predicts."""

    def encode(self, row: Row) -> Example | Refusal:
        """The row as one example, cut at the end of the window."""
        chat = self._columns.chat(row)
        if isinstance(chat, Refusal):
            return chat
        chat_tokens = self._template.conversation(row.location, chat)
        if not any(chat_tokens.supervised):
            return UNMARKED
        ids, supervised = chat_tokens.ids[: self._longest], chat_tokens.supervised[: self._longest]
        if not any(supervised):
            return NO_ROOM
        truncated = len(chat_tokens.ids) > self._longest
        return Example(
            ids={"ids": ids, "supervised": supervised},
            group=first_said(chat),
            row=row.number,
            truncated=truncated,
            ends=chat_tokens.ends and not truncated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceColumns:
    """The columns of two answers and of their prompt.

    Without a column for the prompt, the answers are chats with a common beginning.
    """

    prompt: Column | None
    chosen: Column
    rejected: Column

    @property
    def choices(self) -> list[str]:
        """The columns and the template, as lines for people."""
        prompt = "the messages in front of both" if self.prompt is None else self.prompt.choice
        return [
            f"prompt: {prompt}",
            f"chosen: {self.chosen.choice}",
            f"rejected: {self.rejected.choice}",
        ]

    def chats(self, row: Row) -> tuple[Messages, Messages, Messages] | Refusal:
        """The messages of the prompt, of the chosen answer and of the rejected answer."""
        chosen = as_messages(row, self.chosen.choice, self.chosen.value(row), ASSISTANT)
        rejected = as_messages(row, self.rejected.choice, self.rejected.value(row), ASSISTANT)
        if not chosen or not rejected:
            return NO_ANSWER
        if chosen == rejected:
            return SAME_ANSWERS
        shared: Messages = []
        while len(chosen) > 1 and len(rejected) > 1 and chosen[0] == rejected[0]:
            shared.append(chosen[0])
            chosen, rejected = chosen[1:], rejected[1:]
        if self.prompt is not None and not (shared and shared[0]["role"] != ASSISTANT):
            value = self.prompt.value(row)
            shared = as_messages(row, self.prompt.choice, value, "user") + shared
        if not shared:
            return NO_PROMPT
        if len(chosen) != 1 or len(rejected) != 1 or chosen[0]["role"] != rejected[0]["role"]:
            return Refusal("chosen and rejected differ in more than their last answer")
        if not str(chosen[0]["content"]).strip() or not str(rejected[0]["content"]).strip():
            return NO_ANSWER
        return shared, chosen, rejected

    def texts(self, row: Row) -> list[str]:
        """The texts that a tokenizer may train on."""
        answer_chats = self.chats(row)
        chats = (
            []
            if isinstance(answer_chats, Refusal)
            else [message for part in answer_chats for message in part]
        )
        return [message["content"] for message in chats]


class Preferences(_Answered[PreferenceColumns]):
    """Columns "prompt", "chosen" and "rejected"; both answers continue the ids of the prompt."""

    def encode(self, row: Row) -> Example | Refusal:
        """The row as a prompt with two answers, each cut at the end of the window."""
        chats = self._columns.chats(row)
        if isinstance(chats, Refusal):
            return chats
        prompt, *answers = chats
        halves = [self._halves(row, prompt + answer) for answer in answers]
        (start, chosen, ends), (rejected_start, rejected, both_end) = halves
        if not chosen or not rejected:
            return UNMARKED
        if start != rejected_start:
            return Refusal("the template writes another prompt before chosen than before rejected")
        room = self._longest - len(start)
        if room <= 0:
            return NO_ROOM
        if chosen[:room] == rejected[:room]:
            return SAME_WHEN_CUT if chosen != rejected else SAME_ANSWERS
        truncated = max(len(chosen), len(rejected)) > room
        return Example(
            ids={"prompt": start, "chosen": chosen[:room], "rejected": rejected[:room]},
            group=first_said(prompt),
            row=row.number,
            truncated=truncated,
            ends=ends and both_end and not truncated,
        )

    def _halves(self, row: Row, chat: Messages) -> tuple[list[int], list[int], bool]:
        """The ids before the last answer, its own ids, and whether it ends."""
        chat_tokens = self._template.conversation(row.location, chat)
        start, end = chat_tokens.last_answer, len(chat_tokens.ids)
        while end > start and not chat_tokens.supervised[end - 1]:
            end -= 1
        return chat_tokens.ids[:start], chat_tokens.ids[start:end], chat_tokens.ends


@dataclass(frozen=True, slots=True)
class PromptColumns:
    """The column of a prompt: a text, or messages."""

    prompt: Column

    @property
    def choices(self) -> list[str]:
        """The columns and the template, as lines for people."""
        return [f"prompt: {self.prompt.choice}"]

    def chat(self, row: Row) -> Messages:
        """The messages before the answer of the model; an empty list if there is no text."""
        messages = as_messages(row, self.prompt.choice, self.prompt.value(row), "user")
        while messages and messages[-1]["role"] == ASSISTANT:  # an answer in the data
            messages.pop()
        return messages

    def texts(self, row: Row) -> list[str]:
        """The texts that a tokenizer may train on."""
        return [message["content"] for message in self.chat(row)]


class Prompts(_Answered[PromptColumns]):
    """The column "prompt", and the whole row as JSON for the reward."""

    def encode(self, row: Row) -> Example | Refusal:
        """The row as a prompt; a prompt that leaves no room for an answer is skipped."""
        chat = self._columns.chat(row)
        if not chat:
            return NO_PROMPT
        ids = self._template.prompt(row.location, chat)
        if len(ids) >= self._longest:
            return NO_ROOM
        prompt_text = " ".join(message["content"] for message in chat).strip()
        return Example(
            ids={"prompt": ids},
            group=prompt_text,
            row=row.number,
            row_json=json_text(_plain(row.values)),
        )


def _plain(value: Any) -> Any:
    """The row as JSON; a date or another type of Parquet becomes text."""
    return parse_json(json_text(dict(value), default=str), "the row", lenient=True)
