"""The files of the page: those of its folder in the package, and the texts of each language.

No name leads out of the folder: only listed names are answered.
"""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

from pellucid.catalogue import LANGUAGES, texts
from pellucid.json_text import json_text

#: Media types by file ending. The system's own table is not used: on some systems it has plain
#: text for JavaScript, which a browser then refuses to run.
_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}


class File(NamedTuple):
    """A file of the page."""

    content: bytes
    kind: str


def files() -> dict[str, File]:
    """The page's files by name; the texts of a language are `texts.TAG.json`."""
    folder = resources.files("pellucid.web") / "static"
    files_by_name: dict[str, File] = {}
    for file in sorted(folder.iterdir(), key=lambda path: path.name):
        ending = file.name.rpartition(".")[2]
        if ending in _KINDS:
            files_by_name[file.name] = File(file.read_bytes(), _KINDS[ending])
    for language in LANGUAGES:
        content = json_text(texts(language), ensure_ascii=False).encode()
        files_by_name[f"texts.{language}.json"] = File(content, _KINDS["json"])
    return files_by_name
