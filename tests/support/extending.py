"""The pages of docs/extending: each adds a part to a copy of the checkout, as a contributor would.

A page holds blocks of two kinds. A `diff PATH` block changes one file. Lines that begin with a
space or a minus must occur together exactly once in the file; a block of plus lines alone is a new
file; a line `@@` begins the next place. An `sh` block holds the commands that show the part at
work.

    PYTHONPATH=tests python -m support.extending norm TARGET   adds the part to the checkout TARGET
    PYTHONPATH=tests python -m support.extending --from CHECKOUT   prints its changes as blocks
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "extending"
BLOCK = re.compile(r"^```(diff|sh)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class StaleRecipeError(Exception):
    """A page asks for a change that its file does not take any more."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a page asks for.

    Attributes:
        name: Of the page, without its ending.
        changes: Files from the root of the checkout, each with the lines of its blocks.
        commands: Shell commands, in their order.
    """

    name: str
    changes: list[tuple[str, str]]
    commands: list[str]


def read_recipe(page: Path) -> Recipe:
    """The blocks of a page."""
    recipe = Recipe(page.stem, [], [])
    for kind, path, lines in BLOCK.findall(page.read_text("utf-8")):
        if kind == "diff":
            recipe.changes.append((path, lines))
        else:
            recipe.commands.extend(filter(str.strip, lines.splitlines()))
    return recipe


def recipes() -> dict[str, Recipe]:
    """Every page of the folder, by name."""
    return {page.stem: read_recipe(page) for page in sorted(FOLDER.glob("*.md"))}


def changed(text: str | None, block: str, path: str) -> str:
    """A file's text after the change of one block.

    Args:
        text: The file as it is; None if there is none.
        block: Lines of a diff.
        path: Of the file, for messages.

    Raises:
        StaleRecipeError: The lines to change do not occur in the file exactly once.
    """
    for place in re.split(r"^@@.*\n", block, flags=re.MULTILINE):
        lines = [line or " " for line in place.splitlines()]
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        if text is None:
            if before.strip():
                raise StaleRecipeError(f"{path} does not exist, and the recipe changes it")
            text = after
            continue
        if not before.strip():
            raise StaleRecipeError(f"{path} exists already, and the recipe makes it")
        count = f"\n{text}".count(f"\n{before}")
        if count != 1:
            raise StaleRecipeError(f"{path} holds these lines {count} times, not once:\n{before}")
        text = f"\n{text}".replace(f"\n{before}", f"\n{after}")[1:]
    assert text is not None
    return text


def changed_files(selection: Iterable[Recipe], root: Path) -> dict[str, str]:
    """The text of each file of a checkout that some pages change, after all changes.

    Raises:
        StaleRecipeError: A change does not fit its file.
    """
    texts: dict[str, str] = {}
    for recipe in selection:
        for path, block in recipe.changes:
            file = root / path
            before = texts.get(path, file.read_text("utf-8") if file.exists() else None)
            texts[path] = changed(before, block, path)
    return texts


def apply(selection: Iterable[Recipe], root: Path) -> None:
    """Change the files of a checkout, or none of them.

    Raises:
        StaleRecipeError: A change does not fit its file.
    """
    for path, text in changed_files(selection, root).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")


def as_blocks(checkout: Path) -> str:
    """The uncommitted changes of a checkout, as blocks for a page; each with enough context."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(checkout), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    git("add", "--intent-to-add", ".")
    blocks: list[str] = []
    for path in git("diff", "HEAD", "--name-only").splitlines():
        text = git("show", f"HEAD:{path}") if git("ls-tree", "HEAD", path) else None
        for context in range(1, 9):
            diff = git("diff", "HEAD", "--no-color", f"-U{context}", "--", path)
            _, *hunks = re.split(r"^@@.*@@.*\n", diff, flags=re.MULTILINE)
            block = "@@\n".join(hunks)
            try:
                changed(text, block, path)
            except StaleRecipeError:
                continue
            blocks.append(f"```diff {path}\n{block}```\n")
            break
        else:
            raise StaleRecipeError(f"{path}: eight lines of context do not make its change unique")
    return "\n".join(blocks)


if __name__ == "__main__":
    name, target = sys.argv[1:]
    if name == "--from":
        print(as_blocks(Path(target)))
    else:
        apply([read_recipe(FOLDER / f"{name}.md")], Path(target))
