"""What a checkpoint says of itself is checked key by key before anything is made of it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid import runs
from pellucid.checkpoints import Shelf, load_optimiser, read_progress, verify
from pellucid.checkpoints.files import MANIFEST, STATE
from pellucid.errors import CheckpointError, RunError

PROGRESS = {"step": 3, "tokens": 9, "best_loss": None, "best_saved_loss": 2.5}


def with_progress(**numbers: object) -> dict[str, Any]:
    return {"progress": {**PROGRESS, **numbers}}


def reseal(folder: Path, name: str, content: bytes) -> None:
    """Write a file of a checkpoint anew, and its checksum into the manifest."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["sha256"][name] = hashlib.sha256(content).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.fixture
def checkpoint(trained: Path, tmp_path: Path) -> Path:
    """The newest checkpoint of a copy of a finished run, after 12 updates."""
    shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("films"))
    return tmp_path / "run" / "checkpoints" / "step-12"


STATES: list[tuple[Any, str]] = [
    (with_progress(step=1e30), "progress.step: expected a whole number, was 1e+30"),
    (with_progress(step=10**30), "progress.step: expected a number of at most 64 bits"),
    (with_progress(step=-1), "step must be at least 0, was -1"),
    (with_progress(step="3"), "progress.step: expected a whole number, was '3'"),
    (with_progress(step=True), "progress.step: expected a whole number, was True"),
    (with_progress(tokens=-5), "tokens must be at least 0, was -5"),
    (with_progress(best_loss="low"), "progress.best_loss: expected a number, was 'low'"),
    (with_progress(more=1), "unknown key 'more'"),
    ({"progress": {"step": 3}}, "missing 'tokens'"),
    ({"progress": [3]}, "progress: expected a table, was [3]"),
    ({}, "progress: expected a table, was None"),
]


@pytest.mark.parametrize(("state", "problem"), STATES, ids=[problem for _, problem in STATES])
def test_a_state_that_cannot_be_is_refused_by_file_key_and_value(
    state: dict[str, Any], problem: str
) -> None:
    with pytest.raises(CheckpointError) as refusal:
        read_progress(state, Path("step-3") / STATE)
    assert problem in str(refusal.value)
    assert str(Path("step-3") / STATE) in str(refusal.value)


@pytest.mark.parametrize(
    "state", [{}, [], with_progress(step=1e30), with_progress(step=7)], ids=str
)
def test_a_run_does_not_resume_from_a_state_that_cannot_be(state: object, checkpoint: Path) -> None:
    reseal(checkpoint, STATE, json.dumps(state).encode())
    run = checkpoint.parents[1]
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(CheckpointError, match=STATE):
        runs.resume(checkpoint, show=False)
    assert (run / "metrics.jsonl").read_bytes() == before
    if state != with_progress(step=7):
        with pytest.raises(CheckpointError, match=STATE):
            load_optimiser(checkpoint)


@pytest.mark.parametrize(
    "generators",
    [[], {"python": 5}, {"python": [3, [1], None]}, {"numpy": ["x", [1], 0, 0, 0.0]}],
    ids=str,
)
def test_generators_that_cannot_be_restored_are_refused(
    generators: object, checkpoint: Path
) -> None:
    state = json.loads((checkpoint / STATE).read_text())
    reseal(checkpoint, STATE, json.dumps({**state, "generators": generators}).encode())
    with pytest.raises(CheckpointError, match="generators"):
        runs.resume(checkpoint, steps=13, show=False)


MANIFESTS: list[Callable[[dict[str, Any]], object]] = [
    lambda m: {**m, "sha256": [1, 2]},
    lambda m: {**m, "sha256": [["a"], {}]},
    lambda m: {**m, "sha256": dict.fromkeys(m["sha256"], 5)},
    lambda m: {**m, "sha256": {**m["sha256"], "../../../secret": "0"}},
    lambda m: {**m, "format": [[["x"] * 99] * 9] * 99},
    lambda m: [m],
]


@pytest.mark.parametrize("change", range(len(MANIFESTS)))
def test_a_manifest_that_cannot_be_is_refused_and_its_folder_is_not_ours(
    change: int, checkpoint: Path
) -> None:
    file = checkpoint / MANIFEST
    manifest = MANIFESTS[change](json.loads(file.read_text()))
    file.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=MANIFEST if change != 4 else "format") as refusal:
        verify(checkpoint)
    assert len(str(refusal.value)) < 600


def test_a_mark_that_is_no_text_names_no_checkpoint(checkpoint: Path) -> None:
    (checkpoint.parent / "latest").write_bytes(b"\xff\xfe\x00step-12")
    with pytest.raises(CheckpointError, match="not a checkpoint of this run"):
        Shelf(checkpoint.parent).latest()


@pytest.mark.parametrize("key", ["threads", "total_steps"])
def test_a_plan_with_a_number_below_its_range_is_refused(key: str, checkpoint: Path) -> None:
    run = checkpoint.parents[1]
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps({**plan, key: -5}))
    with pytest.raises(RunError, match=f"{key} must be at least 1, was -5"):
        runs.resume(run, show=False)
