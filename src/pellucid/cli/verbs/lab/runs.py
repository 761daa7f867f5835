"""`pellucid runs`: every run of a folder as a table."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result

if TYPE_CHECKING:
    from pellucid.lab.run_table import RunRow

_HEADS = ("run", "objective", "size", "data", "updates", "best loss", "vital signs", "state")
#: What a narrow terminal does without, the first one first.
_SPARED = ("data", "size", "objective", "updates", "vital signs")


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "runs",
        help="list the runs of a folder",
        description="Each run in a folder and below it: what it learns, how large it is, its data, "
        "its lowest held-out loss, the worst word of its five vital signs, and its state.",
    )
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default="runs", help="the folder (default: runs)"
    )
    parser.add_argument("--sort", default="name", metavar="COLUMN", help="sort by this column")
    parser.add_argument("--descending", action="store_true", help="the largest first")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help='only runs with this, such as state=finished or "best_loss<2.5"; may be repeated',
    )
    parser.add_argument(
        "--delete",
        action="append",
        default=[],
        metavar="NAME",
        help="delete the run of exactly this name; files that pellucid did not write stay; may be "
        "repeated",
    )
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Delete the named runs, if any; print the table."""
    from pellucid.display import visible
    from pellucid.lab.run_table import delete_runs, list_runs, row_facts

    choices = {
        "conditions": arguments.where,
        "sort": arguments.sort,
        "descending": arguments.descending,
    }
    rows = list_runs(arguments.folder, **choices)  # first, as it refuses what it does not know
    deleted = delete_runs(arguments.folder, arguments.delete)
    if deleted:
        rows = list_runs(arguments.folder, **choices)
    lines = [
        f"deleted {visible(name)}"
        if is_gone
        else f"deleted {visible(name)}, but for files that pellucid did not write"
        for name, is_gone in deleted
    ]
    facts = {
        "runs": [row_facts(row) for row in rows],
        "deleted": [entry._asdict() for entry in deleted],
    }
    print_result(arguments, facts, [*lines, *_lines(arguments.folder, rows)])


def _lines(folder: str, rows: list[RunRow]) -> list[str]:
    if not rows:
        return [f"{folder} has no such runs"]
    problems = [f"{row.name}: {row.problem}" for row in rows if row.state == "damaged"]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return [*fitted_table([_cells(row) for row in rows], width), *problems]


def fitted_table(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The table, without the columns that a narrow terminal has no room for.

    Args:
        rows: the cells of each run.
        width: the columns of the terminal; None if any line fits.
    """
    from pellucid.cli.output.comparison import table_lines

    lines = table_lines(_HEADS, rows)
    for n_spared in range(1, len(_SPARED) + 1):
        if width is None or max(map(len, lines)) <= width:
            return lines
        spared = _SPARED[:n_spared]
        shown = [i for i, head in enumerate(_HEADS) if head not in spared]
        columns = [[row[i] for i in shown] for row in (_HEADS, *rows)]
        lines = table_lines(columns[0], columns[1:])
        lines.append(f"left out: {', '.join(spared)}")
    return lines


def _cells(row: RunRow) -> tuple[str, ...]:
    from pellucid.display import visible
    from pellucid.display.numbers import short

    updates = "–" if row.step is None else f"{row.step:,}"
    updates += "" if row.total_steps is None else f" of {row.total_steps:,}"
    loss = "–" if row.best_loss is None else f"{row.best_loss:.4f}"
    return (
        visible(row.name),
        row.objective or "–",
        "–" if row.parameters is None else short(row.parameters),
        visible(row.data or "–"),
        updates,
        loss,
        row.word or "–",
        row.state,
    )
