"""The table of all runs, and their curves: by their events alone, without any model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pellucid.catalogue import message
from pellucid.display.numbers import short
from pellucid.lab.outcome import LOSS, PER_BYTE, outcome_of
from pellucid.lab.run_table import row_facts, run_folders, run_row
from pellucid.web.json_payload import Plain
from pellucid.web.requests import RequestError
from pellucid.web.run_registry import RunRegistry

#: The most points of a curve.
_MOST_POINTS = 200


def run_table(shelf: RunRegistry) -> Plain:
    """A row for every run of the page, and of its folders; `key` names a run that can be opened.

    Args:
        shelf: the runs of the page.
    """
    keys = {shelf.folder(key).resolve(): key for key in shelf.keys}
    rows = [
        row_facts(row)
        | {
            "key": keys.get(path.resolve()),
            "size": "" if row.parameters is None else short(row.parameters),
        }
        for name, path in _paths(shelf).items()
        for row in [run_row(path, name)]
    ]
    return {"rows": rows}


def run_curves(shelf: RunRegistry, names: Sequence[str]) -> Plain:
    """The held-out curves of runs: in bits per byte if all of them have it, else the losses.

    Args:
        shelf: the runs of the page.
        names: as the table has them.

    Raises:
        RequestError: the table has no run of a name.
    """
    paths = _paths(shelf)
    unknown = next((name for name in names if name not in paths), None)
    if unknown is not None:
        raise RequestError(message("unknown-run", run=repr(unknown)))
    curves = {name: outcome_of(paths[name]).curves for name in names}
    with_points = [curve for curve in curves.values() if curve.get(LOSS)]
    measure = PER_BYTE if with_points and all(PER_BYTE in curve for curve in with_points) else LOSS
    return {
        "measure": measure,
        "curves": [[name, _thinned(curve.get(measure, ()))] for name, curve in curves.items()],
    }


def _paths(shelf: RunRegistry) -> dict[str, Path]:
    """The folder of each run by its name; a name from several folders begins with its folder's."""
    is_alone = len(shelf.folders) == 1
    paths = {
        path.relative_to(folder).as_posix()
        if is_alone
        else (Path(folder.name) / path.relative_to(folder)).as_posix(): path
        for folder in shelf.folders
        for path in run_folders(folder)
    }
    seen = {path.resolve() for path in paths.values()}
    for key in shelf.keys:
        path = shelf.folder(key)
        if path.resolve() not in seen and (path / "plan.json").is_file():
            paths[path.resolve().name if path.resolve().name not in paths else str(path)] = path
    return paths


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most so many points; the last one stays."""
    stride = -(-len(points) // _MOST_POINTS) or 1
    return [*reversed(points[::-1][::stride])]
