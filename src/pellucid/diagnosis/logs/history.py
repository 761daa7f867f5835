"""A history out of anybody's log: Hugging Face's, TensorBoard's, a table, lines of a console."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from pellucid.diagnosis.history.history import Facts, History, Points, Reading
from pellucid.diagnosis.logs.columns import Kind, is_preference, kind_of, only_loss, plain, steps_of
from pellucid.diagnosis.logs.curves import Log, of_curves
from pellucid.diagnosis.logs.huggingface import (
    facts_of_state,
    is_state,
    newest_state,
    rows_of_state,
)
from pellucid.diagnosis.logs.parsers import Row, rows_in
from pellucid.diagnosis.logs.tensorboard import (
    Scalars,
    folders_within,
    is_event_file,
    scalars_of,
)
from pellucid.errors import PellucidError
from pellucid.reader import LARGE, parse_json, read_text
from pellucid.vitals.rules import rules_of

_EXPECTED = (
    "expected a trainer_state.json, a TensorBoard folder or event file, a table or lines of JSON "
    "with a column such as loss, train/loss, eval_loss, grad_norm or learning_rate, or a console's "
    "lines such as 'step 10 | loss 4.21'"
)
#: Names of files in which a folder may keep a log, the usual ones first.
_FILES = ("metrics.csv", "log.csv", "metrics.jsonl", "log.jsonl", "log.txt", "train.log")
#: One column: (step or None, value) in the order of writing, values that are no numbers among them.
_Column = list[tuple[float | None, float]]


class _Read(NamedTuple):
    """The columns of a log, by their names, and what is known besides."""

    columns: dict[str, _Column]
    facts: Facts
    file: Path


@dataclass(frozen=True, slots=True)
class _Series:
    """One column, in order of updates: what was written over is left out."""

    points: Points
    resumed: tuple[int, ...] = ()


def is_log(path: str | Path) -> bool:
    """Whether a path may be somebody's log: any file, or a folder with one and no run in it."""
    place = Path(path)
    if place.is_file():
        return True
    return place.is_dir() and not (place / "config.toml").is_file() and _within(place) is not None


def history_of_log(path: str | Path, *, vocab_size: int | None = None) -> History:
    """The history that a log tells, whoever wrote it; `findings` hold what its curves show.

    Raises:
        PellucidError: there is no log, it is empty or damaged, or nothing in it is known by name.
    """
    place = Path(path)
    read = _read(place)
    columns = _chosen(read.columns)
    if not columns:
        raise PellucidError(f"{read.file}: {_unknown(read.columns)}; {_EXPECTED}")
    series = {kind: _ordered(read.columns[name]) for kind, name in columns.items()}
    points = {kind: curve.points for kind, curve in series.items()}
    log = Log(
        loss=points.get("loss", ()),
        held_out=points.get("held_out", ()),
        grad_norm=points.get("grad_norm", ()),
        rate=points.get("rate", ()),
    )
    resumed = series["loss"].resumed if "loss" in series else ()
    facts = replace(
        read.facts, vocab_size=vocab_size if vocab_size is not None else read.facts.vocab_size
    )
    if facts.objective is None and is_preference(list(read.columns)):
        facts = replace(facts, objective="preferences")
    rates = _finite(log.rate)
    if facts.learning_rate is None and rates:
        facts = replace(facts, learning_rate=max(value for _, value in rates))
    epochs = [read.columns[name] for name in read.columns if plain(name) == "epoch"]
    log = replace(
        log, facts=facts, resumed=resumed, epochs=_ordered(epochs[0]).points if epochs else ()
    )
    return History(
        name=str(place),
        losses=_finite(log.loss),
        held_out=_finite(log.held_out),
        grad_norms=_finite(log.grad_norm),
        rates=rates,
        signs=_signs(read.columns),
        facts=facts,
        findings=tuple(of_curves(log)),
        stopped=log.stopped,
    )


# ---- reading


def _read(place: Path) -> _Read:
    if not place.exists():
        raise PellucidError(f"{place} does not exist; {_EXPECTED}")
    if place.is_dir():
        log_path = _within(place)
        if log_path is None:
            raise PellucidError(
                f"{place} holds neither a run (config.toml) nor a log that is known; {_EXPECTED}"
            )
        place = log_path
    if place.is_dir() or is_event_file(place):
        return _Read(_of_scalars(_scalars(place)), Facts(), place)
    return _of_file(place)


