"""The documentation of all concepts: a file for each topic, and a list of all terms.

    python -m pellucid.textbook.documentation docs/concepts

writes it. A test compares.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from pellucid.textbook.concept import TOPICS, Concept, concepts
from pellucid.textbook.entries import entry
from pellucid.textbook.pages import LABELS, links


def markdown(topic: str) -> str:
    """The documentation of a topic: a section for each of its concepts."""
    members = [concept for concept in concepts().values() if concept.topic == topic]
    return "\n".join((f"# {topic}\n", *(line for concept in members for line in _section(concept))))


def _section(concept: Concept) -> Iterator[str]:
    yield f"## {concept.title}\n\n{_escaped(concept.text)}\n"
    if concept.equation:
        yield f"```text\n{entry(concept.equation).formula}\n```\n"
    for name, label in LABELS.items():
        items = links(concept).get(label, ())
        if items:
            yield f"- {label}: {'; '.join(_linked(name, item) for item in items)}"
    yield ""


def _linked(name: str, item: str) -> str:
    match name:
        case "derivations":
            return f"[{item}](../derivations/{item}.md)"
        case "see":
            return _link(concepts()[item])
        case "code":
            file, _, symbol = item.partition(":")
            return f"[`{symbol}`](../../src/pellucid/{file}) in `{file}`"
        case _:
            return _escaped(item) if name == "papers" else f"`{item}`"


def _escaped(text: str) -> str:
    """Text in which Markdown sees no emphasis, no tag and no table."""
    for sign in ("\\", "*", "_", "<", "|", "[", "`"):
        text = text.replace(sign, f"\\{sign}")
    return text


def _link(concept: Concept) -> str:
    """A link to the heading of a concept."""
    file = next(file for file, title in TOPICS.items() if title == concept.topic)
    heading = re.sub(r"[^\w\- ]", "", concept.title.lower()).replace(" ", "-")
    return f"[{concept.title}]({file}.md#{heading})"


def _index() -> str:
    """The list of all concepts by topic."""
    lines = [
        "# Concepts\n",
        "Each term of the subject has one page: here, and in `pellucid equations TERM`. "
        "`python -m pellucid.textbook.documentation docs/concepts` writes these files.\n",
    ]
    for file, title in TOPICS.items():
        members = [concept for concept in concepts().values() if concept.topic == title]
        terms = [f"- {_link(concept)}" for concept in members]
        lines += [f"## [{title}]({file}.md)\n", *terms, ""]
    return "\n".join(lines)


def documentation() -> dict[str, str]:
    """The files of `docs/concepts`, by name."""
    pages = {f"{file}.md": markdown(title) for file, title in TOPICS.items()}
    return {"README.md": _index(), **pages}


def main() -> None:
    """Write the documentation into a folder."""
    parser = argparse.ArgumentParser(description="Write a page of concepts for each topic.")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    for name, text in documentation().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
