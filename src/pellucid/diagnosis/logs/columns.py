"""The names of columns in the logs of common tools."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, cast, get_args

from pellucid.reader import parse_toml

Kind = Literal["loss", "held_out", "grad_norm", "rate"]

#: Columns of objectives without targets, for which ln V means nothing.
_OF_PREFERENCES = re.compile(r"(^|/)(rewards?|kl|chosen|rejected)(/|_|$)")
_OF_A_RANGE = re.compile(r"__(min|max|step)$")
_OF_A_MONITOR = re.compile(r"^lr_[a-z0-9]+(/pg\d+)?$")


@cache
def _usual_names() -> Mapping[str, Sequence[str]]:
    """The usual names of each kind of column, and of the counter of updates."""
    text = (files("pellucid.diagnosis.logs") / "columns.toml").read_text("utf-8")
    return cast("dict[str, list[str]]", parse_toml(text, "columns.toml"))


def plain(name: str) -> str:
    """A column's name in lower case, without the name of a run before it."""
    last = name.strip().rsplit(" - ", 1)[-1].strip().lower()
    return re.sub(r"[\s\-]+", "_", last).replace(".", "/")


def kind_of(name: str) -> tuple[Kind, int] | None:
    """The kind of a column and the rank of its name; None for any other column."""
    plain_name = plain(name)
    if _OF_A_RANGE.search(plain_name):
        return None
    for kind in get_args(Kind):
        names = _usual_names()[kind]
        if plain_name in names:
            return kind, names.index(plain_name)
    if _OF_A_MONITOR.match(plain_name):
        return "rate", len(_usual_names()["rate"])
    return None


def steps_of(names: Sequence[str]) -> str | None:
    """The column that counts updates, or else the one that counts epochs."""
    by_plain_name = {plain(name): name for name in reversed(names)}
    return next(
        (by_plain_name[name] for name in _usual_names()["steps"] if name in by_plain_name), None
    )


def is_preference(names: Sequence[str]) -> bool:
    """Whether the columns show a training on preferences or rewards."""
    return any(_OF_PREFERENCES.search(plain(name)) for name in names)


def only_loss(names: Sequence[str]) -> str | None:
    """The only column with "loss" in its name, for logs without usual names."""
    excluded = ("scale", "aux", "balanc", "val", "eval", "test", "dev", "best", "z_loss")
    loss_names = [
        n for n in names if "loss" in plain(n) and not any(o in plain(n) for o in excluded)
    ]
    loss_names = [name for name in loss_names if not _OF_A_RANGE.search(plain(name))]
    return loss_names[0] if len(loss_names) == 1 else None
