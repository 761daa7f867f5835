"""The page of a concept: one content for the terminal, `pellucid serve` and the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid.textbook.concept import Concept, concepts
from pellucid.textbook.entries import entry

#: The links of a page in order, with their labels.
LABELS: dict[str, str] = {
    "equations": "equations",
    "derivations": "derivations",
    "chapters": "explain",
    "experiments": "experiments",
    "lessons": "lessons",
    "signs": "vital signs",
    "causes": "causes",
    "keys": "config",
    "code": "code",
    "see": "see also",
    "papers": "sources",
}
#: A line of so many characters was wrapped by its author.
_WRAPPED_AT = 78


def neighbours(concept: Concept) -> tuple[str, ...]:
    """The concepts that it names or that name it."""
    naming = (other.id for other in concepts().values() if concept.id in other.see)
    return tuple(dict.fromkeys((*concept.see, *naming)))


def linked_fields(concept: Concept) -> dict[str, tuple[str, ...]]:
    """Everything that belongs to a concept, by field; fields without an entry are left out."""
    fields: dict[str, Any] = {name: getattr(concept, name) for name in LABELS}
    fields |= {"code": (concept.code,) if concept.code else (), "see": neighbours(concept)}
    return {name: items for name, items in fields.items() if items}


def links(concept: Concept) -> dict[str, tuple[str, ...]]:
    """Everything that belongs to a concept, by label; labels without an entry are left out."""
    return {LABELS[name]: items for name, items in linked_fields(concept).items()}


def formulas(names: Iterable[str]) -> dict[str, str]:
    """The formulas of equations, by name."""
    return {name: entry(name).formula for name in names}


def unwrapped(text: str) -> list[str]:
    """The lines of a docstring's section, where its author wrapped none; formulas keep theirs."""
    lines: list[str] = []
    is_wrapped = False
    for line in text.splitlines():
        if is_wrapped and line.strip():
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
        is_wrapped = len(line) >= _WRAPPED_AT
    return lines


def record(concept: Concept) -> dict[str, Any]:
    """The page as plain values, for JSON."""
    return {
        "id": concept.id,
        "title": concept.title,
        "topic": concept.topic,
        "text": concept.text,
        "formulas": formulas(concept.equations),
        "links": {label: list(items) for label, items in links(concept).items()},
    }
