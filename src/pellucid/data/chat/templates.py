"""Chats by a template: messages become one text, and that becomes ids with a mask of the answers.

Which part of the text is an answer is what the template marks with `{% generation %}`; where it
marks nothing, the chat is rendered up to each answer and with it, and the answer is what is new.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from pellucid.data.chat.chat_tokens import Spelled, Spelling
from pellucid.data.chat.sandbox import Rendered, Sandbox, Spans
from pellucid.errors import TextError
from pellucid.reader import read_json_table, read_text
from pellucid.tokenizers import Tokenizer

#: One row may take so long, the process so much memory: far more than any template needs.
SECONDS = 5
MEGABYTES = 512
ASSISTANT = "assistant"

#: What is used where neither the user nor the tokenizer has a template.
PLAIN = """\
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{ '### Response:\\n' -}}
{%- generation -%}{{ message['content'] + eos_token }}{%- endgeneration -%}
{{ '' if loop.last else '\\n\\n' -}}
{%- elif message['role'] == 'user' -%}
{{ '### Instruction:\\n' + message['content'] + '\\n\\n' -}}
{%- elif message['role'] == 'system' -%}
{{ message['content'] + '\\n\\n' -}}
{%- else -%}
{{ raise_exception("the plain template knows system, user and assistant, not " + message['role']) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '### Response:\\n' -}}
{%- endif -%}
"""

Message = Mapping[str, Any]


class Template(NamedTuple):
    """The source of a template, and where it came from."""

    source: str
    origin: str


def template_for(file: str | None, folder: Path | None) -> Template:
    """The template in `file`; or the one beside a tokenizer, in `folder`; or pellucid's plain one.

    Beside a tokenizer it is `chat_template.jinja`, or `chat_template` in `tokenizer_config.json`.

    Raises:
        TextError: a file that cannot be read, or several templates and none called "default".
    """
    if file is not None:
        return Template(_read(Path(file)), file)
    if folder is not None:
        beside, settings = folder / "chat_template.jinja", folder / "tokenizer_config.json"
        if beside.is_file():
            return Template(_read(beside), str(beside))
        source = _in_settings(settings) if settings.is_file() else None
        if source is not None:
            return Template(source, str(settings))
    return Template(PLAIN, "pellucid's plain template")


class ChatTemplate:
    """A template with the tokenizer whose tokens it writes."""

    def __init__(self, template: Template, tokenizer: Tokenizer) -> None:
        self.template = template
        self._spelling = Spelling(tokenizer)
        self._sandbox = Sandbox(
            template.source,
            called=f"the chat template ({template.origin})",
            seconds=SECONDS,
            megabytes=MEGABYTES,
        )
        self._tokens = {
            **tokenizer.roles(),
            "bos_token": tokenizer.token(tokenizer.begin_id),
            "eos_token": tokenizer.token(tokenizer.end_id),
        }

    def conversation(self, where: str, messages: Sequence[Message]) -> Spelled:
        """The ids of a whole chat; what the assistant says is supervised.

        Raises:
            TextError: the template fails on it, or it cannot be told what of it are answers.
        """
        return self._spelled(where, messages, goes_on=False)

    def prompt(self, where: str, messages: Sequence[Message]) -> list[int]:
        """The ids from which the assistant's next answer goes on."""
        return self._spelled(where, messages, goes_on=True).ids

    def close(self) -> None:
        """End the process that renders."""
        self._sandbox.close()

    def _spelled(self, where: str, messages: Sequence[Message], *, goes_on: bool) -> Spelled:
        contexts = [self._context(messages, goes_on=goes_on)]
        turns = [i for i, message in enumerate(messages) if message["role"] == ASSISTANT]
        by_tags = self._sandbox.has_tags
        if not by_tags:
            for turn in turns:
                contexts.append(self._context(messages[:turn], goes_on=True))
                contexts.append(self._context(messages[: turn + 1], goes_on=False))
        whole, *parts = self._sandbox.render(where, contexts, self._spelling.special)
        answers = whole.generated if by_tags else self._by_prefixes(where, whole.text, parts)
        if whole.contents is None or answers is None:
            raise TextError(
                f"{where}: the chat template ({self.template.origin}) changes what the messages "
                "say, so its own special tokens cannot be found in the text: use another template"
            )
        self._refuse_lost(where, whole.text, answers, [messages[turn] for turn in turns])
        if goes_on and answers and answers[-1][1] == len(whole.text):
            raise TextError(
                f"{where}: the chat template ({self.template.origin}) adds nothing where an answer "
                "is to begin: it has to where add_generation_prompt is true"
            )
        return self._spelling.spelled(whole.text, whole.contents, answers)

    def _words(self, text: str) -> str:
        """A text without case, and without names of special tokens, which templates write too."""
        folded = text.casefold()
        for name in self._spelling.special:
            folded = folded.replace(name.casefold(), " ")
        return folded

    def _refuse_lost(
        self, where: str, text: str, answers: Spans, messages: Sequence[Message]
    ) -> None:
        """Templates for pictures pass over a content that is a plain text, and say nothing."""
        written = self._words("".join(text[start:end] for start, end in answers))
        words = re.findall(
            r"\w+", self._words(" ".join(message["content"] for message in messages))
        )
        if answers and words and not any(word in written for word in words):
            raise TextError(
                f"{where}: the chat template ({self.template.origin}) leaves out what the "
                "assistant says: it may want another kind of content than a text. Use another"
            )

    def _context(self, messages: Sequence[Message], *, goes_on: bool) -> dict[str, Any]:
        return {
            "messages": list(messages),
            "add_generation_prompt": goes_on,
            "tools": None,
            "documents": None,
            **self._tokens,
        }

    def _by_prefixes(self, where: str, text: str, parts: list[Rendered]) -> Spans:
        spans: Spans = []
        for prefix, behind in zip(parts[::2], parts[1::2], strict=True):
            if not (behind.text.startswith(prefix.text) and text.startswith(behind.text)):
                raise TextError(
                    f"{where}: the chat template ({self.template.origin}) does not say which part "
                    "is an answer: it has no {% generation %} tags, and a chat with an answer does "
                    "not begin with the chat before it. Put {% generation %} and "
                    "{% endgeneration %} around what the assistant writes, or use another template"
                )
            spans.append((len(prefix.text), len(behind.text)))
        return spans


def _read(file: Path) -> str:
    return read_text(file, refusal=TextError)


def _in_settings(file: Path) -> str | None:
    templates = read_json_table(file, refusal=TextError).get("chat_template")
    if isinstance(templates, list):  # several, by name
        named = {
            entry["name"]: entry["template"] for entry in cast("list[dict[str, str]]", templates)
        }
        if "default" not in named:
            raise TextError(
                f"{file} has chat templates called {', '.join(named)}, and none called default: "
                "write the one you mean to a file and choose it as template"
            )
        return named["default"]
    return templates if isinstance(templates, str) else None
