"""A sweep searches its space, continues, and says how sure the importance of a key is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.cli import main
from pellucid.lab.experiment import design_of_one
from pellucid.lab.sweep import LEAST_TRIALS, _importances
from support.tiny import TINY

optuna: Any = pytest.importorskip("optuna")

SETTINGS = [*TINY, "text.held_out=0.2", "training.checkpoint_every=99", "training.evaluate_every=9"]


def words(place: Path, space: str, out: Path, **flags: int) -> list[str]:
    file = out.parent / "space.toml"
    file.write_text(space)
    line = ["sweep", file, place / "slow.toml", place / "text.txt", "--out", out, "--json"]
    line += [word for name, value in flags.items() for word in (f"--{name}", value)]
    line += [word for setting in SETTINGS for word in ("--set", setting)]
    return [str(word) for word in line]


def test_trials_lie_in_the_space_and_are_run_once(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = 'learning_rate = "1e-3..1"\n[model.decoder]\nn_layers = [1, 2]\n'
    folder = tmp_path / "out"
    assert main(words(place, space, folder, trials=2, steps=2)) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["trials"]) + result["stopped"] == 2
    for trial in result["trials"]:
        assert trial["values"]["model.decoder.n_layers"] in (1, 2)
        assert 1e-3 <= trial["values"]["optimiser.learning_rate"] <= 1
    losses = [trial["loss"] for trial in result["trials"]]
    assert losses == sorted(losses)
    assert result["importances"] == []
    assert main(words(place, space, folder, trials=2, steps=2)) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert len([path for path in (folder / "tuning").glob("trial-*") if path.is_dir()]) == 2


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        ("", "names no key"),
        ("learning_rate = 3", "expected a range"),
        ("no_such = [1, 2]", "no_such: expected a key of the config"),
        ("n_layers = [1]", "two values or more"),
        ("n_layers = [1, 'x']", "n_layers"),
    ],
)
def test_a_space_without_meaning_is_refused(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], space: str, reason: str
) -> None:
    assert main(words(place, space, tmp_path / "out")) == 2
    assert reason in " ".join(capsys.readouterr().err.split())


def trials(n: int) -> list[Any]:
    """Trials whose value depends on one key alone, with some noise."""
    random = np.random.default_rng(5)
    unit = optuna.distributions.FloatDistribution(0, 1)
    return [
        optuna.trial.create_trial(
            params={"matters": x, "idle": y},
            distributions={"matters": unit, "idle": unit},
            value=(x - 0.3) ** 2 + 0.01 * noise,
        )
        for x, y, noise in random.random((n, 3)).tolist()
    ]


def test_the_key_that_matters_is_the_important_one_and_more_trials_are_surer() -> None:
    keys = ["idle", "matters"]
    widths: list[float] = []
    for n in (LEAST_TRIALS, 60):
        first, second = _importances(trials(n), keys)
        assert (first.key, second.key) == ("matters", "idle")
        assert first.share + second.share == pytest.approx(1)
        assert first.low <= first.share
        widths.append(first.high - first.low)
    assert widths[1] < widths[0]
    assert list(_importances(trials(LEAST_TRIALS - 1), keys)) == []


def test_a_preset_is_a_config_and_two_configs_are_refused(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert design_of_one(["nano"], "sweep", choices={}).variants[0].name == "nano"
    line = words(place, "learning_rate = [1, 2]", tmp_path / "out")
    assert main([*line, "nano"]) == 2
    assert "is about one config" in " ".join(capsys.readouterr().err.split())
