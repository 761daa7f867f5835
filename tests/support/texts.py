"""Sentences in the code of a room: texts for people belong into the room's one file of texts."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SENTENCE = re.compile(r"[A-Za-z]{2,} [a-z']{2,} [a-z']+")


def sentences_in_python(path: Path, *, raised: bool = True) -> list[str]:
    """Texts of three words or more, without docstrings; `raised`: also the texts of exceptions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(constant)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) or (isinstance(node, ast.Raise) and not raised)
        for constant in ([node.value] if isinstance(node, ast.Expr) else ast.walk(node))
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in skipped and SENTENCE.search(re.sub(r"<[^>]*>?", "", node.value))
    ]
