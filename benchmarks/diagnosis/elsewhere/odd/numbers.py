"""Healthy ways to train with odd numbers: rates, schedules, optimisers, dropout.

Comes in: pieces of a loop. Goes out: pieces of a loop, all of them right. It knows no fault.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.diagnosis.elsewhere.families import Family
from benchmarks.diagnosis.elsewhere.faults.fault import Faults
from benchmarks.diagnosis.elsewhere.parts import UPDATES, Loop, Parts, adamw, nothing

ODD = Faults(healthy=True)


def _shared(parts: Parts, share: Any) -> Parts:
    """The pieces with another schedule."""

    def scheduled(optimizer: torch.optim.Optimizer) -> Any:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, share)

    return replace(parts, scheduled=scheduled)


@ODD.add("a third of the rate")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, lr=1e-3))


@ODD.add("twice the rate")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, lr=6e-3))


@ODD.add("no warm-up")
def _(parts: Parts, family: Family) -> Parts:
    return _shared(parts, lambda update: max(0.1, 1 - update / UPDATES))


@ODD.add("constant rate")
def _(parts: Parts, family: Family) -> Parts:
    return _shared(parts, lambda update: 1.0)


@ODD.add("cosine with restarts")
def _(parts: Parts, family: Family) -> Parts:
    return _shared(parts, lambda update: 0.5 * (1 + math.cos(math.pi * (update % 50) / 50)))


@ODD.add("stable, then falling to 0")
def _(parts: Parts, family: Family) -> Parts:
    return _shared(parts, lambda update: min(1.0, (UPDATES - update) / 40))


@ODD.add("triangles of the rate")
def _(parts: Parts, family: Family) -> Parts:
    return _shared(parts, lambda update: 0.1 + 0.9 * abs(1 - (update % 60) / 30))


@ODD.add("no clipping")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, clipped=nothing)


@ODD.add("always clipped")
def _(parts: Parts, family: Family) -> Parts:
    def clipped(loop: Loop) -> None:
        nn.utils.clip_grad_norm_(loop.model.parameters(), 0.1)

    return replace(parts, clipped=clipped)


@ODD.add("long memory of Adam")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, betas=(0.9, 0.999)))


@ODD.add("plain Adam without decay")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=3e-3))


@ODD.add("decay of every weight")
def _(parts: Parts, family: Family) -> Parts:
    return replace(
        parts,
        optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01),
    )


@ODD.add("momentum at a rate of its own")
def _(parts: Parts, family: Family) -> Parts:
    return replace(
        parts,
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9),
    )


@ODD.add("RMSprop")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-3))


@ODD.add("Adafactor of torch")
def _(parts: Parts, family: Family) -> Parts:
    return replace(
        parts, optimizer=lambda model: torch.optim.Adafactor(model.parameters(), lr=0.03)
    )


@ODD.add("slower rate for the embedding")
def _(parts: Parts, family: Family) -> Parts:
    def optimizer(model: Any) -> torch.optim.Optimizer:
        table = model.get_input_embeddings().weight
        others = [p for p in model.parameters() if p is not table]
        groups = [{"params": [table], "lr": 3e-4}, {"params": others}]
        return torch.optim.AdamW(groups, lr=3e-3)

    return replace(parts, optimizer=optimizer)


@ODD.add("dropout of a fifth", fits=lambda family: bool(family.dropouts))
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, config=parts.config | dict.fromkeys(family.dropouts, 0.2))


@ODD.add("no dropout", fits=lambda family: bool(family.dropouts))
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, config=parts.config | dict.fromkeys(family.dropouts, 0.0))


@ODD.add("gradients centred")
def _(parts: Parts, family: Family) -> Parts:
    def clipped(loop: Loop) -> None:
        for weight in loop.model.parameters():
            if weight.grad is not None and weight.ndim > 1:
                weight.grad -= weight.grad.mean(1, keepdim=True)
        parts.clipped(loop)

    return replace(parts, clipped=clipped)
