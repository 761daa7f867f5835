"""Write the tables of docs/config.md from the config classes: keys, types, defaults and meanings.

    python docs/config_tables.py

A mark on the page names kinds, or a union of them. Until the next `<!-- end -->` the page holds
what the classes say, and the prose around it is written by hand:

    <!-- kinds: Norm -->           a row for each kind: its keys, and its docstring
    <!-- fields: Norm -->          a row for each key: its type, and its text under `Attributes`
    <!-- fields: Transformer -->   the same for one class, after its docstring

A test compares the page with what this writes.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Literal

import pellucid.config
from pellucid.config.checks import (
    AtLeast,
    Betas,
    Factors,
    Fraction,
    Interval,
    Paths,
    Positive,
    PositiveFraction,
)

PAGE = Path(__file__).parent / "config.md"
MARK = re.compile(r"<!-- (kinds|fields): ([\w, ]+) -->\n.*?<!-- end -->", re.S)
#: The words of types with limits that are functions.
LIMITED: dict[Any, str] = {
    Betas: "list of two shares",
    Factors: "list of numbers greater than 0",
    Fraction: "share",
    Paths: "list of texts, at least one",
    Positive: "greater than 0",
    PositiveFraction: "greater than 0, less than 1",
}
PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}
#: A bar within a cell of a table.
BAR = r"\|"
#: A union of more kinds is a link to their table.
MOST_NAMES = 3

Kind = type[Any]
#: The anchors on the page: of a section with one kind, and of a table of kinds.
Anchors = dict[Kind | frozenset[Kind], str]


def draw(page: str) -> str:
    """A page with what the classes say between its marks."""
    anchors = find_anchors(page)

    def block(mark: re.Match[str]) -> str:
        kinds = kinds_of(mark[2])
        lines = kinds_table(kinds, anchors) if mark[1] == "kinds" else fields_text(kinds, anchors)
        return "\n".join([f"<!-- {mark[1]}: {mark[2]} -->", "", *lines, "", "<!-- end -->"])

    return MARK.sub(block, page)


def kinds_of(names: str) -> list[Kind]:
    """The classes that a mark names, and the classes of its unions."""
    values = [getattr(pellucid.config, name) for name in names.split(", ")]
    return [kind for value in values for kind in typing.get_args(value) or (value,)]


def find_anchors(page: str) -> Anchors:
    """The heading above each mark. A kind with a section of its own is there."""
    anchors: Anchors = {}
    for mark in MARK.finditer(page):
        heading = re.findall(r"^#+ (.*)$", page[: mark.start()], re.M)[-1]
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        kinds = kinds_of(mark[2])
        anchors[frozenset(kinds)] = anchor
        if mark[1] == "fields" and len(kinds) == 1:
            anchors[kinds[0]] = anchor
        for kind in kinds:
            anchors.setdefault(kind, anchor)
    return anchors


def kinds_table(kinds: list[Kind], anchors: Anchors) -> list[str]:
    """A row for each kind; one with a section of its own has the rest of its docstring there."""
    table_anchor = anchors[frozenset(kinds)]
    lines = ["| kind | its keys | meaning |", "|---|---|---|"]
    for kind in kinds:
        paragraphs = description(kind)
        if anchors[kind] != table_anchor:
            lines.append(row(link(kind, anchors), "in its section", paragraphs[0]))
            continue
        keys = ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind)) or "none"
        meaning = " ".join(p for p in paragraphs if not p.startswith("Source: "))
        lines.append(row(f"`{kind.__name__}`", keys, meaning))
    return lines


def fields_text(kinds: list[Kind], anchors: Anchors) -> list[str]:
    """A row for each key of the kinds; keys with equal texts share one row.

    The docstring of a kind comes first if it is alone. Of several kinds, those with a section of
    their own are left out.
    """
    kinds = [kind for kind in kinds if anchors[kind] == anchors[frozenset(kinds)]]
    lines = [line for p in description(kinds[0]) for line in (p, "")] if len(kinds) == 1 else []
    lines += ["| key | type | meaning |", "|---|---|---|"]
    rows: dict[str, dict[tuple[str, str], list[str]]] = {}
    for kind in kinds:
        meanings = attributes(kind)
        hints = typing.get_type_hints(kind, include_extras=True)
        for field in dataclasses.fields(kind):
            words = type_words(hints[field.name], anchors) + default_words(field.default)
            cells = (words, meanings[field.name])
            rows.setdefault(field.name, {}).setdefault(cells, []).append(f"`{kind.__name__}`")
    keys: dict[tuple[str, str], list[str]] = {}
    for key, owners in rows.items():
        for cells, names in owners.items():
            owner = f" of {joined(names, 'and')}" if len(owners) > 1 else ""
            keys.setdefault(cells, []).append(f"`{key}`{owner}")
    return [*lines, *(row(", ".join(names), *cells) for cells, names in keys.items())]


def row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cell.removesuffix('.').replace('|', BAR) for cell in cells)} |"


def description(kind: Kind) -> list[str]:
    """The paragraphs of a class's docstring before its attributes, each in one line."""
    text = (inspect.getdoc(kind) or "").split("Attributes:\n")[0]
    return [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]


