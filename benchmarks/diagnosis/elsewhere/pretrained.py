"""Models that have learnt some text before they are tuned on answers; each is trained once.

Comes in: a family, texts, a folder. Goes out: a model's weights, kept in the folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors.torch import load_model, save_model
from torch import nn

from benchmarks.diagnosis.elsewhere.families import Family, build
from benchmarks.diagnosis.elsewhere.parts import adamw, padded
from benchmarks.diagnosis.elsewhere.texts import PAD, Texts

_UPDATES, _ROWS = 250, 12
#: What begins with a model that has learnt something.
TASKS = ("sft", "dpo", "grpo")


def start(model: nn.Module, family: Family, read: Texts, folder: Path) -> None:
    """Give the model the weights of its family."""
    file = folder / f"{family.name}.safetensors"
    if not file.is_file():
        made = _trained(family, read)
        folder.mkdir(parents=True, exist_ok=True)
        written = file.with_suffix(f".{os.getpid()}")
        save_model(made, str(written))
        written.replace(file)
    load_model(model, str(file))


def _trained(family: Family, read: Texts) -> nn.Module:
    """A model that has read half as much text as answers."""
    answered = [row["prompt"] + row["chosen"] for row in read.rows("dpo").train]
    rows = [row["ids"] for row in read.rows("lm").train][: len(answered) // 2] + answered
    model = build(family, "lm", 1)
    optimizer = adamw(model)
    draws = torch.Generator().manual_seed(1)
    model.train()
    for _ in range(_UPDATES):
        ids = padded([rows[i] for i in torch.randint(len(rows), (_ROWS,), generator=draws)])
        model(input_ids=ids, labels=ids.masked_fill(ids == PAD, -100)).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model
