"""Races and choices: the right things are compared, and the peer is tuned until it is best."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pellucid import config
from pellucid.data import next_token_batches
from pellucid.presets import find


def part(name: str) -> Any:
    return importlib.import_module(f"benchmarks.{name}")


def test_a_text_is_cut_where_nanogpt_cuts_it(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("é\r\nabcdefghijklmnopqrst", encoding="utf-8", newline="")
    first, second_part = part("quality.nanogpt").cut(text, tmp_path)
    content = text.read_text(encoding="utf-8")
    assert len(first.read_text(encoding="utf-8")) == int(len(content) * 0.9)
    assert (first.read_bytes() + second_part.read_bytes()).decode() == content


def test_minutes_are_what_start_up_leaves_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def call(words: list[str], *_: Any) -> tuple[float, str]:
        commands.append(words)
        return 30.0, json.dumps({"step": 7, "bits_per_byte": 2.0})

    quality_runs = part("quality.ours")
    monkeypatch.setattr(quality_runs, "call_pellucid", call)
    track = quality_runs.Track(tmp_path, tmp_path, tmp_path, threads=1)
    run_figures = track.run("nano", keep_to=30.0, start_up=12.0, seed=3)
    words = commands[0]
    assert float(words[words.index("--minutes") + 1]) == pytest.approx(0.3)
    assert words[words.index("--seed") + 1] == "3"
    assert (run_figures["updates"], run_figures["bits_per_byte"]) == (7, 2.0)
    commands.clear()
    assert "problem" in track.run("nano", keep_to=12.0, start_up=12.0, seed=3)
    assert commands == []


def test_start_up_is_what_minutes_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(words: list[str], *_: Any) -> tuple[float, str]:
        run = Path(words[words.index("--out") + 1])
        run.mkdir()
        lines = [{"event": "Sampled"}, {"event": "Finished", "step": 1, "seconds": 4.5}]
        (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        return 12.0, "{}"

    quality_runs = part("quality.ours")
    monkeypatch.setattr(quality_runs, "call_pellucid", call)
    track = quality_runs.Track(tmp_path, tmp_path, tmp_path, threads=1)
    assert track.start_up("nano")[0] == pytest.approx(7.5)


def test_the_table_sets_seconds_against_the_peers_and_says_where_none_are_left() -> None:
    run = {"seconds": 26.0, "bits_per_byte": 2.0, "updates": 9}
    race = {
        "peer": {"name": "peer", "seconds": 100.0, "losses": [3.0, 4.0]},
        "start_up_seconds": {"nano": 12.0},
        "runs": {"nano": {"0.1": [{"problem": "none left"}], "0.25": [run, run | {"seconds": 24}]}},
    }
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    race |= part("machine").header("benchmarks.quality", parser, parser.parse_args([]))
    page = part("quality.page").table(race)
    assert page.startswith("`python -m benchmarks.quality`, 20")
    assert "| peer | 100.0 | 1.00 | 3.5000 | 3.0000, 4.0000 | 2.4260 |  |" in page
    assert "| nano, to be kept: 0.1 of the time | start-up alone takes 12.0 |" in page
    assert "| 24.0 to 26.0 | 0.25 | 2.0000 | 2.0000, 2.0000 | 1.3863 | 9 |" in page


@pytest.mark.parametrize("best", [0.00025, 0.002, 0.032])
def test_the_peer_is_tuned_until_its_best_rate_has_neighbours(
    best: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_training(setup: dict[str, Any], _: int) -> dict[str, Any]:
        distance = abs(setup["learning_rate"] / best - 1)
        others = (setup["batch_size"] == 8) + (setup["weight_decay"] != 0.4)
        return {"bits_per_byte": 2 + distance + others * 0.01}

    tuning = part("quality.tuning")
    monkeypatch.setattr(tuning, "one_training", one_training)
    monkeypatch.setattr(tuning, "call_pellucid", lambda *_: (1.0, "{}"))
    tuning_result = tuning.tune("small", 1.0, [*tuning.RATES], tmp_path, 1)
    settings = (best, 16, 0.0, 0.4)
    assert tuning_result["choice"] == dict(zip(tuning.CHOSEN, settings, strict=True))
    rates = [run["learning_rate"] for run in tuning_result["runs"]]
    assert min(rates) < best < max(rates)
    tried = [tuple(run[key] for key in tuning.CHOSEN) for run in tuning_result["runs"]]
    assert len(set(tried)) == len(tried)
    assert {(best, 16, 0.1, 0.1), (best, 16, 0.0, 1.6)} <= {*tried}


def test_what_a_peer_was_tuned_to_is_the_newest_of_its_shape_and_nearest_length(
    tmp_path: Path,
) -> None:
    tuning = part("quality.tuning")
    with pytest.raises(SystemExit, match="--tune --preset small"):
        tuning.newest_choice(tmp_path, "small", 100)
    tunings = [
        ("a", "2026-01-01", "small", 100, 0.1),
        ("b", "2026-01-03", "small", 100, 0.2),
        ("c", "2026-01-02", "small", 100, 0.3),
        ("d", "2026-01-04", "small", 300, 0.4),
        ("e", "2026-01-04", "nano", 100, 0.5),
    ]
    for name, date, preset, seconds, rate in tunings:
        choice = {"learning_rate": rate, "batch_size": 8}
        content = {"date": date, "preset": preset, "seconds": seconds, "choice": choice}
        (tmp_path / f"quality-peer-{name}.json").write_text(json.dumps(content))
    for seconds, rate, name in ((100, 0.2, "b"), (60, 0.2, "b"), (600, 0.4, "d")):
        choice = tuning.newest_choice(tmp_path, "small", seconds)
        assert choice["learning_rate"] == rate
        assert choice["tuned_on"] == f"quality-peer-{name}.json"


@pytest.mark.parametrize("preset", ["nano", "micro", "small", "medium"])
def test_each_change_to_a_recipe_is_one_and_trains_on_as_many_tokens(preset: str) -> None:
    recipe_choices = part("recipe_choices")
    runs = {
        name: recipe_choices.run_for(preset, settings, 1, 10)
        for name, settings in recipe_choices.changes_of(find(preset)).items()
    }
    assert len({recipe_choices.config_key(run) for run in runs.values()}) == len(runs)
    budgets = {run.training.budget for run in runs.values()}
    base = runs["as it is"]
    tokens_of_update = base.training.batch_size * base.model.context_length
    assert budgets == {config.Tokens(count=10 * tokens_of_update)}
    assert base.model == find(preset).model


def test_a_change_is_compared_with_the_same_seed_alone() -> None:
    def cell(change: str, seed: int, bits: float, updates: int = 10) -> dict[str, Any]:
        return {
            "preset": "nano",
            "tokens": 100,
            "change": change,
            "seed": seed,
            "bits_per_byte": bits,
            "updates": updates,
            "processor_seconds_per_update": 1.0,
        }

    table = part("recipe_choices").table(
        [
            cell("as it is", 1, 2.0),
            cell("as it is", 2, 3.0),
            cell("other", 1, 2.5, updates=20),
            cell("other", 2, 3.1, updates=20),
            cell("other", 3, 9.0),
        ]
    )
    # t of one degree of freedom is 12.7, and the standard error 0.2
    assert "| other | +0.3000 | -2.2412 to +2.8412 | +0.5000, +0.1000 |" in table


class Bigrams(nn.Module):
    """Logits from the token before alone, called as a Hugging Face model is."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)
        nn.init.zeros_(self.table.weight)

    def forward(self, input_ids: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.table(input_ids))


