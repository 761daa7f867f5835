"""Read a history from any tool's log: Hugging Face, TensorBoard, a table, lines of a console."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from pellucid.diagnosis.history.history import Facts, History, Points, Reading
from pellucid.diagnosis.logs.columns import (
    CURVES,
    choose_columns,
    kind_of,
    objective_of,
    plain,
    steps_of,
)
from pellucid.diagnosis.logs.curves import Log, of_curves
from pellucid.diagnosis.logs.epochs import through_epochs
from pellucid.diagnosis.logs.huggingface import (
    STATE,
    facts_of_state,
    is_state,
    newest_state,
    rows_of_state,
)
from pellucid.diagnosis.logs.lines import Row
from pellucid.diagnosis.logs.parsers import rows_in
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
#: Usual names of logs in a folder, the likeliest first.
_FILES = ("metrics.csv", "log.csv", "metrics.jsonl", "log.jsonl", "log.txt", "train.log")
#: One column: (step or None, value) in the order of the log, with NaN and infinity.
_Column = list[tuple[float | None, float]]


class _Columns(NamedTuple):
    """The columns of a log by name, the facts of its training, and its file."""

    columns: dict[str, _Column]
    facts: Facts
    file: Path


class _Series(NamedTuple):
    """One column in order of updates, and the updates from which the training was resumed."""

    points: Points
    resumed: tuple[int, ...] = ()


def is_log(path: str | Path) -> bool:
    """Whether a path may be a log: any file, or a folder with a log and without a run."""
    path = Path(path)
    if path.is_file():
        return True
    return path.is_dir() and not (path / "config.toml").is_file() and _find_log(path) is not None


def history_of_log(path: str | Path, *, vocab_size: int | None = None) -> History:
    """The history in any tool's log; its `findings` are the faults that the curves show.

    Raises:
        PellucidError: there is no log, it is empty or damaged, or no column has a known name.
    """
    path = Path(path)
    columns, facts, file = _read_columns(path)
    names = choose_columns(columns)
    if not names:
        raise PellucidError(f"{file}: {_describe_unknown(list(columns))}; {_EXPECTED}")
    series = {kind: _in_order(columns[name]) for kind, name in names.items()}
    points = {kind: curve.points for kind, curve in series.items()}
    rates = _finite(points.get("rate", ()))
    if vocab_size is not None:
        facts = replace(facts, vocab_size=vocab_size)
    facts = of_objective(facts, columns)
    if facts.learning_rate is None and rates:
        facts = replace(facts, learning_rate=max(value for _, value in rates))
    epochs = [column for name, column in columns.items() if plain(name) == "epoch"]
    log = Log(
        loss=points.get("loss", ()),
        held_out=points.get("held_out", ()),
        grad_norm=points.get("grad_norm", ()),
        rate=points.get("rate", ()),
        loss_scale=points.get("loss_scale", ()),
        lowest_held_out=points.get("lowest_held_out", ()),
        epochs=_in_order(epochs[0]).points if epochs else (),
        resumed=series["loss"].resumed if "loss" in series else (),
        facts=facts,
    )
    return History(
        name=str(path),
        losses=_finite(log.loss),
        held_out=_finite(log.held_out),
        grad_norms=_finite(log.grad_norm),
        rates=rates,
        signs=_read_signs(columns),
        facts=facts,
        findings=tuple(of_curves(log)),
        stopped=log.stopped,
        measures={kind: _finite(p) for kind, p in points.items() if kind not in CURVES},
    )


def of_objective(facts: Facts, names: Iterable[str]) -> Facts:
    """The facts, with the objective that the columns' names belong to.

    Preferences and rewards are trained from a model that can write already.
    """
    objective = objective_of(names)
    if facts.objective is not None or objective is None:
        return facts
    return replace(facts, objective=objective, pretrained=True)


# ---- reading


def _read_columns(path: Path) -> _Columns:
    if not path.exists():
        raise PellucidError(f"{path} does not exist; {_EXPECTED}")
    if path.is_dir():
        log_path = _find_log(path)
        if log_path is None:
            raise PellucidError(
                f"{path} holds neither a run (config.toml) nor a known log; {_EXPECTED}"
            )
        path = log_path
    if path.is_dir() or is_event_file(path):
        return _Columns(
            {
                tag: [(float(step), value) for step, value in points]
                for tag, points in _read_scalars(path).items()
            },
            Facts(),
            path,
        )
    return _read_file(path)


def _find_log(folder: Path) -> Path | None:
    """The log in a folder: a trainer's state, a folder of event files, a file of a usual name."""
    state = newest_state(folder)
    if state is not None:
        return state
    events = folders_within(folder)
    if events:
        return events[-1] if len(events) == 1 else folder
    usual_files = [folder / name for name in _FILES if (folder / name).is_file()]
    if usual_files:
        return usual_files[0]
    # Lightning's CSVLogger numbers its versions
    tables = sorted(folder.glob("**/metrics.csv"), key=lambda file: file.stat().st_mtime)
    return tables[-1] if tables else None


