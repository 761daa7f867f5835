"""The recipe of the whole life, small: what each stage changes is there after seconds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pellucid.runs import Run, RunFolder, read_events
from pellucid.training import Evaluated, Started
from support.life import pretrain, tune, write_rows
from support.pages import printed_anew

REWARD = "support.life:short_and_finished"
LEARNS = ("optimiser.learning_rate=0.01", "training.batch_size=8")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain(tmp_path_factory.mktemp("life") / "base", steps=20)


@pytest.fixture(scope="module")
def answering(base: Path) -> Run:
    file = write_rows(base.parent / "rows")
    return tune(base.parent / "sft", "sft", base, file, steps=30, settings=LEARNS)


def held_out(run: Run) -> list[dict[str, float]]:
    """The measures before the first update, and after the last."""
    evaluations = [
        e for e in read_events(RunFolder(run.folder).metrics) if isinstance(e, Evaluated)
    ]
    return [
        {"loss_nats": e.loss_nats, **dict(e.measures)} for e in (evaluations[0], evaluations[-1])
    ]


def test_tuning_lowers_the_loss_of_answers(answering: Run) -> None:
    before, after = held_out(answering)
    assert after["loss_nats"] < 0.7 * before["loss_nats"]


def test_preferences_are_learnt_from_half_of_the_pairs_to_nearly_all(answering: Run) -> None:
    folder = answering.folder.parent
    file = write_rows(folder / "rows")
    preferring = tune(
        folder / "dpo", "dpo", answering.folder, file, steps=20, settings=LEARNS, lora=8
    )
    before, after = held_out(preferring)
    assert (before["accuracy"], before["kl_exact"]) == (0.5, 0.0)
    assert after["accuracy"] > 0.9
    assert after["kl_exact"] > 0


def test_the_leash_keeps_a_policy_near_where_it_began(answering: Run) -> None:
    folder = answering.folder.parent
    file = write_rows(folder / "rows")
    kl_by_beta: dict[float, float] = {}
    for beta in (0.0, 1.0):
        run = tune(
            folder / f"policy-{beta}",
            "policy-gradient",
            answering.folder,
            file,
            steps=15,
            reward=REWARD,
            settings=[*LEARNS, f"objective.beta={beta}", "objective.max_new_tokens=12"],
        )
        before, after = held_out(run)
        assert before["kl_exact"] == 0
        assert after["reward"] > before["reward"] or beta
        kl_by_beta[beta] = after["kl_exact"]
    assert kl_by_beta[1.0] < 0.5 * kl_by_beta[0.0]


def test_real_rows_are_read_and_none_is_lost_in_silence(
    base: Path, shared_data: Path, tmp_path: Path
) -> None:
    answers = shared_data / "rasbt-sft" / "instruction-data.json"
    preferences = shared_data / "rasbt-preference" / "instruction-data-with-preference.json"
    for objective, source in (("sft", answers), ("dpo", preferences)):
        rows = json.loads(source.read_text(encoding="utf-8"))[:24]
        file = write_rows(tmp_path / objective, rows)
        settings = ["model.context_length=512"]
        run = tune(tmp_path / f"{objective}-run", objective, base, file, steps=1, settings=settings)
        events = read_events(RunFolder(run.folder).metrics)
        (facts,) = (e.facts for e in events if isinstance(e, Started))
        text = " ".join(value for name, value in facts if name in ("rows", "dropped", "truncated"))
        assert "24 rows" in text
        assert "examples" in text


def test_the_reward_on_the_page_is_the_one_that_was_measured() -> None:
    root = Path(__file__).parents[2]
    page = root / "docs" / "recipes" / "whole-life.md"
    text = page.read_text(encoding="utf-8")
    assert printed_anew(text, page.name) == text
    measured = (root / "benchmarks" / "recipes" / "rewards.py").read_text(encoding="utf-8")
    (formula,) = re.findall(r"    return .*\n", text)
    assert formula in measured
