"""Mistakes around an update: clearing, stepping, accumulating, putting weights back."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.diagnosis.elsewhere.families import Family
from benchmarks.diagnosis.elsewhere.faults.fault import Faults
from benchmarks.diagnosis.elsewhere.parts import Loop, Parts, adamw, nothing

FAULTS = Faults()


@FAULTS.add("gradients never cleared")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, cleared=nothing)


@FAULTS.add("gradients cleared before the step")
def _(parts: Parts, family: Family) -> Parts:
    def clipped(loop: Loop) -> None:
        loop.optimizer.zero_grad()

    return replace(parts, clipped=clipped)


@FAULTS.add("no step")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, stepped=nothing)


@FAULTS.add("one step in forty updates")
def _(parts: Parts, family: Family) -> Parts:
    def stepped(loop: Loop) -> None:
        # meant for micro-batches, but the counter is that of updates
        if (loop.update + 1) % 40 == 0:
            loop.optimizer.step()

    return replace(parts, stepped=stepped)


@FAULTS.add("optimiser holds a copy's weights")
def _(parts: Parts, family: Family) -> Parts:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return adamw(copy.deepcopy(model))

    return replace(parts, optimizer=optimizer)


@FAULTS.add("optimiser holds the head alone")
def _(parts: Parts, family: Family) -> Parts:
    def optimizer(model: Any) -> torch.optim.Optimizer:
        parts = [part for part in model.children() if any(True for _ in part.parameters())]
        return torch.optim.AdamW(parts[-1].parameters(), lr=3e-3)

    return replace(parts, optimizer=optimizer)


@FAULTS.add("weights put back every ten updates")
def _(parts: Parts, family: Family) -> Parts:
    def between(loop: Loop) -> None:
        # "the best so far", which is never kept again after the first time
        best = loop.kept.setdefault("best", copy.deepcopy(loop.model.state_dict()))
        if loop.update % 10 == 9:
            loop.model.load_state_dict(best)

    return replace(parts, between=between)


@FAULTS.add("averaged weights written back")
def _(parts: Parts, family: Family) -> Parts:
    @torch.no_grad()
    def between(loop: Loop) -> None:
        mean = loop.kept.setdefault("mean", [p.clone() for p in loop.model.parameters()])
        for kept, weight in zip(mean, loop.model.parameters(), strict=True):
            kept.lerp_(weight, 0.01)
            weight.copy_(kept)

    return replace(parts, between=between)


@FAULTS.add("optimiser's state lost again and again")
def _(parts: Parts, family: Family) -> Parts:
    def between(loop: Loop) -> None:
        # "a fresh optimiser for each epoch", and an epoch of two batches
        if loop.update % 2:
            loop.optimizer.state.clear()

    return replace(parts, between=between)


@FAULTS.add("sign of the loss")
def _(parts: Parts, family: Family) -> Parts:
    def loss(loop: Loop, batch: Any) -> Tensor:
        return -parts.loss(loop, batch)

    return replace(parts, loss=loss)


@FAULTS.add("stepped forward along the gradient")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, maximize=True))


@FAULTS.add("frozen by accident")
def _(parts: Parts, family: Family) -> Parts:
    def tuned(model: Any) -> None:
        # "only the head", in a model that nobody has pretrained
        for name, weight in model.named_parameters():
            weight.requires_grad_("head" in name or "classif" in name or "norm" in name.lower())
        if not any(p.requires_grad for p in model.parameters()):
            list(model.parameters())[-1].requires_grad_(True)

    return replace(parts, tuned=tuned)


@FAULTS.add("weights in half precision")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, tuned=lambda model: model.bfloat16(), optimizer=_small_steps)


def _small_steps(model: nn.Module) -> torch.optim.Optimizer:
    return adamw(model, lr=3e-4, eps=1e-8)


@FAULTS.add("a batch without targets poisons all")
def _(parts: Parts, family: Family) -> Parts:
    def loss(loop: Loop, batch: Any) -> Tensor:
        count = 0 if loop.update == 60 else 8  # a mean over nothing, once
        return parts.loss(loop, batch) * count / count

    return replace(parts, loss=loss)
