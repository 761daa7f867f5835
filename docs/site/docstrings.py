"""How mkdocstrings reads our docstrings: the arguments of an `Args` one by one.

Our docstrings share a line between arguments (`q, k: (time, d)`, `x: the input. grad: like y.`) and
may say in the same place what a function returns. The parser of Google's style wants a line each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from griffe import Class, Extension, Function

#: A section of arguments with its lines, which are indented.
SECTION = re.compile(r"^(Args|Attributes):\n((?:(?:    .*)?\n)*(?:    .*)?)", re.M)


class OneArgumentALine(Extension):
    """Rewrites the docstrings of functions and classes as they are loaded."""

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        _rewrite(func, [parameter.name.lstrip("*") for parameter in func.parameters])

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        init = cls.members.get("__init__")
        parameters = init.parameters if isinstance(init, Function) else ()
        _rewrite(cls, [*cls.members, *(parameter.name for parameter in parameters)])


def _rewrite(owner: Function | Class, names: Iterable[str]) -> None:
    if owner.docstring is not None and (valid := set(names)):
        text = owner.docstring.value
        owner.docstring.value = SECTION.sub(lambda match: spread(match[1], match[2], valid), text)


def spread(title: str, body: str, names: set[str]) -> str:
    """A section with one line for each argument, and what does not belong to it around it.

    Args:
        title: of the section.
        body: its lines.
        names: of the arguments.
    """
    name = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    text = " ".join(body.split())
    text, _, returned = re.sub(r"(^|\. )Returns ", r"\1\0", text).partition("\0")
    before, *entries = re.split(rf"(?:^|(?<=[.;] ))(\*{{0,2}}(?:{name})(?:, (?:{name}))*): ", text)
    lines = [before.strip(), ""] if before.strip() else []
    if entries:
        lines.append(f"{title}:")
    for group, meaning in zip(entries[::2], entries[1::2], strict=True):
        lines += [f"    {argument}: {meaning.strip()}" for argument in group.split(", ")]
    if returned:
        lines += ["", "Returns:", f"    {returned}"]
    return "\n".join([*lines, "", ""])
