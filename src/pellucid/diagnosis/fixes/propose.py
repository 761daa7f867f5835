"""Prescriptions: what could be changed in a config against what was found, the best first.

Comes in: a finding, and the config of the run that it was found in. Goes out: `--set` assignments
that hold for that config, each with why and who says so. It does not know whether one helps: see
`prove`.

The words and the order are in `fixes.toml`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast

from pellucid import config
from pellucid.config import encode, run_from_table
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.fixes.model import OF_THE_MODEL
from pellucid.diagnosis.fixes.training import OF_TRAINING, RATES, SGD_RATE, Remedy
from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.presets import find
from pellucid.reader import parse_toml

Needs = Literal["replay", "restart"]

#: How far an update moves a matrix, of its own size, early in a healthy training (docs/vitals.md).
_HEALTHY_UPDATE = 0.03
#: Where weights ran away they have grown, and an update is less of what they are than of what they
#: were; a first update without warm-up is of weights as they were drawn.
_OF_GROWN, _OF_DRAWN = 0.01, 0.06
#: So many times the usual rate of SGD is beyond what a factor of its updates can tell.
_BEYOND = 10
#: What is tried first where no factor would be enough.
_USUAL = "rate_usual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prescription:
    """A change of a config that may help.

    `assignments` are `--set` texts that hold for that config. `needs`: a "replay" goes on from a
    checkpoint; a "restart" begins anew, because shapes, first weights or the beginning change.
    """

    does: str
    assignments: tuple[str, ...]
    why: str
    source: str
    needs: Needs


@dataclass(frozen=True, slots=True)
class _Book:
    remedies: Mapping[str, Mapping[str, Any]]
    codes: Mapping[str, tuple[str, ...]]


def prescriptions(finding: Finding, run: config.Run) -> list[Prescription]:
    """What could be changed in `run` against a finding, the best first; what changes nothing, not.

    Where a run goes on from the weights of another, its model stays as it is, but for dropout.
    """
    names = _nearest_rates(_book().codes.get(finding.code, ()), finding, run)
    fitting: list[Prescription] = []
    for name in names:
        with suppress(ConfigError):  # the rest of this config does not go with it
            candidate = prescription(name, run)
            fitting += [] if candidate is None else [candidate]
    return fitting


def remedies() -> tuple[str, ...]:
    """The names of all remedies."""
    return tuple(_book().remedies)


def prescribed() -> Mapping[str, tuple[str, ...]]:
    """The remedies of each code that a config can cure, the best first."""
    return _book().codes


def patched(run: config.Run, assignments: Iterable[str]) -> config.Run:
    """The run with `--set` assignments laid over it.

    Raises:
        ConfigError: one of them does not hold for this config.
    """
    return run_from_table(encode(run), find, assignments)


def _nearest_rates(names: Sequence[str], finding: Finding, run: config.Run) -> Sequence[str]:
    """The remedies with changes of the learning rate in the order of how well they would fit.

    The evidence may say how far an update moved a matrix; the step is as long as the rate says.
    """
    if _USUAL in names and _far_beyond(run.optimiser):
        return [_USUAL, *(name for name in names if name != _USUAL)]
    moved = [clue.value for clue in finding.evidence if clue.sign.startswith("update.ratio")]
    ratios = [value for value in moved if isinstance(value, float) and 0 < value < math.inf]
    if not ratios:
        return names
    factor = _target_update(finding, run) / ratios[0]
    rates = sorted(
        (name for name in names if name in RATES),
        key=lambda name: abs(math.log(RATES[name] / factor)),
    )
    if factor < min(RATES.values()) / 3 and _USUAL in names:
        rates.insert(0, _USUAL)
        names = [_USUAL, *(name for name in names if name != _USUAL)]
    in_order = iter(rates)
    return [next(in_order) if name in rates else name for name in names]


def _target_update(finding: Finding, run: config.Run) -> float:
    """How far an update should move a matrix, where the evidence was measured."""
    if finding.code != "OPT005":
        return _HEALTHY_UPDATE
    return _OF_GROWN if run.schedule.warm_up > 0 else _OF_DRAWN


def _far_beyond(optimiser: config.Optimiser) -> bool:
    """Whether a rate of SGD is so high that weights have nothing left to measure it by."""
    return isinstance(optimiser, config.SGD) and optimiser.learning_rate >= _BEYOND * SGD_RATE


def prescription(name: str, run: config.Run) -> Prescription | None:
    """What a remedy makes of a config; None where it changes nothing.

    Raises:
        ConfigError: the rest of this config does not go with it.
    """
    remedy: Remedy = {**OF_TRAINING, **OF_THE_MODEL}[name]
    changes = remedy(run)
    assignments = tuple(f"{path}={_written(value)}" for path, value in changes.items())
    patched_run = patched(run, assignments) if assignments else run
    if patched_run == run or (
        run.start is not None and not _same_model(run.model, patched_run.model)
    ):
        return None
    return Prescription(assignments=assignments, **_book().remedies[name])


def _same_model(first: config.Transformer, second: config.Transformer) -> bool:
    """Whether trained weights mean the same in both: all but dropout is equal."""
    return _dry(first) == _dry(second)


def _dry(part: Any) -> Any:
    """A config without its dropouts, as plain values."""
    if isinstance(part, tuple):
        return [_dry(member) for member in cast("tuple[Any, ...]", part)]
    if not hasattr(part, "__dataclass_fields__"):
        return part
    plain_fields = {
        f.name: _dry(getattr(part, f.name)) for f in fields(part) if f.name != "dropout"
    }
    return type(part).__name__, plain_fields


def _written(value: Any) -> str:
    """A value as TOML has it in one line; "none" takes it away."""
    if value is None:
        return '"none"'
    plain = encode(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, str):
        return json_text(plain)
    if isinstance(plain, list):
        return f"[{', '.join(_written(entry) for entry in cast('list[Any]', plain))}]"
    if isinstance(plain, dict):
        table = cast("dict[str, Any]", plain)
        return f"{{{', '.join(f'{key} = {_written(entry)}' for key, entry in table.items())}}}"
    return repr(plain)


@cache
def _book() -> _Book:
    text = (files("pellucid.diagnosis.fixes") / "fixes.toml").read_text("utf-8")
    read = cast("dict[str, dict[str, Any]]", parse_toml(text, "fixes.toml"))
    codes = {code: tuple(cast("list[str]", names)) for code, names in read["codes"].items()}
    return _Book(remedies=read["remedies"], codes=codes)
