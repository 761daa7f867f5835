"""`pellucid equations`: list every equation by topic, or show one, or any term of the subject."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result

if TYPE_CHECKING:
    from pellucid.textbook import Computed, Concept, Entry, Misnomer

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
#: The width of the labels of links.
_LABEL = 13


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "equations",
        help="look up an equation or any term of the subject",
        description="List every equation by topic, or show one: its formula, gradient, shapes, "
        "failures, source, and examples that pellucid computes now. A term or an everyday question "
        "shows its page, with all that belongs to it.",
    )
    parser.add_argument(
        "name", metavar="TERM", nargs="*", help="an equation, a topic, a term, or a question"
    )
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Print the list, a topic, an entry, a concept, or the right names for a wrong one."""
    from pellucid import textbook

    if not arguments.name:
        _print_topics(arguments, textbook.topics())
        return
    words = " ".join(arguments.name)
    match = textbook.look_up(words)
    # "says" and "meant" are keys of 0.1
    if isinstance(match, tuple):
        _print_topics(arguments, {words: match})
    elif isinstance(match, textbook.Misnomer):
        old = {"says": match.explanation, "meant": match.suggestions}
        print_result(arguments, asdict(match) | old | {"exists": False}, _correct(match))
    elif isinstance(match, textbook.Concept):
        facts = {"name": match.id, "summary": match.text, "concept": textbook.record(match)}
        print_result(arguments, facts, _format_concept(match))
    else:
        examples = match.examples()
        computed = [
            {"expression": example.expression, "value": example.plain} for example in examples
        ]
        facts = asdict(match) | {"says": match.summary, "examples": computed}
        facts["concept"] = textbook.record(match.concept) if match.concept else None
        del facts["expressions"]
        print_result(arguments, facts, _format_entry(match, examples))


def _print_topics(arguments: argparse.Namespace, topics: dict[str, tuple[str, ...]]) -> None:
    from pellucid import textbook

    summaries = {
        topic: {name: textbook.entry(name).summary for name in names}
        for topic, names in topics.items()
    }
    lines: list[str] = []
    for topic, by_name in summaries.items():
        lines.append(topic)
        for name, summary in by_name.items():
            short = textwrap.shorten(summary, _width() - 36, placeholder=" …")
            lines.append(f"  {name:<34}{short}")
        lines.append("")
    print_result(arguments, summaries, [*lines, "pellucid equations NAME"])


def _format_entry(entry: Entry, examples: Sequence[Computed]) -> Iterator[str]:
    yield f"{_rewrap(entry.signature, _width())}\n\n{textwrap.fill(entry.summary, _width())}"
    if entry.concept:
        yield "\n" + _with_margin("", textwrap.fill(entry.concept.text, _width() - _MARGIN))
    for part, word in _PARTS:
        text = getattr(entry, part)
        if text:
            yield "\n" + _with_margin(word, _rewrap(text, _width() - _MARGIN))
    for number, example in enumerate(examples):
        computation = f">>> {example.expression}\n{example.shown_text}"
        yield "\n" + _with_margin("" if number else "computed", computation)
    if entry.concept:
        yield f"\n{entry.concept.title}\n"
        yield from _format_links(entry.concept)


def _format_concept(concept: Concept) -> Iterator[str]:
    from pellucid import textbook

    yield f"{concept.title}\n\n{textwrap.fill(concept.text, _width())}\n"
    for name in concept.related:
        formula = textbook.entry(name).formula
        yield _with_margin(
            "formula", _rewrap(f"{name}: {' '.join(formula.split())}", _width() - _MARGIN)
        )
    yield ""
    yield from _format_links(concept)


def _format_links(concept: Concept) -> Iterator[str]:
    """One line, or a few, for each kind of link."""
    from pellucid import textbook

    for label, items in textbook.links(concept).items():
        joined = textwrap.fill("; ".join(items), _width() - _LABEL, break_on_hyphens=False)
        yield label.ljust(_LABEL) + textwrap.indent(joined, " " * _LABEL).strip()


def _width() -> int:
    return min(shutil.get_terminal_size().columns, 100)


def _rewrap(text: str, width: int) -> str:
    """Wrap paragraphs to the width; formulas keep their lines."""
    from pellucid.textbook.pages import unwrapped

    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=" " * (len(line) - len(line.lstrip())))
        for line in unwrapped(text)
    )


def _with_margin(word: str, text: str) -> str:
    """The text with a label in its left margin."""
    lines = textwrap.indent(text, " " * _MARGIN, lambda _: True).splitlines()
    lines[0] = word.ljust(_MARGIN) + lines[0][_MARGIN:]
    return "\n".join(line.rstrip() for line in lines)


def _correct(misnomer: Misnomer) -> Iterator[str]:
    yield f"{misnomer.name}\n"
    yield textwrap.fill(misnomer.explanation, _width()) + "\n"
    for name in misnomer.suggestions:
        yield f"pellucid equations {name}"