def attributes(kind: Kind) -> dict[str, str]:
    """The texts under `Attributes` in a class's docstring, by name."""
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", section, re.M)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}


def link(kind: Kind, anchors: Anchors) -> str:
    """The name of a kind, as a link to where it is described."""
    return f"[`{kind.__name__}`](#{anchors[kind]})"


def joined(words: list[str], last: str = "or") -> str:
    """`a`, `b` or `c`."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def type_words(hint: Any, anchors: Anchors) -> str:
    """What a value of a type may be, in words."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return limited_words(hint)
    if origin in (typing.Union, types.UnionType):
        others = [member for member in members if member is not types.NoneType]
        words = type_words(others[0], anchors) if len(others) == 1 else choice(others, anchors)
        return words if len(others) == len(members) else f"{words}, or absent"
    if origin is Literal:
        return joined([f'`"{word}"`' for word in members])
    if origin is tuple:
        return f"list of {items(members[0], anchors)}"
    return PLAIN[hint] if hint in PLAIN else f"table {link(hint, anchors)}"


def items(hint: Any, anchors: Anchors) -> str:
    """The values of a list, in words."""
    if hint is str:
        return "texts"
    if isinstance(hint, type):
        return f"tables {link(hint, anchors)}"
    return type_words(hint, anchors).replace("[kind]", "[kinds]")


def limited_words(hint: Any) -> str:
    """The words of a type with a limit."""
    if hint in LIMITED:
        return LIMITED[hint]
    base, limit = typing.get_args(hint)
    match limit:
        case AtLeast():
            words = f"at least {limit.least}"
        case Interval():
            words = ", ".join(limit.words)
        case _:
            raise TypeError(f"{limit} has no words: add its type to LIMITED")
    return f"whole number, {words}" if base is int else words


def choice(kinds: list[Kind], anchors: Anchors) -> str:
    """The kinds that a key may have: by name if they are few, else as a link to their table."""
    if len(kinds) <= MOST_NAMES:
        return joined([link(kind, anchors) for kind in kinds])
    tables = [
        (len(group), anchor)
        for group, anchor in anchors.items()
        if isinstance(group, frozenset) and group.issuperset(kinds)
    ]
    return f"[kind](#{min(tables)[1]})"


def default_words(default: object) -> str:
    """The end of a type's words: the default, if it is not the absence of a value."""
    if default is dataclasses.MISSING or default is None:
        return ""
    if default == ():
        words = "empty"
    elif isinstance(default, str):
        words = f'`"{default}"`'
    elif isinstance(default, bool):
        words = str(default).lower()
    elif isinstance(default, int | float):
        words = f"{default:g}"
    else:
        words = f"`{type(default).__name__}`"
    return f"; default: {words}"


if __name__ == "__main__":
    PAGE.write_text(draw(PAGE.read_text("utf-8")), "utf-8")
