"""Chats as rows hold them, checked and brought into one form.

Messages with `from` and `value`, by human and gpt, are read as well.
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
#: What a role or a key is called; nothing else may slip from a row into a template's own text.
_NAME = re.compile(r"[A-Za-z][\w-]*\Z", re.ASCII)


def messages_of(row: Row, column: str, value: object) -> Messages:
    """The messages in a value; null is none.

    Raises:
        TextError: it is no list of messages, or one of them has no role or no text.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise TextError(
            f"{row.where}: the column {column!r} holds no messages but {short(value)}: expected a "
            'list such as [{"role": "user", "content": "..."}]'
        )
    messages = cast("list[object]", value)
    return [_message(f"{row.where}, message {i}", message) for i, message in enumerate(messages, 1)]


def as_messages(row: Row, column: str, value: object, role: str) -> Messages:
    """A text as one message by `role`, or messages as they are; nothing where there is no text."""
    if isinstance(value, list):
        return messages_of(row, column, cast("list[object]", value))
    text = text_of(row.where, column, value, flag=FLAG)
    return [{"role": role, "content": text}] if text.strip() else []


def first_said(messages: Sequence[dict[str, Any]]) -> str:
    """What is said before the first answer: chats that begin alike are of one group."""
    contents: list[str] = []
    for message in messages:
        if message["role"] == ASSISTANT:
            break
        contents.append(str(message["content"]).strip())
    return "\n\n".join(contents)


def answers_of(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What the assistant says, turn by turn."""
    return [str(message["content"]) for message in messages if message["role"] == ASSISTANT]


def _message(where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TextError(f"{where}: expected an object with role and content, was {short(value)}")
    message = dict(cast("dict[str, Any]", value))
    if "role" not in message and "from" in message:
        message = {"role": message.pop("from"), "content": message.pop("value", None), **message}
        message["role"] = _ROLES.get(str(message["role"]), message["role"])
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not _NAME.match(role):
        raise TextError(
            f"{where}: its role is {short(role)}: expected a name such as system, user or assistant"
        )
    if not isinstance(content, str):
        raise TextError(f"{where}: its content is not a text but {short(content)}: mend it")
    for key in _keys(message):
        if not _NAME.match(key):
            raise TextError(f"{where}: the key {short(key)} is no name: rename or remove it")
    message["content"] = text_of(where, "content", content, flag=FLAG)
    return message


def _keys(value: object) -> list[str]:
    """All keys at any depth, and what else is compared rather than written."""
    if isinstance(value, list):
        return [key for member in cast("list[object]", value) for key in _keys(member)]
    if not isinstance(value, dict):
        return []
    named = cast("dict[str, object]", value)
    compared = [
        member for key, member in named.items() if key == "type" and isinstance(member, str)
    ]
    return [*named, *compared, *(key for member in named.values() for key in _keys(member))]
