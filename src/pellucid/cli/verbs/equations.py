"""`pellucid equations`: list every equation by topic, or show one."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import add_json
from pellucid.cli.output.printing import print_json

if TYPE_CHECKING:
    from pellucid.textbook import Entry, Misnomer

#: The fields of an entry in order, and their labels.
_PARTS = (
    ("formula", "formula"),
    ("notes", ""),
    ("shapes", "shapes"),
    ("units", "units"),
    ("gradient", "gradient"),
    ("fails", "fails"),
    ("raises", "refuses"),
    ("source", "source"),
    ("see_also", "see also"),
)
_MARGIN = 10
#: A docstring line of so many characters was wrapped by its author.
_WRAPPED_AT = 78


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "equations",
        help="look up the equations of transformers",
        description="List every equation by topic, or show one: its formula, gradient, shapes, "
        "failures, source, and examples that pellucid computes now.",
    )
    parser.add_argument("name", metavar="NAME", nargs="*", help="an equation or a topic")
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Print the list, a topic, an entry, or the right names for a wrong one."""
    from pellucid import textbook

    if not arguments.name:
        _list(textbook.topics(), as_json=arguments.json)
        return
    words = " ".join(arguments.name)
    match = textbook.look_up(words)
    if isinstance(match, tuple):
        _list({words: match}, as_json=arguments.json)
    elif isinstance(match, textbook.Misnomer):
        _correct(match, as_json=arguments.json)
    else:
        _show(match, as_json=arguments.json)


def _list(topics: dict[str, tuple[str, ...]], *, as_json: bool) -> None:
    from pellucid import textbook

    statements = {
        topic: {name: textbook.entry(name).summary for name in names}
        for topic, names in topics.items()
    }
    if as_json:
        print_json(statements)
        return
    for topic, sentences in statements.items():
        print(topic)
        for name, statement in sentences.items():
            print(f"  {name:<34}{textwrap.shorten(statement, _width() - 36, placeholder=' …')}")
        print()
    print("pellucid equations NAME")


def _show(entry: Entry, *, as_json: bool) -> None:
    examples = entry.examples()
    if as_json:
        facts = asdict(entry)
        del facts["expressions"]
        computed = [
            {"expression": example.expression, "value": example.plain} for example in examples
        ]
        # "says" and "meant" are keys of 0.1
        print_json(facts | {"says": entry.summary, "examples": computed})
        return
    print(f"{_rewrap(entry.signature, _width())}\n\n{textwrap.fill(entry.summary, _width())}")
    for part, word in _PARTS:
        text = getattr(entry, part)
        if text:
            print()
            print(_with_margin(word, _rewrap(text, _width() - _MARGIN)))
    for number, example in enumerate(examples):
        print()
        print(
            _with_margin(
                "" if number else "computed", f">>> {example.expression}\n{example.shown_text}"
            )
        )


def _width() -> int:
    return min(shutil.get_terminal_size().columns, 100)


def _rewrap(text: str, width: int) -> str:
    """Wrap paragraphs to the width; formulas keep their lines."""
    lines: list[str] = []
    is_wrapped = False
    for line in text.splitlines():
        if is_wrapped and line.strip():
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
        # a line that reaches the margin of the source continues
        is_wrapped = len(line) >= _WRAPPED_AT
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=" " * (len(line) - len(line.lstrip())))
        for line in lines
    )


def _with_margin(word: str, text: str) -> str:
    """The text with a label in its left margin."""
    lines = textwrap.indent(text, " " * _MARGIN, lambda _: True).splitlines()
    lines[0] = word.ljust(_MARGIN) + lines[0][_MARGIN:]
    return "\n".join(line.rstrip() for line in lines)


def _correct(misnomer: Misnomer, *, as_json: bool) -> None:
    if as_json:
        old = {"says": misnomer.explanation, "meant": misnomer.suggestions}
        print_json(asdict(misnomer) | old | {"exists": False})
        return
    print(f"{misnomer.name}\n")
    print(textwrap.fill(misnomer.explanation, _width()))
    print()
    for name in misnomer.suggestions:
        print(f"pellucid equations {name}")
