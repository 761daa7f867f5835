"""Every run of a folder as one row: what it learns, how large it is, how well, and its state."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pellucid import config, disk
from pellucid.counting import parameter_count
from pellucid.errors import ConfigError, PellucidError, RunError
from pellucid.lab.outcome import PER_BYTE, Outcome, finite_or_none, outcome_of
from pellucid.presets import OBJECTIVES
from pellucid.saved_runs.folder import LOCK_FILES, PREPARED, RunFolder
from pellucid.saved_runs.load import read_config

#: The file that makes a folder a run; it goes last, so that a stopped removal can be repeated.
_LAST_FILE = "config.toml"
#: Every file that a run's folder may hold, as patterns.
_RUN_FILES = (
    *PREPARED,
    "report.html",
    "vitals.html",
    "vitals-*.json",
    "films/*/film.json",
    "films/*/*.shot",
    "non-finite/*/*.safetensors",
    "non-finite/*/report.json",
)
_CONDITION = re.compile(r"(\w+)\s*(<=|>=|!=|=|~|<|>)\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run; None is what neither its config nor its events say.

    `name` is its folder's path within the table's folder, `data` names the files, `best_loss` is
    the lowest held-out loss in nats per `unit`, and `word` the worst of the five vital signs.
    """

    name: str
    objective: str | None = None
    parameters: int | None = None
    data: str | None = None
    seed: int | None = None
    step: int | None = None
    total_steps: int | None = None
    best_loss: float | None = None
    bits_per_byte: float | None = None
    unit: str | None = None
    word: str = ""
    state: str
    problem: str = ""


#: The columns that rows are sorted and filtered by.
COLUMNS = tuple(RunRow.__dataclass_fields__)


class Deleted(NamedTuple):
    """A run that was deleted; `is_gone` is False if files that pellucid did not write remain."""

    name: str
    is_gone: bool


def list_runs(
    parent: str | Path,
    *,
    conditions: Iterable[str] = (),
    sort: str = "name",
    descending: bool = False,
) -> list[RunRow]:
    """A row for every run in a folder and in the folders below it.

    Args:
        parent: the folder.
        conditions: what holds for each row, such as "state=finished" or "best_loss<2.5"; "~"
            means that a text has a part.
        sort: the column to sort by; rows without a value come last.
        descending: largest first.

    Raises:
        RunError: there is no such folder.
        ConfigError: a column or a condition that does not exist.
    """
    parent = Path(parent)
    if not parent.is_dir():
        raise RunError(f"{parent} is no folder: name the folder that holds your runs")
    _check_column(sort)
    predicates = [_condition(text) for text in conditions]
    rows = [run_row(path, _name(path, parent)) for path in run_folders(parent)]
    rows = [row for row in rows if all(predicate(row) for predicate in predicates)]
    sortable = [row for row in rows if getattr(row, sort) is not None]
    sortable.sort(key=lambda row: getattr(row, sort), reverse=descending)
    return sortable + [row for row in rows if getattr(row, sort) is None]


def delete_runs(parent: str | Path, names: Sequence[str]) -> list[Deleted]:
    """Delete the runs of these names, and nothing that pellucid did not write.

    Args:
        parent: the folder of the table.
        names: names as the table has them; none is a pattern.

    Raises:
        RunError: there is no run of a name, or one trains now; then nothing is deleted.
    """
    by_name = {path.relative_to(parent).as_posix(): path for path in run_folders(parent)}
    for name in names:
        if name not in by_name:
            raise RunError(
                f"{parent} has no run {name!r}: give its whole name, as `pellucid runs {parent}` "
                "shows it; nothing was deleted"
            )
        if RunFolder(by_name[name]).is_held():
            raise RunError(f"{by_name[name]} is in use: stop it first; nothing was deleted")
    return [Deleted(name, remove_run(RunFolder(by_name[name]))) for name in dict.fromkeys(names)]


def remove_run(folder: RunFolder) -> bool:
    """Remove a run that no process holds; False if other files remain, and so does the folder.

    Args:
        folder: the run's folder.

    Raises:
        RunError: another process writes to it.
    """
    with folder.locked():
        disk.clear(folder.path, _RUN_FILES, keep=(_LAST_FILE,))
    disk.remove(folder.path, (_LAST_FILE, *LOCK_FILES))
    return not folder.path.exists()


