"""The files of the page and its texts, from its folder in the package.

No name leads out of the folder: only listed names are answered. All sentences of the page are in
`messages.en.js`; its scripts and this room read them from there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from pellucid.reader import parse_json_table

#: Media types by file ending. The system's own table is not used: on some systems it has plain
#: text for JavaScript, which a browser then refuses to run.
_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class File(NamedTuple):
    """A file of the page."""

    content: bytes
    kind: str


def files() -> dict[str, File]:
    """The page's files by name."""
    folder = resources.files("pellucid.web") / "static"
    files_by_name: dict[str, File] = {}
    for file in sorted(folder.iterdir(), key=lambda path: path.name):
        ending = file.name.rpartition(".")[2]
        if ending in _KINDS:
            files_by_name[file.name] = File(file.read_bytes(), _KINDS[ending])
    return files_by_name


def message(key: str, **values: object) -> str:
    """A sentence of the page, with its places filled in.

    Args:
        key: Its key in `messages.en.js`.
        values: The values of its `{name}` places.
    """
    return str(_messages()[key]).format(**values)


@cache
def _messages() -> Mapping[str, Any]:
    script = files()["messages.en.js"].content.decode()
    table = script[script.index("{\n") : script.rindex("}") + 1]
    return parse_json_table(re.sub(r",\s*}$", "}", table), "messages.en.js")
