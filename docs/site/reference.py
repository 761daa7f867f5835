"""Write the generated pages of the reference: each command, and each public room of the library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pellucid
from pellucid.cli.flags.parsing import Parser
from pellucid.cli.groups import GROUPS, VerbList

#: A page of a room, which mkdocstrings fills.
ROOM = """# `{name}`

::: {name}
    options:
      members: {members}
"""


@dataclass(frozen=True, slots=True)
class Room:
    """A package of the library that lists its public names.

    Attributes:
        name: its dotted name.
        purpose: the first paragraph of its docstring, in one line.
        members: its public names, without the modules among them.
    """

    name: str
    purpose: str
    members: tuple[str, ...]


def write(place: Path) -> None:
    """Write `reference/cli.md` and `reference/python/*.md` into the folder of pages."""
    folder = place / "reference" / "python"
    folder.mkdir(parents=True)
    (place / "reference" / "cli.md").write_text(commands(), "utf-8")
    rows = ["# The library\n\nEvery public name, by the room that holds it.\n"]
    for room in rooms():
        page = ROOM.format(name=room.name, members=list(room.members))
        (folder / f"{room.name}.md").write_text(page, "utf-8")
        rows.append(f"- [`{room.name}`]({room.name}.md): {room.purpose}")
    (folder / "index.md").write_text("\n".join(rows) + "\n", "utf-8")


def rooms() -> Iterator[Room]:
    """The package and every room that lists its public names, read without importing it.

    `pellucid.transformers` cannot be imported where the library of that name is missing.
    """
    package = Path(pellucid.__path__[0])
    for folder in (package, *sorted(path.parent for path in package.glob("*/__init__.py"))):
        tree = ast.parse((folder / "__init__.py").read_text("utf-8"))
        names = _public(tree)
        if names:
            purpose = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
            members = tuple(name for name in names if not _is_module(folder, name))
            yield Room(".".join(folder.relative_to(package.parent).parts), purpose, members)


def _public(tree: ast.Module) -> list[str]:
    """What a module gives `__all__`; nothing if it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def _is_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


def commands() -> str:
    """The help of every command, in its groups."""
    parts = [
        "# The command line\n\nThe help of each command, as `pellucid COMMAND --help` prints it.\n"
    ]
    for group, modules in GROUPS.items():
        verbs = Parser().add_subparsers(prog="pellucid")
        verb_list = VerbList(verbs)
        for module in modules:
            module.add_to(verb_list)
        parts.append(f"## {group}\n")
        parts += [
            f"### {name}\n\n{line}\n\n```text\n{verbs.choices[name].format_help()}```\n"
            for name, line in verb_list.lines
        ]
    return "\n".join(parts)