def row_facts(row: RunRow) -> dict[str, Any]:
    """A row as `pellucid runs --json` prints it."""
    return asdict(row)


def run_folders(parent: str | Path) -> Iterator[Path]:
    """The runs in a folder and below it, in order; a run has no runs within."""
    for place, folders, files in os.walk(parent):
        if "config.toml" in files and "plan.json" in files:
            folders.clear()
            yield Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def is_folder_of_runs(path: Path) -> bool:
    """Whether a folder holds runs, and is itself neither a run nor a published model."""
    is_model = any((path / name).is_file() for name in (_LAST_FILE, "config.json"))
    return path.is_dir() and not is_model and next(run_folders(path), None) is not None


def openable_runs(parent: Path) -> list[Path]:
    """The runs in a folder and below it that have a checkpoint and a config that can be read."""
    return [path for path in run_folders(parent) if _is_openable(RunFolder(path))]


def _is_openable(folder: RunFolder) -> bool:
    try:
        return bool(folder.shelf.steps() and read_config(folder))
    except PellucidError:
        return False


def _name(path: Path, parent: Path) -> str:
    return path.relative_to(parent).as_posix() if path != parent else "."


def run_row(path: Path, name: str) -> RunRow:
    """The row of the run in a folder.

    Args:
        path: the folder.
        name: what the table calls it.
    """
    try:
        run, outcome = read_config(RunFolder(path)), outcome_of(path)
    except PellucidError as error:
        return RunRow(name=name, state="damaged", problem=str(error))
    return RunRow(
        name=name,
        objective=_objective_name(run.objective),
        parameters=parameter_count(run.model),
        data=_data_name(run.text.corpus),
        seed=run.seed,
        step=outcome.step,
        total_steps=outcome.total_steps,
        best_loss=finite_or_none(outcome.best),
        bits_per_byte=finite_or_none(outcome.measures.get(PER_BYTE)),
        unit=outcome.unit,
        word=outcome.word,
        state=_state(outcome),
        problem=outcome.stopped,
    )


def _state(outcome: Outcome) -> str:
    return "training" if outcome.state == "in use" else outcome.state


def _objective_name(objective: config.Objective) -> str:
    """The name of an objective as `--objective` takes it, or else of its kind."""
    kind = type(objective)
    return next(
        (name for name, preset in OBJECTIVES.items() if type(preset.objective) is kind),
        kind.__name__,
    )


def _data_name(corpus: config.Corpus) -> str:
    match corpus:
        case config.StandardLibrary():
            return "standard library"
        case _:
            names = [Path(path).name or path for path in corpus.paths]
            return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _condition(text: str) -> Callable[[RunRow], bool]:
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"--where {text}: expected a column and a value, such as state=finished or best_loss<2"
        )
    column, sign, value = match.groups()
    _check_column(column)

    def predicate(row: RunRow) -> bool:
        cell = getattr(row, column)
        if cell is None:
            return False
        if isinstance(cell, str):
            return _text_holds(cell, sign, value, text)
        return _number_holds(cell, sign, value, text)

    return predicate


def _text_holds(cell: str, sign: str, value: str, text: str) -> bool:
    match sign:
        case "=":
            return cell == value
        case "!=":
            return cell != value
        case "~":
            return value.lower() in cell.lower()
        case _:
            raise ConfigError(f"--where {text}: this column holds text: use =, != or ~")


def _number_holds(cell: float, sign: str, value: str, text: str) -> bool:
    try:
        number = float(value)
    except ValueError:
        raise ConfigError(f"--where {text}: expected a number, was {value!r}") from None
    if sign == "~":
        raise ConfigError(f"--where {text}: this column holds numbers, which have no parts")
    return {
        "=": cell == number,
        "!=": cell != number,
        "<": cell < number,
        ">": cell > number,
        "<=": cell <= number,
        ">=": cell >= number,
    }[sign]


def _check_column(name: str) -> None:
    if name not in COLUMNS:
        raise ConfigError(f"there is no column {name!r}; the columns are: {', '.join(COLUMNS)}")
