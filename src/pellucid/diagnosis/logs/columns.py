"""The names of columns in the logs of common tools."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, cast

from pellucid.diagnosis.history.history import Points
from pellucid.reader import parse_toml

#: The kinds that make a loss, its held-out twin, the curves of updates, and what goes with them.
CURVES = ("loss", "held_out", "grad_norm", "rate", "loss_scale", "lowest_held_out")
_COUNTER = "steps"
_OF_A_RANGE = re.compile(r"__(min|max|step)$")
_OF_A_MONITOR = re.compile(r"^lr_[a-z0-9]+([/_](pg|group)\d+)?$")
#: One of several rewards, such as `rewards/format_reward` or `rewards/format_reward/mean`.
_PART = re.compile(r"^rewards/(?P<name>[\w@]+)(/mean)?$")
#: Kinds that only a training on preferences has, and those that only one on rewards has.
_PREFERENCES = {"margin", "chosen_reward", "rejected_reward", "chosen_logp", "rejected_logp"}
_REWARDS = {"reward", "reward_spread", "equal_groups", "advantage", "sequence_kl"}
#: Columns of objectives without targets, for which ln V means nothing.
_WITHOUT_TARGETS = re.compile(r"(^|/)(rewards?|kl|chosen|rejected)(/|_|$)")


@cache
def _usual_names() -> Mapping[str, Sequence[str]]:
    """The usual names of each kind of column, and of the counter of updates."""
    text = (files("pellucid.diagnosis.logs") / "columns.toml").read_text("utf-8")
    return cast("dict[str, list[str]]", parse_toml(text, "columns.toml"))


@cache
def _kinds() -> Mapping[str, tuple[str, int]]:
    """The kind of each usual name and its rank; a name of two kinds is of the first."""
    kinds: dict[str, tuple[str, int]] = {}
    for kind, names in _usual_names().items():
        if kind != _COUNTER:
            for rank, name in enumerate(names):
                kinds.setdefault(name, (kind, rank))
    return kinds


def names_of_measures() -> list[str]:
    """The usual names of columns of preferences and rewards."""
    return [name for name, (kind, _) in _kinds().items() if kind not in CURVES]


def plain(name: str) -> str:
    """A column's name in lower case, without the name of a run before it."""
    last = name.strip().rsplit(" - ", 1)[-1].strip().lower()
    return re.sub(r"[\s\-]+", "_", last).replace(".", "/")


def kind_of(name: str) -> tuple[str, int] | None:
    """The kind of a column and the rank of its name; None for any other column.

    The kinds are the tables of `columns.toml`; a part of the reward is its own kind.
    """
    plain_name = plain(name)
    if _OF_A_RANGE.search(plain_name):
        return None
    short_name = plain_name.removeprefix("train/")
    for known_name in (plain_name, short_name):
        if known_name in _kinds():
            return _kinds()[known_name]
    if _OF_A_MONITOR.match(plain_name):
        return "rate", len(_usual_names()["rate"])
    part = _PART.match(short_name)
    return None if part is None else (f"rewards/{part['name']}", 0)


def steps_of(names: Sequence[str]) -> str | None:
    """The column that counts updates, or else the one that counts epochs."""
    by_plain_name = {plain(name): name for name in reversed(names)}
    return next(
        (by_plain_name[name] for name in _usual_names()[_COUNTER] if name in by_plain_name), None
    )


def objective_of(names: Iterable[str]) -> Literal["preferences", "rewards"] | None:
    """The objective that the columns belong to; None for one with targets, or unknown."""
    columns = [plain(name) for name in names]
    kinds = {kind_and_rank[0] for name in columns if (kind_and_rank := kind_of(name))}
    if kinds & _PREFERENCES:
        return "preferences"
    is_without_targets = any(_WITHOUT_TARGETS.search(name) for name in columns)
    return "rewards" if kinds & _REWARDS or is_without_targets else None


def only_loss(names: Sequence[str]) -> str | None:
    """The only column with "loss" in its name, for logs without usual names."""
    excluded = ("scale", "aux", "balanc", "val", "eval", "test", "dev", "best", "z_loss", "kl_")
    loss_names = [
        n for n in names if "loss" in plain(n) and not any(o in plain(n) for o in excluded)
    ]
    loss_names = [name for name in loss_names if not _OF_A_RANGE.search(plain(name))]
    return loss_names[0] if len(loss_names) == 1 else None


def choose_columns(columns: Mapping[str, Sequence[tuple[float | None, float]]]) -> dict[str, str]:
    """For each kind the column with the most values; of equals, the one with the surest name."""
    best: dict[str, tuple[int, int, str]] = {}
    for name, column in columns.items():
        kind_and_rank = kind_of(name)
        if kind_and_rank is None or not column:
            continue
        kind, rank = kind_and_rank
        best[kind] = max(best.get(kind, (0, 0, "")), (len(column), -rank, name))
    names = {kind: name for kind, (_, _, name) in best.items()}
    loss_name = only_loss([name for name, column in columns.items() if column])
    if "loss" not in names and loss_name is not None:
        names["loss"] = loss_name
    return names


def measures_of(columns: Mapping[str, Points]) -> dict[str, Points]:
    """The columns of preferences and rewards by their kind, without NaN and infinity."""
    return {
        kind: tuple((step, value) for step, value in columns[name] if math.isfinite(value))
        for kind, name in choose_columns(columns).items()
        if kind not in CURVES
    }