def _read_scalars(path: Path) -> Scalars:
    """The scalars of a file, or of the newest folder that has a known one."""
    if not path.is_dir():
        return scalars_of(path)
    last: Scalars = {}
    for folder in reversed(folders_within(path)):
        scalars = scalars_of(folder)
        if any(kind_of(tag) for tag in scalars):
            return scalars
        last = last or scalars
    return last


def _read_file(file: Path) -> _Columns:
    try:
        text = read_text(file, limit=LARGE)
    except PellucidError as error:
        raise PellucidError(f"{error}; {_EXPECTED}") from None
    if not text.strip():
        raise PellucidError(f"{file} is empty; {_EXPECTED}")
    state = _parse_state(file, text) if text.lstrip().startswith("{") else None
    if state is not None:
        facts = facts_of_state(file, state)
        return _Columns(_build_columns(rows_of_state(file, state)), facts, file)
    return _Columns(_build_columns(rows_in(text, file.name)), Facts(), file)


def _parse_state(file: Path, text: str) -> Mapping[str, Any] | None:
    try:
        state = parse_json(text, file.name, lenient=True)
    except PellucidError as error:
        if file.name == STATE:
            raise PellucidError(
                f"{file} is damaged ({error}): use the one of an earlier checkpoint"
            ) from None
        return None
    return cast("Mapping[str, Any]", state) if is_state(state) else None


def _build_columns(rows: Sequence[Row]) -> dict[str, _Column]:
    """The columns of rows, each value with the step of its row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    counter = steps_of(names)
    columns: dict[str, _Column] = {name: [] for name in names if name != counter}
    if counter is not None and plain(counter) == "epoch":
        columns[counter] = []
        counter = None  # fractions of an epoch count no updates
    rows = rows if counter is None else through_epochs(rows, counter)
    for row in rows:
        for name, value in row.items():
            if name != counter:
                columns[name].append((row.get(counter) if counter else None, value))
    return columns


def _describe_unknown(names: list[str]) -> str:
    if not names:
        return "it has no row of numbers"
    first_names = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"none of its columns has a known name ({first_names})"


# ---- order


def _in_order(column: _Column) -> _Series:
    """The column in order of updates; after a resumption, the repeated updates count."""
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


def _read_signs(columns: Mapping[str, _Column]) -> dict[str, tuple[Reading, ...]]:
    """The vital signs in a log, if it has any: `vitals/<group>/all/<stat>`."""
    rules = rules_of()
    signs: dict[str, tuple[Reading, ...]] = {}
    for name, column in columns.items():
        parts = name.split("/")
        if parts[0] != "vitals" or len(parts) != 4:
            continue
        id = f"{parts[1]}.{parts[3]}"
        if id in rules:
            points = _in_order(column).points
            signs[id] = tuple(Reading(step, v, rules[id].word(v)) for step, v in points)
    return signs
