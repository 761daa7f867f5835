"""`pellucid` alone: what one can do from here, by what the folder holds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.printable import plural

if TYPE_CHECKING:
    from pellucid.lab.run_table import RunRow

#: Where `pellucid train` writes runs, and how many are shown.
_FOLDER, _N_SHOWN = Path("runs"), 8


def call(arguments: argparse.Namespace) -> None:
    """Print the runs of this folder, and for each state what comes next."""
    print("pellucid trains transformer language models you can see through.\n")
    for line in _lines():
        print(line)
    print("\n`pellucid --help` lists all commands; `pellucid doctor` looks at this machine.")


def _lines() -> Iterator[str]:
    from pellucid.lab.run_table import list_runs

    rows = list_runs(_FOLDER) if _FOLDER.is_dir() else []
    if not rows:
        yield "There is no run in runs/ yet."
        yield from _advice(
            ("pellucid train", "a first model, in about two minutes, on a text that is inside"),
            ("pellucid train my.txt", "on your own text"),
            ("pellucid learn", "a course that begins at nothing"),
        )
        return
    yield f"runs/ holds {len(rows)} {plural(len(rows), 'run')}."
    for row in rows[:_N_SHOWN]:
        yield from _of_run(row)
    if len(rows) > _N_SHOWN:
        yield f"\n{len(rows) - _N_SHOWN} more: pellucid runs"


def _of_run(row: RunRow) -> Iterator[str]:
    from pellucid.display import visible

    path = f"runs/{visible(row.name)}"
    loss = "" if row.best_loss is None else f", best held-out loss {row.best_loss:.3f}"
    yield f"\n{path}: {row.state}{loss}{f', {row.word}' if row.word else ''}"
    if row.state == "damaged":
        yield f"  {row.problem}"
        return
    if row.word == "sick" or row.state == "not finite":
        yield from _advice((f"pellucid diagnose {path}", "what went wrong, and what to do"))
    match row.state:
        case "training":
            yield from _advice((f"pellucid attach {path}", "watch it"))
        case "finished":
            yield from _advice(
                (f"pellucid generate {path} --prompt 'The'", "let it write"),
                (f"pellucid explain {path} 'The cat sat'", "open every number"),
            )
        case "unfinished":
            yield from _advice((f"pellucid train --resume {path}", "go on where it stopped"))
        case _:  # one that met a value that is not finite: it has its advice
            return


def _advice(*rows: tuple[str, str]) -> Iterator[str]:
    width = max(len(command) for command, _ in rows)
    for command, purpose in rows:
        yield f"  {command:<{width}}   {purpose}"
