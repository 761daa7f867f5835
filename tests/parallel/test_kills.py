"""SIGKILL to all ranks at random moments, also while they save: nothing is lost, no bit differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.checkpoints import load
from pellucid.runs import RunFolder, read_events
from pellucid.training import Logged
from support.rank_killer import KINDS

#: The kinds that are killed 50 times together; the others have a few kills each.
FOUR = {"whole": 13, "sharded": 13, "accumulated": 12, "adapters": 12}


def losses(run: RunFolder) -> dict[int, float]:
    """The loss of each update, as the run recorded it."""
    logged = [event for event in read_events(run.metrics) if isinstance(event, Logged)]
    return {
        event.step - len(event.losses) + 1 + place: loss
        for event in logged
        for place, loss in enumerate(event.losses)
    }


def kill(kind: str, kills: int, folder: Path, *, steps: int) -> dict[str, Any]:
    """Kill a run so often; its end has the bits of a run that was never stopped."""
    words = ["-m", "support.rank_killer", str(folder), kind, str(kills), str(steps)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PELLUCID_CACHE": "off"}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    facts: dict[str, Any] = json.loads(process.stdout)
    log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    assert facts["killed"] == kills
    assert set(map(tuple, facts["ends"])) == {(0, 0)}, log[-3000:]
    runs = [RunFolder(folder / name) for name in ("killed", "whole")]
    assert losses(runs[0]) == losses(runs[1])
    assert [*losses(runs[0])] == [*range(1, steps + 1)]
    killed_run, straight_run = (load(run.shelf.path(steps)) for run in runs)
    for own_tensors, straight_tensors in (
        (killed_run.model, straight_run.model),
        (killed_run.optimiser, straight_run.optimiser),
    ):
        assert own_tensors.keys() == straight_tensors.keys()
        assert all(
            torch.equal(tensor, straight_tensors[name]) for name, tensor in own_tensors.items()
        )
    return facts


def test_ranks_that_are_killed_continue_with_the_same_bits(tmp_path: Path) -> None:
    kill("adapters", 1, tmp_path, steps=4)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_are_killed_many_times_end_with_the_same_bits(kind: str, tmp_path: Path) -> None:
    kills = int(os.environ.get("PELLUCID_KILLS", FOUR.get(kind, 3)))
    facts = kill(kind, kills, tmp_path, steps=30)
    print(kind, facts)
    assert len(set(facts["at_steps"])) > 1
    assert facts["while_saving"] > 0
