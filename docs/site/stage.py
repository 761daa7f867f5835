"""Gather the hand-written pages of the site, with links that lead somewhere on it.

The site has the documents, the notebooks and the pages of the root. A link to one of them leads to
its page on the site; a link to a file of the source becomes the file's path as text.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from docs.notebooks.percent import to_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Pages of the root, by their names on the site.
FROM_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LICENCE = "licence.md"
#: What becomes a page, or is shown on one.
KINDS = (".md", ".ipynb", ".svg")
#: What the search needs where a page comes from a file: by default the site loads it from a server.
SCRIPT = DOCS / "site" / "iframe-worker.js"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```\n?)", re.M | re.S)
#: A fence that names its file: a title, on the site.
TITLE = re.compile(r"^```(\w+) (\S+)")


def sources() -> Iterator[tuple[Path, str]]:
    """Each document or picture, with its path on the site."""
    for file in sorted(DOCS.rglob("*")):
        if file.suffix in KINDS:
            yield file, page_of(file)
    for name, page in FROM_ROOT.items():
        yield ROOT / name, page


def page_of(file: Path) -> str:
    """The path of a document on the site: the README of a folder is its index."""
    path = file.relative_to(DOCS)
    if path.suffix == ".ipynb":
        path = path.with_suffix(".md")
    return (path.with_name("index.md") if path.name == "README.md" else path).as_posix()


def stage(place: Path) -> None:
    """Write all hand-written pages into a folder, which is made anew."""
    shutil.rmtree(place, ignore_errors=True)
    for source, page in sources():
        target = place / page
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".svg":
            shutil.copyfile(source, target)
        else:
            is_notebook = source.suffix == ".ipynb"
            text = to_page(source) if is_notebook else source.read_text("utf-8")
            target.write_text(relinked(text, source, page), "utf-8")
    (place / "javascripts").mkdir()
    shutil.copyfile(SCRIPT, place / "javascripts" / SCRIPT.name)
    licence = (ROOT / "LICENSE").read_text("utf-8")
    (place / LICENCE).write_text(f"# Licence\n\n```text\n{licence}```\n", "utf-8")


def relinked(text: str, source: Path, page: str) -> str:
    """The text of a document, with the links of its page on the site.

    Args:
        text: of the document.
        source: its file, which its links begin at.
        page: its path on the site.
    """
    up = "../" * page.count("/")

    def lead(link: re.Match[str]) -> str:
        picture, words, address = link.groups()
        if re.match(r"[a-z]+:|#", address):
            return link[0]
        path, mark, anchor = address.partition("#")
        file = (source.parent / path).resolve()
        if (file / "README.md").exists():
            file /= "README.md"
        name = file.relative_to(ROOT).as_posix()
        if name == "LICENSE":
            return f"[{words}]({up}{LICENCE})"
        if name in FROM_ROOT:
            return f"{picture}[{words}]({up}{FROM_ROOT[name]}{mark}{anchor})"
        if file.is_relative_to(DOCS) and file.suffix in KINDS:
            return f"{picture}[{words}]({up}{page_of(file)}{mark}{anchor})"
        return words if name in words else f"{words} (`{name}`)"

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(lead, part) for part in parts[::2]]
    parts[1::2] = [TITLE.sub(r'```\1 title="\2"', part) for part in parts[1::2]]
    return "".join(parts)
