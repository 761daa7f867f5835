"""Masked tokens from a text to a run: learnt, judged by the same masks each time, resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pellucid import runs
from pellucid.checkpoints import load
from pellucid.runs import Run, RunFolder, read_events
from pellucid.training import Evaluated, Example, Logged
from support.labelled import TINY

TEXT = "the quick brown fox jumps over the lazy dog; the cat sat on the mat.\n" * 40
WHOLE = "objective.whole_words=true"


def train_masked(out: Path, *settings: str, steps: int = 8) -> Run:
    text = out.parent / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    return runs.train(
        [text], objective="mlm", out=out, steps=steps, settings=[*TINY, *settings], show=False
    )


def losses(run: Run) -> list[float]:
    events = read_events(RunFolder(run.folder).metrics)
    return [loss for e in events if isinstance(e, Logged) for loss in e.losses]


@pytest.mark.parametrize("settings", [(), (WHOLE,)], ids=["tokens", "whole words"])
def test_masked_tokens_resume_bit_for_bit(settings: tuple[str, ...], tmp_path: Path) -> None:
    run = train_masked(tmp_path / "run", *settings)
    folder = RunFolder(run.folder)
    before, lost = load(folder.shelf.latest()), losses(run)
    runs.resume(folder.path / "checkpoints" / "step-4", show=False)
    after = load(folder.shelf.latest())
    for state_name in ("model", "optimiser", "random"):
        left, right = getattr(before, state_name), getattr(after, state_name)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left), state_name
    assert losses(run) == lost


def test_held_out_masks_are_the_same_at_each_evaluation_and_for_each_seed(tmp_path: Path) -> None:
    token_counts: set[int] = set()
    for seed in (1, 2):
        run = train_masked(
            tmp_path / f"run-{seed}",
            f"seed={seed}",
            "training.evaluate_every=1",
            'optimiser={kind="SGD", learning_rate=1e-30, momentum=0.0, l2=0.0}',
            steps=2,
        )
        events = read_events(RunFolder(run.folder).metrics)
        judged = [e for e in events if isinstance(e, Evaluated)]
        assert len({(e.loss_nats, e.over) for e in judged}) == 1
        assert len(judged) == 3
        token_counts.add(judged[0].over)
    assert len(token_counts) == 1


def test_a_sentence_that_is_repeated_is_filled_in(tmp_path: Path) -> None:
    rate = 'optimiser={kind="AdamW", learning_rate=0.01, betas=[0.9, 0.99], eps=1e-8, '
    run = train_masked(tmp_path / "run", rate + "weight_decay=0.0}", WHOLE, steps=120)
    filling = runs.fill(run, "the quick brown <mask> jumps over the lazy dog; the cat", top=3)
    (mask,) = filling.masks  # it has taken the blank before it
    assert (
        filling.filled
        == f"the quick brown{mask.likeliest[0].token} jumps over the lazy dog; the cat"
    )
    judged = [e for e in read_events(RunFolder(run.folder).metrics) if isinstance(e, Evaluated)]
    assert judged[-1].loss_nats < 0.6 * judged[0].loss_nats
    (example,) = [e for e in read_events(RunFolder(run.folder).metrics) if isinstance(e, Example)]
    assert "<mask>" in {token for token, target, _ in example.rows if target is not None}
