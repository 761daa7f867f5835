"""Weights that know a text already, for what starts from them; trained once and kept.

Comes in: a folder and a text. Goes out: nothing; `variants.pretrained` has them then.
"""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.diagnosis import variants
from benchmarks.diagnosis.rows import Corpus
from benchmarks.diagnosis.setups import TUNED, loop, setup
from benchmarks.diagnosis.training import new_training, train
from pellucid import config

_UPDATES = 300


class _NoWatch:
    """Watches nothing."""

    def step(self, loss: object) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


def ready(folder: Path, corpus: Corpus, updates: int = _UPDATES) -> None:
    """Have the weights, from `folder` or by training."""
    weights: dict[str, dict[str, torch.Tensor]] = {}
    for arch in TUNED:
        file = folder / f"pretrained-{arch}-{updates}.pt"
        if not file.exists():
            run = loop(setup(arch, 987), budget=config.Steps(count=updates))
            training = new_training(arch, run, corpus)
            train(training, _NoWatch())
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(training.model.state_dict(), file)
        weights[arch] = torch.load(file, weights_only=True)
    variants.PRETRAINED = weights
