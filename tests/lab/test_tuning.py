"""Every variant gets as many trials, on a seed that is not reported; a kill costs nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from pellucid.errors import ConfigError
from pellucid.lab import Experiment, Tuning, design
from pellucid.lab.outcome import outcome_of
from pellucid.lab.search_space import tuned_key, with_values
from pellucid.lab.tuning import TUNING_SEED, open_storage, tune_all
from pellucid.presets import PRESETS
from support.tiny import TINY

optuna: Any = pytest.importorskip("optuna")

SETTINGS = [*TINY, "text.held_out=0.2", "model.decoder.n_layers=1", "training.checkpoint_every=99"]


def tuned(place: Path, out: Path, **tuning: Any) -> Experiment:
    return design(
        [place / "slow.toml", place / "text.txt"],
        seeds=1,
        out=out,
        tuning=Tuning(**({"keys": ("learning_rate=1e-5..1",), "trials": 3} | tuning)),
        choices={"steps": 3, "settings": SETTINGS},
    )


def trials_of(url: str) -> list[Any]:
    storage = open_storage(optuna, url)
    (name,) = optuna.get_all_study_names(storage)
    return optuna.load_study(study_name=name, storage=storage).trials


def test_the_best_trial_wins_and_is_found_again(place: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    experiment = tuned(place, tmp_path)
    (variant,) = tune_all(experiment, lines.append).variants
    trials = trials_of(f"sqlite:///{tmp_path / 'tuning.db'}")
    assert len(lines) == len(trials) == 3
    assert trials[0].params == {"optimiser.learning_rate": 1e-5}  # the variant's own value
    complete = [trial for trial in trials if trial.value is not None]
    best = min(complete, key=lambda trial: trial.value)
    assert dict(variant.tuned) == best.params
    assert variant.run.optimiser.learning_rate == best.params["optimiser.learning_rate"]
    seeds = {path.name.rpartition("-")[2] for path in (tmp_path / "tuning").glob("trial-*")}
    assert seeds == {str(TUNING_SEED)}
    lines.clear()
    assert tune_all(experiment, lines.append).variants == (variant,)
    assert lines == []


def test_tuning_on_a_reported_seed_is_refused(place: Path, tmp_path: Path) -> None:
    experiment = replace(tuned(place, tmp_path), seeds=(TUNING_SEED,))
    with pytest.raises(ConfigError, match="is the one of tuning"):
        tune_all(experiment)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("weight_decay", 0.01, 1.0),
        ("optimiser.rest.learning_rate", 0.0015, 0.15),
        ("batch_size", 1, 16),
        ("model.decoder.dropout=0..0.5", 0, 0.5),
    ],
)
def test_a_key_is_found_by_its_end_and_has_a_range(text: str, low: float, high: float) -> None:
    key = tuned_key(PRESETS["nano"], text)
    assert (key.low, key.high) == pytest.approx((low, high))
    assert with_values(PRESETS["nano"], {key.path: key.start}) == PRESETS["nano"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no_such", "no number 'no_such'"),
        ("learning_rate=1..0", "is empty"),
        ("learning_rate=a..b", "expected a range"),
        ("warm_up=0.1..3", "give a range that the key allows"),
        ("schedule.final", "has no range around it"),
    ],
)
def test_a_key_that_cannot_be_tuned_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        tuned_key(PRESETS["nano"], text)


def test_a_storage_that_cannot_be_opened_is_refused(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [place / "slow.toml", place / "text.txt", "--tune", "learning_rate=1e-5..1"]
    words += ["--storage", "nodatabase://x", "--out", tmp_path]
    assert main(["compare", *map(str, words)]) == 2
    assert "cannot be opened" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_strangers_share_a_journal_and_one_of_them_is_killed(place: Path, tmp_path: Path) -> None:
    journal = tmp_path / "shared" / "journal.log"
    words = [place / "slow.toml", place / "text.txt", "--steps", 12, "--seeds", 1, "--trials", 6]
    words += ["--tune", "learning_rate=1e-5..1", "--storage", journal, "--json"]
    settings = [*SETTINGS, "training.checkpoint_every=1"]  # the last one counts
    words += [word for setting in settings for word in ("--set", setting)]

    def start(name: str) -> subprocess.Popen[bytes]:
        # another folder for each, as on machines that share the journal alone
        line = [sys.executable, "-m", "pellucid", "compare", *map(str, words)]
        return subprocess.Popen(
            [*line, "--out", str(tmp_path / name)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    victim, survivor = start("victim"), start("survivor")
    while not list(tmp_path.glob("victim/tuning/trial-*/checkpoints/step-*")):
        assert victim.poll() is None
        time.sleep(0.05)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    output, errors = survivor.communicate(timeout=300)
    assert survivor.returncode == 0, errors
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(journal))
    )
    (study,) = optuna.get_all_study_summaries(storage)
    trials = optuna.load_study(study_name=study.study_name, storage=storage).trials
    states = [trial.state.name for trial in trials]
    assert states.count("COMPLETE") + states.count("PRUNED") == 6
    assert states.count("RUNNING") == 1  # the one that was killed
    # the killed one comes back, and takes its open trial over
    (trained,) = [p for p in (tmp_path / "victim/tuning").glob("trial-*") if p.is_dir()][:1]
    assert not outcome_of(trained).is_over
    second_start = start("victim")
    assert json.loads(second_start.communicate(timeout=300)[0])["variants"][0]["tuned"]
    assert json.loads(output)["variants"][0]["tuned"]
