"""Write the generated pages of the reference: each command, and each public room of the library."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pellucid
from pellucid.cli.flags.parsing import Parser
from pellucid.cli.groups import GROUPS, VerbList

#: A page of a room, which mkdocstrings fills.
ROOM = """# `{name}`

::: {name}
    options:
      members: {members}
"""


def write(place: Path) -> None:
    """Write `reference/cli.md` and `reference/python/*.md` into the folder of pages."""
    folder = place / "reference" / "python"
    folder.mkdir(parents=True)
    (place / "reference" / "cli.md").write_text(commands(), "utf-8")
    rows = ["# The library\n\nEvery public name, by the room that holds it.\n"]
    for room in rooms():
        name = room.__name__
        members = [word for word in room.__all__ if not isinstance(getattr(room, word), ModuleType)]
        (folder / f"{name}.md").write_text(ROOM.format(name=name, members=members), "utf-8")
        purpose = " ".join((room.__doc__ or "").split("\n\n")[0].split())
        rows.append(f"- [`{name}`]({name}.md): {purpose}")
    (folder / "index.md").write_text("\n".join(rows) + "\n", "utf-8")


def rooms() -> Iterator[ModuleType]:
    """The package and every room that says what is public."""
    yield pellucid
    for found in pkgutil.iter_modules(pellucid.__path__):
        if found.ispkg:
            room = importlib.import_module(f"pellucid.{found.name}")
            if getattr(room, "__all__", None):
                yield room


def commands() -> str:
    """The help of every command, in its groups."""
    parts = [
        "# The command line\n\nThe help of each command, as `pellucid COMMAND --help` prints it.\n"
    ]
    for group, modules in GROUPS.items():
        verbs = Parser().add_subparsers(prog="pellucid")
        listed = VerbList(verbs)
        for module in modules:
            module.add_to(listed)
        parts.append(f"## {group}\n")
        parts += [
            f"### {name}\n\n{line}\n\n```text\n{verbs.choices[name].format_help()}```\n"
            for name, line in listed.lines
        ]
    return "\n".join(parts)
