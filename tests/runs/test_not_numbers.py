"""Weights and logits that are not numbers are refused with exit code 3; nothing is made of them."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import runs
from pellucid.checkpoints import first_non_finite, load, save
from pellucid.cli.main import main
from pellucid.errors import NonFiniteError
from pellucid.runs import RunFolder
from support.published import retensor, write


def with_weights(source: Path, target: Path, change: dict[str, float], scale: float = 1.0) -> Path:
    """A copy of a run whose latest checkpoint has other weights, and is whole."""
    shutil.copytree(source, target)
    path = RunFolder(target).shelf.latest()
    checkpoint = load(path)
    model = {name: tensor * scale for name, tensor in checkpoint.model.items()}
    for name, value in change.items():
        model[name].view(-1)[1] = value
    shutil.rmtree(path)
    save(path, type(checkpoint)(model, checkpoint.optimiser, checkpoint.random, checkpoint.state))
    return target


@pytest.fixture(scope="module")
def name(trained: Path) -> str:
    """A matrix in the middle of the model."""
    return [n for n, t in runs.load(trained).model.state_dict().items() if t.ndim == 2][2]


@pytest.fixture(
    scope="module",
    params=[math.nan, *(pytest.param(x, marks=pytest.mark.nightly) for x in (math.inf, -math.inf))],
)
def broken(
    request: pytest.FixtureRequest,
    trained: Path,
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("broken") / "run"
    return with_weights(trained, folder, {name: request.param})


VERBS = (
    ["generate", "RUN", "the"],
    ["score", "RUN", "the fox"],
    ["explain", "RUN", "the fox"],
    ["evaluate", "RUN", "TEXT"],
    ["embed", "RUN", "the fox"],
    ["export", "RUN", "OUT"],
    ["train", "TEXT", "--from", "RUN", "--out", "OUT"],
)


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_every_verb_that_computes_refuses_and_names_the_tensor(
    words: list[str],
    broken: Path,
    name: str,
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {
        "RUN": str(broken),
        "TEXT": str(next(trained.parent.rglob("text.txt"))),
        "OUT": str(tmp_path / "out"),
    }
    assert main([places.get(word, word) for word in words]) == 3
    err = capsys.readouterr().err
    assert f"the weights {name} hold" in " ".join(err.split())
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_check_still_looks_at_such_a_run(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(broken), "--json"]) == 0
    printed = capsys.readouterr().out
    json.loads(printed, parse_constant=pytest.fail)
    assert json.loads(printed)["findings"]


def test_a_published_model_is_refused_where_it_lies_and_when_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        next(t for t in tensors.values() if t.ndim == 2).view(-1)[0] = math.nan

    published = tmp_path / "published"
    write(published)
    retensor(published, spoil)
    assert main(["generate", str(published), "the"]) == 3
    assert main(["import", str(published), str(tmp_path / "run")]) == 3
    assert "hold nan" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_logits_that_overflow_are_refused_and_nothing_is_drawn(
    trained: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    huge = str(with_weights(trained, tmp_path / "run", {}, scale=1e30))
    for words in (["generate", huge, "the"], ["score", huge, "the fox"], ["embed", huge, "fox"]):
        assert main([*words, "--json"]) == 3
        printed, errors = capsys.readouterr()
        assert "are not finite" in " ".join(errors.split())
        json.loads(printed, parse_constant=pytest.fail)
    with pytest.raises(NonFiniteError):
        runs.beam_search(pellucid.load(huge), "the")


def test_the_first_tensor_that_is_not_finite_is_named() -> None:
    weights = {"huge but finite": torch.full((100,), 3e38), "none": torch.empty(0)}
    weights |= {"counts": torch.ones(3, dtype=torch.int64), "half": torch.ones(3).bfloat16()}
    assert first_non_finite(weights) is None
    weights["half"][1] = math.nan
    assert first_non_finite(weights) == "half"
