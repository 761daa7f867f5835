"""The files of the page: its folder in the package, and the texts of each language.

No name leads out of the folder: only listed names are answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from pellucid.catalogue import LANGUAGES, SOURCE, texts
from pellucid.catalogue.languages import Text
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
#: Lines of a script that are comments alone: a fifth of what a first view would send.
_COMMENT = re.compile(rb"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.M)


#: How the keys of the course's texts begin.
COURSE = "learn."


class File(NamedTuple):
    """A file of the page."""

    content: bytes
    kind: str


def files() -> dict[str, File]:
    """The page's files by name.

    The texts of a language are `texts.TAG.json`, those of the course `learn/texts.TAG.json`.
    `words.en.json` has the page's own words alone, whose keys have no dot: answers have all other
    texts in English.
    """
    folder = Path(str(resources.files("pellucid.web") / "static"))
    files_by_name: dict[str, File] = {}
    for file in sorted(folder.rglob("*")):
        ending = file.suffix.removeprefix(".")
        if ending in _KINDS:
            content = file.read_bytes()
            if ending == "js":
                content = _COMMENT.sub(b"", content)
            files_by_name[file.relative_to(folder).as_posix()] = File(content, _KINDS[ending])
    for name, catalogue in _catalogues():
        content = json_text(catalogue, ensure_ascii=False).encode()
        files_by_name[name] = File(content, _KINDS["json"])
    return files_by_name


def page_texts(language: str) -> Mapping[str, Text]:
    """The texts of a language without those of the course, which has a page of its own."""
    return {key: text for key, text in texts(language).items() if not key.startswith(COURSE)}


def _catalogues() -> Iterator[tuple[str, Mapping[str, Text]]]:
    for language in LANGUAGES:
        yield f"texts.{language}.json", page_texts(language)
        of_course = {key: text for key, text in texts(language).items() if key.startswith(COURSE)}
        yield f"learn/texts.{language}.json", of_course
    own_words = {key: text for key, text in texts(SOURCE).items() if "." not in key}
    yield f"words.{SOURCE}.json", own_words
