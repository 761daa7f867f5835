"""Chat templates: messages become one text, and the text becomes ids with a mask of the answers.

The template marks the answers in the text with `{% generation %}`. If it has no such tags, pellucid
renders the chat up to each answer and again with it; the answer is the difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from pellucid.data.chat.chat_tokens import ChatEncoder, ChatTokens
from pellucid.data.chat.sandbox import Rendered, Sandbox, Spans
from pellucid.errors import TextError
from pellucid.reader import read_json_table, read_text
from pellucid.tokenizers import Tokenizer

#: The limits for one row and for the process: far more than any template needs.
SECONDS = 5
MEGABYTES = 512
ASSISTANT = "assistant"

#: Where the plain template comes from.
PLAIN_ORIGIN = "pellucid's plain template"
#: The template if neither you nor the tokenizer has one.
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
    """The source of a template, and where it came from.

    Attributes:
        source: the template, in Jinja.
        origin: the file that it came from.
    """

    source: str
    origin: str


def template_for(file: str | None, folder: Path | None) -> Template:
    """The template in `file`, or the one in the tokenizer's `folder`, or pellucid's plain one.

    In a folder it is `chat_template.jinja`, or `chat_template` in `tokenizer_config.json`.

    Raises:
        TextError: a file cannot be read, or has several templates and none is called "default".
    """
    if file is not None:
        return Template(_read(Path(file)), file)
    if folder is not None:
        template_file, settings = folder / "chat_template.jinja", folder / "tokenizer_config.json"
        if template_file.is_file():
            return Template(_read(template_file), str(template_file))
        source = _in_settings(settings) if settings.is_file() else None
        if source is not None:
            return Template(source, str(settings))
    return Template(PLAIN, PLAIN_ORIGIN)


class ChatTemplate:
    """A template with its tokenizer."""

    def __init__(self, template: Template, tokenizer: Tokenizer) -> None:
        self.template = template
        self._encoder = ChatEncoder(tokenizer)
        self._sandbox = Sandbox(
            template.source,
            name=f"the chat template ({template.origin})",
            seconds=SECONDS,
            megabytes=MEGABYTES,
        )
        self._tokens = {
            **tokenizer.roles(),
            "bos_token": tokenizer.token(tokenizer.begin_id),
            "eos_token": tokenizer.token(tokenizer.end_id),
        }

    def conversation(self, location: str, messages: Sequence[Message]) -> ChatTokens:
        """The ids of a complete chat; the assistant's texts are supervised.

        Raises:
            TextError: the template fails, or pellucid cannot locate the answers in its text.
        """
        return self._encode(location, messages, add_prompt=False)

    def prompt(self, location: str, messages: Sequence[Message]) -> list[int]:
        """The ids before the assistant's next answer."""
        return self._encode(location, messages, add_prompt=True).ids

    def text(self, location: str, messages: Sequence[Message], *, add_prompt: bool) -> str:
        """A chat as the template writes it, before begin and end are added.

        Args:
            location: the name of the chat in messages.
            messages: the chat.
            add_prompt: whether an answer of the assistant comes next.

        Raises:
            TextError: the template fails.
        """
        context = self._context(messages, add_prompt=add_prompt)
        return self._sandbox.render(location, [context], self._encoder.special)[0].text

    def close(self) -> None:
        """End the process that renders."""
        self._sandbox.close()

    def _encode(
        self, location: str, messages: Sequence[Message], *, add_prompt: bool
    ) -> ChatTokens:
        contexts = [self._context(messages, add_prompt=add_prompt)]
        turns = [i for i, message in enumerate(messages) if message["role"] == ASSISTANT]
        by_tags = self._sandbox.has_tags
        if not by_tags:
            for turn in turns:
                contexts.append(self._context(messages[:turn], add_prompt=True))
                contexts.append(self._context(messages[: turn + 1], add_prompt=False))
        rendered, *parts = self._sandbox.render(location, contexts, self._encoder.special)
        answers = (
            rendered.generated if by_tags else self._by_prefixes(location, rendered.text, parts)
        )
        if rendered.contents is None or answers is None:
            raise TextError(
                f"{location}: the chat template ({self.template.origin}) changes the texts of the "
                "messages, so pellucid cannot find the template's special tokens: use another "
                "template"
            )
        self._refuse_lost(location, rendered.text, answers, [messages[turn] for turn in turns])
        if add_prompt and answers and answers[-1][1] == len(rendered.text):
            raise TextError(
                f"{location}: the chat template ({self.template.origin}) adds nothing before the "
                "answer of the model: with add_generation_prompt it has to; use another template"
            )
        return self._encoder.encode(rendered.text, rendered.contents, answers)

    def _words(self, text: str) -> str:
        """A text in lower case, without the names of special tokens, which templates also write."""
        folded = text.casefold()
        for name in self._encoder.special:
            folded = folded.replace(name.casefold(), " ")
        return folded

    def _refuse_lost(
        self, location: str, text: str, answers: Spans, messages: Sequence[Message]
    ) -> None:
        """Refuse a template that skips the answers, as those for images skip plain texts."""
        answer_text = self._words("".join(text[start:end] for start, end in answers))
        words = re.findall(
            r"\w+", self._words(" ".join(message["content"] for message in messages))
        )
        if answers and words and not any(word in answer_text for word in words):
            raise TextError(
                f"{location}: the chat template ({self.template.origin}) skips the texts of the "
                "assistant; perhaps it expects other content than text: use another template"
            )

    def _context(self, messages: Sequence[Message], *, add_prompt: bool) -> dict[str, Any]:
        return {
            "messages": list(messages),
            "add_generation_prompt": add_prompt,
            "tools": None,
            "documents": None,
            **self._tokens,
        }

    def _by_prefixes(self, location: str, text: str, parts: list[Rendered]) -> Spans:
        spans: Spans = []
        for prefix, with_answer in zip(parts[::2], parts[1::2], strict=True):
            if not (with_answer.text.startswith(prefix.text) and text.startswith(with_answer.text)):
                raise TextError(
                    f"{location}: the chat template ({self.template.origin}) does not show which "
                    "part is an answer: it has no {% generation %} tags, and a chat with an answer "
                    "does not begin with the chat before it. Put {% generation %} and "
                    "{% endgeneration %} around the answers, or use another template"
                )
            spans.append((len(prefix.text), len(with_answer.text)))
        return spans


def _read(file: Path) -> str:
    return read_text(file, refusal=TextError)


def _in_settings(file: Path) -> str | None:
    templates = read_json_table(file, refusal=TextError).get("chat_template")
    if isinstance(templates, list):  # several, by name
        source_by_name = {
            entry["name"]: entry["template"] for entry in cast("list[dict[str, str]]", templates)
        }
        if "default" not in source_by_name:
            raise TextError(
                f"{file} has chat templates called {', '.join(source_by_name)}, and none called "
                "default: write the one you mean to a file and choose it as template"
            )
        return source_by_name["default"]
    return templates if isinstance(templates, str) else None
