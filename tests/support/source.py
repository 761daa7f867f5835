"""The parsed source of the library, once for all tests that hold rules over every file."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

import pellucid

SOURCE = Path(pellucid.__file__).parent
#: By path from the root of the package, with slashes.
FILES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}

ROOT = Path(__file__).parents[2]
#: The code around the library, by path from the root of the checkout.
FILES_AROUND = {
    path.relative_to(ROOT).as_posix(): path
    for folder in ("benchmarks", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
}

#: What those rules look at; a whole tree of every file would fill the memory.
Node = ast.Call | ast.Attribute | ast.Name | ast.ImportFrom


@cache
def nodes(path: Path) -> list[Node]:
    """The calls, names and imports in a file."""
    collects = gc.isenabled()
    gc.disable()  # a tree is many small objects at once: the collector would look at all of them
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        return [node for node in ast.walk(tree) if isinstance(node, Node)]
    finally:
        if collects:
            gc.enable()
