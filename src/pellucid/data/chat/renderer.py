"""The process that renders chat templates; pellucid starts it by its path, and it imports jinja2.

A template is a program of another author. The process returns each text with two lists of spans
[start, end): the parts that the template marks with `{% generation %}`, and the texts of the
messages, if pellucid can locate them.
"""

from __future__ import annotations

import json
import math
import random
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

#: Characters for private use, which mark both ends of a span until its place is known.
_PRIVATE = range(0xF0000, 0xF4000)
#: Keys whose values a template compares but does not write; they are never marked.
_COMPARED = ("role", "type")
_LONGEST = 2**23

Spans = list[tuple[int, int]]
Marks = tuple[str, str, str, str]


def limit(megabytes: int) -> None:
    """Limit the memory of this process and forbid files, if the system supports it."""
    with suppress(ImportError):
        import resource

        for kind, maximum in (
            (resource.RLIMIT_AS, megabytes * 2**20),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(ValueError, OSError):
                resource.setrlimit(kind, (maximum, maximum))


def limit_seconds(seconds: float) -> None:
    """End this process after so much more computing time, if the system supports it."""
    with suppress(ImportError):
        import resource

        used = math.ceil(time.process_time() + seconds) + 1
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (used, resource.RLIM_INFINITY))


class Renderer:
    """One template, compiled."""

    def __init__(self, source: str) -> None:
        from jinja2 import nodes
        from jinja2.ext import Extension
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        outer = self
        self.marks: Marks = ("", "", "", "")
        self.has_tags = False
        self._source = source
        self._now = time.localtime()

        class Generation(Extension):
            tags = {"generation"}  # noqa: RUF012  as jinja2 expects

            def parse(self, parser: Any) -> Any:
                outer.has_tags = True
                line = next(parser.stream).lineno
                body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
                call = self.call_method("_mark_generation")
                return nodes.CallBlock(call, [], [], body).set_lineno(line)

            def _mark_generation(self, caller: Callable[[], str]) -> str:
                return outer.marks[2] + caller() + outer.marks[3]

        environment: Any = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[Generation, "jinja2.ext.loopcontrols"],
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = self._strftime
        self._template = environment.from_string(source)

    def render(self, context: dict[str, Any], special: list[str]) -> dict[str, Any]:
        """The text of a context, and the spans in it."""
        self._now = time.localtime()
        all_text = "".join(_strings(context)) + self._source
        free = (sign for sign in map(chr, _PRIVATE) if sign not in all_text)
        self.marks = (next(free), next(free), next(free), next(free))
        text, _, generated = self._render_spans(context)
        names = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))) or "$.")
        contents: Spans | None = None

        def mark_special(value: str) -> str:
            return names.sub(self._mark_match, value)

        for mark in (self._mark_text, mark_special):
            marked_context = {**context, "messages": _mark_texts(context["messages"], mark)}
            with suppress(Exception):
                marked_text, spans, the_same = self._render_spans(marked_context)
                if marked_text == text and the_same == generated and spans is not None:
                    contents = spans
                    break
        return {"text": text, "generated": generated, "contents": contents}

    def _render_spans(self, context: dict[str, Any]) -> tuple[str, Spans | None, Spans | None]:
        text: str = self._template.render(**context)
        if len(text) > _LONGEST:
            raise ValueError(f"it wrote more than {_LONGEST:,} characters")
        return _remove_marks(text, self.marks)

    def _strftime(self, form: str) -> str:
        return time.strftime(form, self._now)

    def _mark_text(self, value: str) -> str:
        """Mark a text inside its white space, because templates often strip that."""
        core = value.strip()
        start = value.find(core)
        leading, trailing = value[:start], value[start + len(core) :]
        return leading + self.marks[0] + core + self.marks[1] + trailing if core else value

    def _mark_match(self, match: re.Match[str]) -> str:
        return self.marks[0] + match[0] + self.marks[1]


def _remove_marks(text: str, marks: Marks) -> tuple[str, Spans | None, Spans | None]:
    """A text without marks, and the spans between them; None if marks do not match."""
    pieces: list[str] = []
    place, depth, start = 0, [0, 0], [0, 0]
    spans: list[Spans | None] = [[], []]
    for part in re.split("([" + "".join(marks) + "])", text):
        if part not in marks:
            pieces.append(part)
            place += len(part)
            continue
        kind, closes = divmod(marks.index(part), 2)
        depth[kind] += -1 if closes else 1
        kind_spans = spans[kind]
        if depth[kind] < 0:
            spans[kind], depth[kind] = None, 0
        elif not closes and depth[kind] == 1:
            start[kind] = place
        elif closes and depth[kind] == 0 and kind_spans is not None:
            kind_spans.append((start[kind], place))
    contents, generated = (None if depth[kind] else spans[kind] for kind in (0, 1))
    return "".join(pieces), contents, generated


def _mark_texts(value: Any, mark: Callable[[str], str], key: str = "") -> Any:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {name: _mark_texts(member, mark, name) for name, member in table.items()}
    if isinstance(value, list):
        return [_mark_texts(member, mark, key) for member in cast("list[Any]", value)]
    return mark(value) if isinstance(value, str) and key not in _COMPARED else value


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return [text for member in cast("list[Any]", value) for text in _strings(member)]
    return [value] if isinstance(value, str) else []


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: without the HTML escapes of jinja2's own filter."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        allow_nan=False,
    )


def _refuse(message: str) -> None:
    from jinja2.exceptions import TemplateError

    raise TemplateError(message)


def _failure(error: BaseException) -> dict[str, Any]:
    """The message of an error, and the line of the template."""
    line: int | None = getattr(error, "lineno", None)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    message = (
        "it needs more memory than the limit" if isinstance(error, MemoryError) else str(error)
    )
    return {"error": message or type(error).__name__, "line": line}


def main() -> None:
    """Answer each line of standard input."""
    first = json.loads(sys.stdin.buffer.readline())
    sys.path.append(first["library"])
    limit(first["megabytes"])
    limit_seconds(first["seconds"])
    renderer: Renderer | None = None
    try:
        renderer = Renderer(first["template"])
        answer: dict[str, Any] = {"has_tags": renderer.has_tags}
    except Exception as error:
        answer = _failure(error)
    _write_answer(answer)
    while renderer is not None and (line := sys.stdin.buffer.readline()):
        limit_seconds(first["seconds"])
        random.seed(line)  # a template with random choices gives the same text again
        request = json.loads(line)
        try:
            special = request["special"]
            answer = {
                "texts": [renderer.render(context, special) for context in request["contexts"]]
            }
        except Exception as error:
            answer = _failure(error)
        _write_answer(answer)


def _write_answer(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer, allow_nan=False).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