def test_the_peers_loss_is_of_every_token_after_the_first() -> None:
    nats = part("quality.gpt2").total_nats(Bigrams(5), np.arange(100) % 5, 16)
    assert nats == pytest.approx(99 * math.log(5))


def test_the_peer_trains_for_its_seconds_and_learns() -> None:
    gpt2, tokens, model = part("quality.gpt2"), np.arange(400) % 5, Bigrams(5)
    order = next_token_batches(tokens, context_length=16, seed=1)
    began = time.perf_counter()
    assert gpt2.train(model, order, 0.5, 0.1, 4, 0.1) > 3
    assert time.perf_counter() - began >= 0.5
    assert gpt2.total_nats(model, tokens, 16) < 399 * math.log(5) / 2


def test_half_a_race_is_refused_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = importlib.import_module("benchmarks.quality.__main__")
    monkeypatch.setattr("sys.argv", ["quality", "--train", str(tmp_path)])
    with pytest.raises(SystemExit):
        command.main()
    assert "--train and --held-out belong together" in capsys.readouterr().err


def test_a_race_is_kept_under_its_date_with_the_names_of_its_texts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = importlib.import_module("benchmarks.quality.__main__")
    ran = {"peer": {"name": "GPT-2"}, "runs": {}}
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(command, "against_gpt2", lambda *_: ran)
    monkeypatch.setattr(command, "table", lambda results: results["peer"]["name"])
    texts = ["--train", str(tmp_path / "a.txt"), "--held-out", str(tmp_path / "b.txt")]
    monkeypatch.setattr("sys.argv", ["quality", *texts])
    command.main()
    (file,) = tmp_path.glob("quality-gpt2-a-*.json")
    results = json.loads(file.read_text(encoding="utf-8"))
    assert results["runs"] == {}
    assert results["command"].endswith("benchmarks.quality --train a.txt --held-out b.txt")
    assert capsys.readouterr().out.strip() == "GPT-2"
