"""Mistakes in numbers: rates, schedules, betas, decay, clipping, first weights, dropout."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.diagnosis.elsewhere.families import Family
from benchmarks.diagnosis.elsewhere.faults.fault import Faults
from benchmarks.diagnosis.elsewhere.parts import Loop, Parts, adamw, warm_and_fall

FAULTS = Faults()


@FAULTS.add("learning rate too high")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, lr=0.3))


@FAULTS.add("learning rate too low")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, lr=3e-6))


@FAULTS.add("rate of SGD under Adam")
def _(parts: Parts, family: Family) -> Parts:
    def scheduled(optimizer: torch.optim.Optimizer) -> Any:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: 1.0)

    return replace(parts, optimizer=partial(adamw, lr=0.1), scheduled=scheduled)


@FAULTS.add("rate of Adam under SGD")
def _(parts: Parts, family: Family) -> Parts:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=3e-3, momentum=0.9)

    return replace(parts, optimizer=optimizer)


@FAULTS.add("betas swapped")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, betas=(0.95, 0.9 - 0.6)))


@FAULTS.add("eps of Adam too large")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, eps=0.1))


@FAULTS.add("weight decay too large")
def _(parts: Parts, family: Family) -> Parts:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=30.0)

    return replace(parts, optimizer=optimizer)


@FAULTS.add("decay as L2 under Adam")
def _(parts: Parts, family: Family) -> Parts:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=0.1)

    return replace(parts, optimizer=optimizer)


@FAULTS.add("schedule never stepped")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, scheduled=_stuck)


def _stuck(optimizer: torch.optim.Optimizer) -> Any:
    # a warm-up of as many updates as there are tokens: the rate never leaves its foot
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: (update + 1) / 1e5)


@FAULTS.add("schedule ends in the first tenth")
def _(parts: Parts, family: Family) -> Parts:
    def scheduled(optimizer: torch.optim.Optimizer) -> Any:
        # the number of epochs in the place of that of updates
        return torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda update: max(0.0, 1 - update / 15)
        )

    return replace(parts, scheduled=scheduled)


@FAULTS.add("schedule stepped per micro-batch")
def _(parts: Parts, family: Family) -> Parts:
    def scheduled(optimizer: torch.optim.Optimizer) -> Any:
        def share(update: int) -> float:
            return warm_and_fall(8 * update) if 8 * update < 150 else 0.0

        return torch.optim.lr_scheduler.LambdaLR(optimizer, share)

    return replace(parts, scheduled=scheduled)


@FAULTS.add("gradients clipped to nothing")
def _(parts: Parts, family: Family) -> Parts:
    def clipped(loop: Loop) -> None:
        nn.utils.clip_grad_norm_(loop.model.parameters(), 1e-7)

    return replace(parts, clipped=clipped)


@FAULTS.add("first weights too large")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, tuned=partial(_drawn_again, std=1.0))


@FAULTS.add("first weights too small")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, tuned=partial(_drawn_again, std=1e-6))


def _drawn_again(model: nn.Module, std: float) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)


@FAULTS.add("dropout far too high", fits=lambda family: bool(family.dropouts))
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, config=parts.config | dict.fromkeys(family.dropouts, 0.7))
