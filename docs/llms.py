"""Write llms.txt: every page of the documentation with its first sentence, for agents.

    python docs/llms.py

A test compares the file with what this writes.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "llms.txt"
HEAD = """\
# pellucid

> Trains transformer language models you can see through: a Python library and a command line. Each
> number of a model has a receipt with its operands, a watched training names what goes wrong and
> proves the fix, and variants are compared over seeds, with an interval and a verdict.

`pellucid --help` lists the commands; each has `--help` with examples, and `--json`. Exit code 2 is
bad input, and the message says what to do. `pellucid mcp` serves runs to agents.
"""
#: The title of each folder's section; a new folder needs one.
SECTIONS = {
    ".": "Start",
    "docs": "Pages",
    "docs/recipes": "Recipes",
    "docs/extending": "Extending the code",
    "docs/decisions": "Decisions",
    "docs/concepts": "Concepts",
    "docs/derivations": "Derivations",
}


def pages() -> list[Path]:
    """The pages in the order of the sections."""
    start = [ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*start, *sorted((ROOT / "docs").rglob("*.md"))]


def draw() -> str:
    """The whole file."""
    lines = [HEAD]
    for folder, title in SECTIONS.items():
        members = [page for page in pages() if page.parent == ROOT / folder]
        lines += [f"## {title}", "", *map(line_of, members), ""]
    return "\n".join(lines)


def line_of(page: Path) -> str:
    """The link to a page, and its first sentence."""
    text = page.read_text("utf-8")
    title = re.findall(r"^# (.*)$", text, re.M)[0]
    body = text.split(f"# {title}", 1)[1]
    paragraph = next(p for p in body.split("\n\n") if re.match(r"(?!```)[A-Za-z*`$\[]", p.strip()))
    words = " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph).split())
    sentence = re.split(r"(?<=[.!?:]) (?=[A-Z*`])", words)[0]
    return f"- [{title}]({page.relative_to(ROOT).as_posix()}): {sentence}"


if __name__ == "__main__":
    FILE.write_text(draw(), "utf-8")
