"""Runs with damaged folders, resumed: a refusal in words, or a run; nothing else."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path

import pytest

from pellucid import runs
from pellucid.checkpoints import FILES
from pellucid.errors import PellucidError
from pellucid.runs import RunFolder
from support.hostile import bounded_memory, damaged

MANIFEST = "checkpoint.json"
#: All that a resume reads; a checkpoint's files are damaged under checksums that fit them.
NAMES = (
    "config.toml", "plan.json", "tokenizer.json", "metrics.jsonl", "vitals.json", "text/text.json",
    "text/train.npy", "text/held_out.starts.npy", "checkpoints/latest", "checkpoints/best",
    "checkpoints/run-id", *(f"checkpoints/step-12/{name}" for name in FILES),
)  # fmt: skip


def damage(run: Path, name: str, seed: int) -> None:
    file = run / name
    before = file.read_bytes() if file.exists() else b'{"8": {"updates": 3}}'
    file.write_bytes(damaged(before, random.Random(f"{name} {seed}")))
    manifest = file.with_name(MANIFEST)
    if manifest.is_file() and file != manifest:
        table = json.loads(manifest.read_text())
        table["sha256"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
        manifest.write_text(json.dumps(table))


def attack(trained: Path, place: Path, seeds: range) -> None:
    lengths = [20]
    for name in NAMES:
        for seed in seeds:
            run = place / f"{seed}" / name.replace("/", "-")
            shutil.copytree(trained, run)
            damage(run, name, seed)
            try:
                with bounded_memory():
                    runs.resume(run, show=False, allow_drift=seed % 2 == 0)
            except PellucidError as error:
                lengths.append(len(str(error)))
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}") from error
            else:
                assert RunFolder(run).shelf.latest().name.startswith("step-")
            shutil.rmtree(run)
    assert 20 <= min(lengths) <= max(lengths) < 3000


def test_a_damaged_run_is_gone_on_with_or_refused_in_words(trained: Path, tmp_path: Path) -> None:
    attack(trained, tmp_path, range(1))


@pytest.mark.nightly
def test_a_damaged_run_is_gone_on_with_or_refused_in_words_at_length(
    trained: Path, tmp_path: Path
) -> None:
    attack(trained, tmp_path, range(1, 60))
