"""Fixes: changes of a config that may help against a finding, the best first.

`codes.toml` names the fixes of each cause, and `fixes.toml` describes them. `prove` tests whether a
fix helps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast

from pellucid import config
from pellucid.config import encode, run_from_table
from pellucid.diagnosis.finding import Finding, read_codes
from pellucid.diagnosis.fixes.model import MODEL_FIXES
from pellucid.diagnosis.fixes.training import RATES, SGD_RATE, TRAINING_FIXES
from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.presets import find
from pellucid.reader import parse_toml

#: How far an update moves a matrix early in a healthy training, relative to its size.
_HEALTHY_UPDATE = 0.03
#: Weights that ran away have grown, so an update is a smaller share of them than before; without
#: warm-up the first update is measured against the initial weights.
_GROWN_UPDATE, _FIRST_UPDATE = 0.01, 0.06
#: From this many times SGD's usual rate on, no factor of the measured update fits.
_EXTREME_RATE = 10
#: The fix to try first if no factor would be enough.
_USUAL = "rate_usual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A change of a config that may help.

    Args:
        change: the change, in words.
        assignments: the `--set` texts that make it in this config.
        reason: why it may help.
        source: the publication, or our own measurement.
        start: a "replay" continues from a checkpoint; a "restart" starts a new run, because shapes,
            first weights or the beginning of the schedule change.
        code: for a loop of your own: the change as you would write it.
    """

    change: str
    assignments: tuple[str, ...]
    reason: str
    source: str
    start: Literal["replay", "restart"]
    code: str = ""


def propose_fixes(finding: Finding, run: config.Run) -> list[Fix]:
    """The fixes for a finding that change this config, the best first.

    If the run started from the weights of another, its model stays as it is, except for dropout.
    """
    fixes: list[Fix] = []
    for name in _nearest_rates(read_codes()[finding.code].fixes, finding, run):
        with suppress(ConfigError):  # other values of this config exclude it
            fix = build_fix(name, run)
            fixes += [] if fix is None else [fix]
    return fixes


def apply_assignments(run: config.Run, assignments: Iterable[str]) -> config.Run:
    """The run with `--set` assignments applied.

    Raises:
        ConfigError: an assignment is not valid for this config.
    """
    return run_from_table(encode(run), find, assignments)


def _nearest_rates(names: Sequence[str], finding: Finding, run: config.Run) -> Sequence[str]:
    """The fixes, with changes of the learning rate ordered by how well they fit the evidence.

    The evidence may say how far an update moved a matrix, which is proportional to the rate.
    """
    optimiser, usual_first = run.optimiser, [_USUAL, *(name for name in names if name != _USUAL)]
    # SGD's rate may be so high that the weights no longer show by how much
    is_extreme = isinstance(optimiser, config.SGD) and (
        optimiser.learning_rate >= _EXTREME_RATE * SGD_RATE
    )
    if _USUAL in names and is_extreme:
        return usual_first
    ratios = [clue.value for clue in finding.evidence if clue.sign.startswith("update.ratio")]
    ratios = [value for value in ratios if isinstance(value, float) and 0 < value < math.inf]
    if not ratios:
        return names
    factor = _target_update(finding, run) / ratios[0]
    rates = sorted(
        (name for name in names if name in RATES),
        key=lambda name: abs(math.log(RATES[name] / factor)),
    )
    if factor < min(RATES.values()) / 3 and _USUAL in names:
        rates.insert(0, _USUAL)
        names = usual_first
    in_order = iter(rates)
    return [next(in_order) if name in rates else name for name in names]


def _target_update(finding: Finding, run: config.Run) -> float:
    """How far an update should move a matrix at the time of the evidence."""
    if finding.code != "OPT005":
        return _HEALTHY_UPDATE
    return _GROWN_UPDATE if run.schedule.warm_up > 0 else _FIRST_UPDATE


def build_fix(name: str, run: config.Run) -> Fix | None:
    """The fix of this name for a config; None if it changes nothing there, but only loops.

    Raises:
        ConfigError: other values of this config exclude it.
    """
    config_fixes = {**TRAINING_FIXES, **MODEL_FIXES}
    if name not in config_fixes:
        return None
    changes = config_fixes[name](run)
    assignments = tuple(f"{path}={_toml_value(value)}" for path, value in changes.items())
    changed_run = apply_assignments(run, assignments) if assignments else run
    model, changed_model = (_without_dropout(encode(r.model)) for r in (run, changed_run))
    # trained weights fit both models if only the dropout differs
    if changed_run == run or (run.start is not None and model != changed_model):
        return None
    return Fix(assignments=assignments, **read_fixes()[name])


def _without_dropout(plain: Any) -> Any:
    """A config as plain values, without its dropout rates."""
    if isinstance(plain, list):
        return [_without_dropout(entry) for entry in cast("list[Any]", plain)]
    if not isinstance(plain, dict):
        return plain
    table = cast("dict[str, Any]", plain)
    rates = ("dropout", "embedding_dropout")
    return {key: _without_dropout(value) for key, value in table.items() if key not in rates}


def _toml_value(value: Any) -> str:
    """A value as TOML in one line; "none" removes it."""
    if value is None:
        return '"none"'
    plain = encode(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, str):
        return json_text(plain)
    if isinstance(plain, list):
        return f"[{', '.join(_toml_value(entry) for entry in cast('list[Any]', plain))}]"
    if isinstance(plain, dict):
        table = cast("dict[str, Any]", plain)
        return f"{{{', '.join(f'{key} = {_toml_value(entry)}' for key, entry in table.items())}}}"
    return repr(plain)


@cache
def read_fixes() -> Mapping[str, Mapping[str, Any]]:
    """The record of every fix in `fixes.toml`, by its name."""
    text = (files("pellucid.diagnosis.fixes") / "fixes.toml").read_text("utf-8")
    return cast("dict[str, dict[str, Any]]", parse_toml(text, "fixes.toml"))
