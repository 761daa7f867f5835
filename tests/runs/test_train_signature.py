"""`pellucid.train` takes every keyword that it took in 0.1, and refuses any other."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import pellucid
from pellucid import config
from pellucid.runs.resolve_config import RunChoices, resolve_config

#: The parameters of `pellucid.train` in 0.1.
TRAIN_0_1 = frozenset(
    [
        "paths",
        "objective",
        "start",
        "teacher",
        "reward",
        "lora",
        "field",
        "columns",
        "preset",
        "config_file",
        "out",
        "steps",
        "tokens",
        "minutes",
        "epochs",
        "seed",
        "device",
        "settings",
        "observers",
        "watchers",
        "show",
        "interrupts",
        "force",
    ]
)


def test_train_takes_what_it_took_in_0_1_and_parts() -> None:
    parameters = inspect.signature(pellucid.train).parameters
    accepted = (parameters.keys() - {"choices"}) | RunChoices.__annotations__.keys()
    assert accepted == TRAIN_0_1 | {"parts"}
    assert parameters["paths"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


def test_a_choice_that_does_not_exist_is_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'stpes' is no choice of a run; the choices are: objec"):
        pellucid.train(["a.txt"], out=tmp_path / "run", stpes=3)  # pyright: ignore[reportCallIssue]
    assert not (tmp_path / "run").exists()


def test_a_choice_of_none_chooses_nothing() -> None:
    plain = resolve_config(["a.txt"])
    all_none = dict.fromkeys(RunChoices.__annotations__) | {"columns": (), "settings": ()}
    assert resolve_config(["a.txt"], **all_none) == plain  # pyright: ignore[reportArgumentType]
    resolved = resolve_config(["a.txt"], minutes=5, seed=7)
    assert resolved.training.budget == config.Minutes(count=5)
    assert resolved.seed == 7
