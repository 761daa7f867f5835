"""Signs as logs: a JSONL file, TensorBoard, Weights & Biases, or any function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.training import Guard
from pellucid.vitals.signs import EQUATIONS, WORDS, Sign, rows

#: Takes the numbers of an update by name, and the update.
Log = Callable[[dict[str, float], int], None]


def to_scalars(signs: Iterable[Sign]) -> dict[str, float]:
    """The signs as named scalars: each value, and the word of each row as 0, 1 or 2."""
    signs = list(signs)
    scalars: dict[str, float] = {}
    for sign in signs:
        group, stat = sign.id.split(".", 1)
        scalars[f"vitals/{group}/all/{stat}"] = sign.value
    for row in rows(signs):
        if row.word is not None:
            name = EQUATIONS[row.equation][0].replace("-", "_")
            scalars[f"vitals/words/all/{name}"] = float(WORDS.index(row.word))
    return scalars


def send_signs(
    guard: Guard,
    step: int,
    signs: Sequence[Sign],
    listeners: Sequence[Callable[[int, Sequence[Sign]], None]],
    logs: Sequence[Log],
) -> None:
    """Pass signs to all listeners and logs; one that raises is switched off."""
    for place, listener in enumerate(tuple(listeners), start=1):
        name = getattr(listener, "__qualname__", type(listener).__name__)
        guard(f"listener {place} ({name})", listener, step, signs)
    for log in logs:
        guard("log=", _write, log, step, signs)


def _write(log: Log, step: int, signs: Sequence[Sign]) -> None:
    log(to_scalars(signs), step)


def log_to(target: object) -> Log:
    """A function that writes scalars to `target`.

    Raises:
        ConfigError: `target` is not a path, a SummaryWriter, a wandb run or a function.
    """
    if isinstance(target, str | Path):
        return partial(_write_line, Path(target))
    for name, write in _WRITERS.items():
        if callable(getattr(target, name, None)):
            return partial(write, target)
    if callable(target):
        return cast("Log", target)
    raise ConfigError(
        f"signs cannot be logged to {target!r}: pass a path of a .jsonl file, a SummaryWriter, a "
        "wandb run, or a function of a dict and a step"
    )


def _write_line(file: Path, values: dict[str, float], step: int) -> None:
    plain = {key: value if math.isfinite(value) else str(value) for key, value in values.items()}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json_text({"step": step, **plain}) + "\n")


def _write_scalars(writer: Any, values: dict[str, float], step: int) -> None:
    for key, value in values.items():
        writer.add_scalar(key, value, step)


#: By the method that a target has. A wandb run gets a step of its own, so that the training's own
#: count in wandb does not advance.
_WRITERS: dict[str, Callable[[Any, dict[str, float], int], None]] = {
    "add_scalar": _write_scalars,
    "log": lambda run, values, step: run.log({**values, "vitals/step": step}),
    "log_metrics": lambda tracker, values, step: tracker.log_metrics(values, step),
}