def _within(folder: Path) -> Path | None:
    """The log in a folder: a trainer's state, a folder of event files, a file of a usual name."""
    state = newest_state(folder)
    if state is not None:
        return state
    events = folders_within(folder)
    if events:
        return events[-1] if len(events) == 1 else folder
    named = [folder / name for name in _FILES if (folder / name).is_file()]
    if named:
        return named[0]
    # Lightning's CSVLogger numbers its versions
    tables = sorted(folder.glob("**/metrics.csv"), key=lambda file: file.stat().st_mtime)
    return tables[-1] if tables else None


def _scalars(place: Path) -> Scalars:
    """The scalars of the newest folder that has any known one."""
    if not place.is_dir():
        return scalars_of(place)
    last: Scalars = {}
    for folder in reversed(folders_within(place)):
        scalars = scalars_of(folder)
        if any(kind_of(tag) for tag in scalars):
            return scalars
        last = last or scalars
    return last


def _of_scalars(scalars: Scalars) -> dict[str, _Column]:
    return {
        tag: [(float(step), value) for step, value in points] for tag, points in scalars.items()
    }


def _of_file(file: Path) -> _Read:
    try:
        text = read_text(file, limit=LARGE)
    except PellucidError as error:
        raise PellucidError(f"{error}; {_EXPECTED}") from None
    if not text.strip():
        raise PellucidError(f"{file} is empty; {_EXPECTED}")
    if text.lstrip().startswith("{"):
        state = _state(file, text)
        if state is not None:
            return _Read(_of_rows(rows_of_state(file, state)), facts_of_state(file, state), file)
    return _Read(_of_rows(rows_in(text, file.name)), Facts(), file)


def _state(file: Path, text: str) -> Mapping[str, Any] | None:
    try:
        read = parse_json(text, file.name, lenient=True)
    except PellucidError as error:
        if file.name == "trainer_state.json":
            raise PellucidError(
                f"{file} is damaged ({error}): take the one of an earlier checkpoint"
            ) from None
        return None
    return cast("Mapping[str, Any]", read) if is_state(read) else None


def _of_rows(rows: Sequence[Row]) -> dict[str, _Column]:
    """The columns of rows, each with the step of its row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    counter = steps_of(names)
    columns: dict[str, _Column] = {name: [] for name in names if name != counter}
    if counter is not None and plain(counter) == "epoch":
        columns[counter] = []
        counter = None  # fractions of an epoch count no updates
    for row in rows:
        for name, value in row.items():
            if name != counter:
                columns[name].append((row.get(counter) if counter else None, value))
    return columns


def _chosen(columns: Mapping[str, _Column]) -> dict[Kind, str]:
    """Of each kind the column with the most values; of equals, that of the surest name."""
    best: dict[Kind, tuple[int, int, str]] = {}
    for name, column in columns.items():
        kind_and_rank = kind_of(name)
        if kind_and_rank is None or not column:
            continue
        kind, rank = kind_and_rank
        best[kind] = max(best.get(kind, (0, 0, "")), (len(column), -rank, name))
    chosen: dict[Kind, str] = {kind: name for kind, (_, _, name) in best.items()}
    loss_name = only_loss([name for name, column in columns.items() if column])
    if "loss" not in chosen and loss_name is not None:
        chosen["loss"] = loss_name
    return chosen


def _unknown(columns: Mapping[str, _Column]) -> str:
    names = list(columns)
    if not names:
        return "no row of numbers was found in it"
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"none of its columns is known by name ({listed})"


# ---- order


def _ordered(column: _Column) -> _Series:
    """In order of updates. Where steps go back, a training was resumed: what it repeats counts."""
    if any(step is None or not math.isfinite(step) for step, _ in column):
        return _Series(tuple((i + 1, value) for i, (_, value) in enumerate(column)))
    points: list[tuple[int, float]] = []
    resumed: list[int] = []
    for step, value in ((int(cast("float", s)), v) for s, v in column):
        if points and step < points[-1][0]:
            while points and points[-1][0] >= step:
                points.pop()
            resumed.append(step)
        elif points and step == points[-1][0]:
            points.pop()
        points.append((step, value))
    return _Series(tuple(points), tuple(step for step in resumed if step > points[0][0]))


def _finite(points: Points) -> Points:
    return tuple((step, value) for step, value in points if math.isfinite(value))


def _signs(columns: Mapping[str, _Column]) -> dict[str, tuple[Reading, ...]]:
    """Vital signs, where somebody watched: `vitals/<group>/all/<stat>`."""
    rules = rules_of()
    signs: dict[str, tuple[Reading, ...]] = {}
    for name, column in columns.items():
        parts = name.split("/")
        if parts[0] != "vitals" or len(parts) != 4:
            continue
        id = f"{parts[1]}.{parts[3]}"
        if id in rules:
            points = _ordered(column).points
            signs[id] = tuple(Reading(step, v, rules[id].word(v)) for step, v in points)
    return signs
