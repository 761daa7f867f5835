"""SIGKILL to all ranks at random moments, also while they save: nothing is lost, no bit differs."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from pellucid.checkpoints import load
from pellucid.runs import RunFolder
from support.ranks import finish, start_ranks
from support.tiny import ADAMW, SHARING, TINY, write_text

STEPS = 12
#: Settings of each kind of run; the last one saves shares.
KINDS = {
    "whole": (),
    "sharded": ("parallel.shard=full", *ADAMW),
    "products": ("parallel.tensor=2", "model.decoder.attention.n_kv_heads=2", *ADAMW),
    "shares": ("parallel.shard=full", *ADAMW),
}


def words_of(folder: Path, kind: str, out: str) -> list[str]:
    """One command that starts the run or goes on with it."""
    program = ["-c", SHARING] if kind == "shares" else ["-m", "pellucid"]
    settings = (*TINY, *KINDS[kind], "training.checkpoint_every=1")
    flags = [word for setting in settings for word in ("--set", setting)]
    words = [*program, "train", str(write_text(folder)), "--no-vitals", "--steps", str(STEPS)]
    return [*words, *flags, "--out", out, "--resume-or-start"]


def kill_once(words: list[str], folder: Path, run: RunFolder, moment: random.Random) -> None:
    """Start the run, and kill all ranks at a random moment after its first new checkpoint."""
    before = run.shelf.steps()
    ranks = start_ranks(2, words, folder)
    end = time.monotonic() + 170
    while run.shelf.steps() == before and ranks[0].poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(moment.uniform(0, 0.3))
    for rank in ranks:
        os.kill(rank.pid, signal.SIGKILL)
    finish(ranks)
    load(run.shelf.path(max(run.shelf.steps())))  # the newest one is whole


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_killed_ranks_end_with_the_bits_of_a_run_that_never_stopped(
    kind: str, tmp_path: Path
) -> None:
    kills = int(os.environ.get("PELLUCID_KILLS", "13"))  # 52 over the four kinds
    ends = finish(start_ranks(2, words_of(tmp_path, kind, "whole"), tmp_path))
    assert [code for code, _, _ in ends] == [0, 0], ends
    words, run = words_of(tmp_path, kind, "killed"), RunFolder(tmp_path / "killed")
    moment, killed = random.Random(kind), 0
    while killed < kills:
        if run.path.exists() and STEPS in run.shelf.steps():  # it got to its end: from the start
            run.path.rename(tmp_path / f"ended-{killed}")
        kill_once(words, tmp_path, run, moment)
        killed += 1
    ends = finish(start_ranks(2, words, tmp_path))
    assert [code for code, _, _ in ends] == [0, 0], ends
    runs = [RunFolder(tmp_path / name) for name in ("killed", "whole")]
    ours, theirs = (load(run.shelf.path(STEPS)) for run in runs)
    for mine, other in ((ours.model, theirs.model), (ours.optimiser, theirs.optimiser)):
        assert mine.keys() == other.keys()
        assert all(torch.equal(tensor, other[name]) for name, tensor in mine.items())
