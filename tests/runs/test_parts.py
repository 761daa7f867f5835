"""Parts of a user's own: refused if nothing has their name, or if they change the weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch import nn

from pellucid.cli import main
from pellucid.errors import ConfigError
from pellucid.model import Transformer, assemble
from pellucid.runs.parts import find_parts, inject_parts
from support.traced import TWINS


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing_here:inject", "No module named 'nothing_here'"),
        ("math:inject", "math has no 'inject'"),
        ("math:pi", "is no function"),
        ("math", "expected MODULE:FUNCTION"),
    ],
)
def test_parts_that_do_not_exist_are_refused(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match="--parts") as refusal:
        find_parts(name)
    assert words in str(refusal.value)


def test_parts_that_change_weights_are_refused_by_their_names() -> None:
    def inject(model: Transformer) -> None:
        model.stack.blocks[0].attention_norm = nn.Identity()

    with pytest.raises(
        ConfigError, match=r"changed the weights decoder\.blocks\.0\.attention_norm"
    ):
        inject_parts(assemble(TWINS["nano"], seed=0), inject)


def test_a_function_that_fails_is_refused_with_its_line() -> None:
    def inject(model: Transformer) -> None:
        raise ValueError("no such kernel")

    with pytest.raises(
        ConfigError, match=r"failed with ValueError: no such kernel \(in .*test_parts\.py, line"
    ):
        inject_parts(assemble(TWINS["nano"], seed=0), inject)


def test_a_resumed_run_takes_no_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", "run", "--parts", "math:pi"]) == 2
    assert "--parts" in capsys.readouterr().err
