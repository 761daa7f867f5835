"""How commands print: text for people, JSON for programs, one paragraph for errors."""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pellucid import printable
from pellucid.errors import Interrupted, PellucidError
from pellucid.json_text import json_text
from pellucid.printable import plural

if TYPE_CHECKING:
    from rich.console import Console

#: Columns of a text that is shown in one line.
TEXT_WIDTH = 60
#: Each lets rich take a pipe for a terminal.
_TERMINAL_VARIABLES = {"FORCE_COLOR", "TTY_COMPATIBLE"}
#: What a terminal with colours shows in another style than the rest; a later pattern wins.
_STYLES = (
    (r"^\d+ · .*", "bold"),
    (r'trace\[".*', "dim"),
    (r"^  note: ", "dim"),
    (r"[░▒▓█▁▂▃▄▅▆▇]+", "blue"),
    (r"✓", "green"),
    (r"≠.*", "bold red"),
)


def print_result(arguments: argparse.Namespace, facts: Any, lines: Iterable[str]) -> None:
    """Print the result of a command.

    Args:
        arguments: with `--json` programs get the facts.
        facts: the result for programs.
        lines: the result for people; they are read only if they are printed.
    """
    if arguments.json:
        print_json(facts)
    else:
        print_lines(lines)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, with colours on a terminal that has them and no NO_COLOR."""
    console = _console_with_colours()
    for line in lines:
        if console is None or "\t" in line:  # rich makes spaces of a tab
            print(line)
            continue
        from rich.text import Text

        text = Text(line)
        for pattern, style in _STYLES:
            text.highlight_regex(pattern, style)
        console.print(text, soft_wrap=True, highlight=False)


def _console_with_colours() -> Console | None:
    """A console of rich if it has colours; a command in a pipe does not load rich for that."""
    if not sys.stdout.isatty() and not _TERMINAL_VARIABLES & os.environ.keys():
        return None
    from rich.console import Console

    console = Console()
    return None if console.color_system is None or console.no_color else console


def can_ask() -> bool:
    """Whether somebody at a terminal can read a question and answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def replace_unknown_letters() -> None:
    """Print ASCII for a sign that the stream cannot encode, and `?` for any other letter."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=printable.ERRORS)


def print_json(result: Any) -> None:
    """Print one JSON document on standard output."""
    has_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json_text(result, indent=2, ensure_ascii=not has_utf8))


def print_error(error: PellucidError, *, as_json: bool = False) -> None:
    """Print one paragraph on standard error; with `as_json` also JSON on standard output."""
    if as_json:
        print_json({"error": type(error).__name__, "message": str(error)})
    head = "stopped: " if isinstance(error, Interrupted) else "error: "
    text = str(error) if str(error).startswith("stopped") else f"{head}{error}"
    width = min(96, shutil.get_terminal_size().columns) if sys.stderr.isatty() else 96
    text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr)


def align_values(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of labels and values; the values begin in one column."""
    rows = list(rows)
    width = max(len(label) for label, _ in rows)
    return [f"{label:<{width}}  {value}" for label, value in rows]


def shorten(text: str) -> str:
    """As much of a text as fits in one line."""
    from pellucid.display import visible

    return cut(visible(text), TEXT_WIDTH)


def cut(text: str, width: int) -> str:
    """A text of at most `width` characters; an ellipsis replaces the rest."""
    return text if len(text) <= width else text[: width - 1] + "…"


def escape_controls(text: str) -> str:
    """Draw a model's control characters on a terminal, so that it does not obey them."""
    from pellucid.display import visible

    if not sys.stdout.isatty():
        return text
    return re.sub(r"[^\n\t]+", lambda match: visible(match[0]), text)


def count_findings(count: int) -> str:
    """The last line of `check` and `diagnose`."""
    findings = f"{count} {plural(count, 'finding')}"
    return f"\n{findings}; to leave one out: --ignore CODE; all codes: docs/diagnosis.md"
