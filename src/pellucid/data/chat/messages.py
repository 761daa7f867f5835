"""Chats in rows, checked and converted to one format.

It also reads messages with `from` and `value`, from human and gpt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from pellucid.data.columns import FLAG, text_of
from pellucid.data.table_rows import Row, short
from pellucid.errors import TextError

Messages = list[dict[str, Any]]

ASSISTANT = "assistant"
_ROLES = {"human": "user", "gpt": ASSISTANT, "bot": ASSISTANT}
#: The format of roles and keys, so that a row cannot write the template's own text.
_NAME = re.compile(r"[A-Za-z][\w-]*\Z", re.ASCII)


def messages_of(row: Row, column: str, value: object) -> Messages:
    """The messages in a value; null has none.

    Raises:
        TextError: the value is no list of messages, or a message has no role or no text.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise TextError(
            f"{row.location}: the column {column!r} holds no messages but {short(value)}: expected "
            'a list such as [{"role": "user", "content": "..."}]'
        )
    messages = cast("list[object]", value)
    return [
        _message(f"{row.location}, message {i}", message) for i, message in enumerate(messages, 1)
    ]


def as_messages(row: Row, column: str, value: object, role: str) -> Messages:
    """A text as one message by `role`, or messages as they are; a blank text gives none.

    Args:
        row: the row, for messages.
        column: the name of the column, for messages.
        value: a text or a list of messages.
        role: the role of a text.
    """
    if isinstance(value, list):
        return messages_of(row, column, cast("list[object]", value))
    text = text_of(row.location, column, value, flag=FLAG)
    return [{"role": role, "content": text}] if text.strip() else []


def first_said(messages: Sequence[dict[str, Any]]) -> str:
    """The messages before the first answer: chats with the same ones form a group."""
    contents: list[str] = []
    for message in messages:
        if message["role"] == ASSISTANT:
            break
        contents.append(str(message["content"]).strip())
    return "\n\n".join(contents)


def answers_of(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The texts of the assistant, turn by turn."""
    return [str(message["content"]) for message in messages if message["role"] == ASSISTANT]


def _message(location: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TextError(f"{location}: expected an object with role and content, was {short(value)}")
    message = dict(cast("dict[str, Any]", value))
    if "role" not in message and "from" in message:
        message = {"role": message.pop("from"), "content": message.pop("value", None), **message}
        message["role"] = _ROLES.get(str(message["role"]), message["role"])
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not _NAME.match(role):
        raise TextError(
            f"{location}: its role is {short(role)}: expected a name such as system, user or "
            "assistant"
        )
    if not isinstance(content, str):
        raise TextError(f"{location}: its content is not a text but {short(content)}: correct it")
    for key in _keys(message):
        if not _NAME.match(key):
            raise TextError(f"{location}: the key {short(key)} is no name: rename or remove it")
    message["content"] = text_of(location, "content", content, flag=FLAG)
    return message


def _keys(value: object) -> list[str]:
    """All keys at any depth, and the values of "type", which templates compare."""
    if isinstance(value, list):
        return [key for member in cast("list[object]", value) for key in _keys(member)]
    if not isinstance(value, dict):
        return []
    table = cast("dict[str, object]", value)
    compared = [
        member for key, member in table.items() if key == "type" and isinstance(member, str)
    ]
    return [*table, *compared, *(key for member in table.values() for key in _keys(member))]
