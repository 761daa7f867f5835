"""Whatever computes in a loop calls bare formulas: the textbook alone goes through the door."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid import maths
from pellucid.generation import Sampling
from pellucid.maths.door import equation
from support.models import VARIANTS, build, random_ids
from support.objectives import CASES, gradients
from support.source import FILES, nodes
from support.tiny import train_tiny

#: Rooms that show the public equations to readers.
AT_THE_DOOR = {"textbook", "course", "web"}


def public_imports(file: Path) -> list[str]:
    """What a file imports from the door: `from pellucid.maths import ...`, or `maths` itself."""
    return [
        alias.name
        for node in nodes(file)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module == "pellucid.maths" and alias.name in maths.__all__)
        or (node.module == "pellucid" and alias.name == "maths")
    ]


def test_only_rooms_that_show_equations_import_them_from_the_door() -> None:
    imports_by_file = {
        name: names
        for name, file in FILES.items()
        if name.split("/")[0] not in AT_THE_DOOR and (names := public_imports(file))
    }
    assert imports_by_file == {}
    assert public_imports(FILES["textbook/examples.py"])


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door that admits no import."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("somebody went through the door")

    monkeypatch.setattr(equation, "read_arguments", refuse)


@pytest.mark.usefixtures("shut")
def test_a_door_that_is_shut_lets_nobody_in() -> None:
    with pytest.raises(AssertionError, match="through the door"):
        maths.softmax([1.0])


@pytest.mark.usefixtures("shut")
def test_no_model_is_built_or_computed_through_the_door() -> None:
    for variant in VARIANTS.values():
        build(variant)(random_ids(1, 16))


def test_no_objective_is_computed_through_the_door(request: pytest.FixtureRequest) -> None:
    batches = {name: case.batch() for name, case in CASES.items()}
    request.getfixturevalue("shut")
    for name, case in CASES.items():
        gradients(case, [batches[name]])


@pytest.mark.usefixtures("shut")
def test_no_run_is_trained_watched_or_sampled_through_the_door(tmp_path: Path) -> None:
    train_tiny(tmp_path / "run", steps=2, settings=["optimiser.learning_rate=0.01"])
    sampling = Sampling(max_new_tokens=3, top_k=3, top_p=0.9, min_p=0.1, repetition_penalty=1.2)
    assert pellucid.generate(pellucid.load(tmp_path / "run"), "the", sampling)
