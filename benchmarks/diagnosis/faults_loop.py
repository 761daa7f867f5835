"""Faults of the loop: wrong calls, at wrong times, or by the wrong optimiser.

Comes in: nothing. Goes out: a list of classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.diagnosis.fault import Fault
from benchmarks.diagnosis.setups import Arch, rate
from benchmarks.diagnosis.setups import loop as looped
from benchmarks.diagnosis.training import Loss, Training
from pellucid import config
from pellucid.model import assemble


def _not_cleared(t: Training, every: int) -> None:
    t.clears = lambda update: bool(every) and update % every == 0


def _no_step(t: Training, end: int) -> None:
    t.steps = lambda update: update < end


def _parameters_left_out(t: Training, level: str) -> None:
    parameters = [(name, p) for name, p in t.model.named_parameters() if p.requires_grad]
    trained_parameters = {
        "half": [p for _, p in parameters[::2]],
        "last": [p for name, p in parameters if ".blocks.2." not in name],
        "blocks": [p for name, p in parameters if ".blocks." not in name],
        "first": [p for name, p in parameters if ".blocks.0." not in name],
    }[level]
    _built_from(t, trained_parameters)


def _built_from(t: Training, weights: list[nn.Parameter]) -> None:
    adam: Any = t.run.optimiser
    t.optimisers = [torch.optim.AdamW(weights, lr=adam.learning_rate, betas=adam.betas)]
    for group in t.groups:
        group["initial_lr"] = group["lr"]


def _parameters_of_another_model(t: Training, seed: int) -> None:
    _built_from(t, list(assemble(t.run.model, seed=seed).parameters()))


def _stuck(t: Training, factor: float) -> None:
    t.schedule = lambda update: factor


def _resumed(t: Training, level: tuple[str, int]) -> None:
    lost_state, resumed_update = level

    def lose(t: Training) -> None:
        for optimiser in t.optimisers:
            optimiser.state.clear()
        if lost_state == "state and schedule":
            usual = t.schedule
            t.schedule = lambda update: usual(update - resumed_update)

    t.happens[resumed_update] = lose


def _parts_summed(run: config.Run, arch: Arch, parts: int) -> config.Run:
    return looped(run, accumulation=parts)


def _not_divided(t: Training, parts: int) -> None:
    """Each part's loss counts whole, in the gradient and in the reported loss."""
    usual: Loss = t.loss
    t.loss = lambda logits, labels: parts * usual(logits, labels)


def _every_rate(run: config.Run, arch: Arch, level: Any) -> config.Run:
    return rate(run, 2.0) if level[1] % 20 else run


FAULTS = [
    Fault(
        name="gradients not cleared",
        accepted=("OPT014", "GRD004"),
        kind="invariant",
        inject=_not_cleared,
        tuning=(0, 10),
        judging=(20, 6),
    ),
    Fault(
        name="no optimiser step",
        accepted=("OPT002", "OPT003", "OPT017", "FIT004"),
        kind="invariant",
        inject=_no_step,
        tuning=(0, 30),
        judging=(60, 0),
        onset=lambda level: level,
    ),
    Fault(
        name="weights not in the optimiser",
        accepted=("OPT001",),
        kind="invariant",
        inject=_parameters_left_out,
        tuning=("half", "last"),
        judging=("blocks", "first"),
        place="blocks|embedding|head",
    ),
    Fault(
        name="optimiser of another model",
        accepted=("OPT003",),
        kind="invariant",
        inject=_parameters_of_another_model,
        tuning=(1, 2),
        judging=(3, 4),
    ),
    Fault(
        name="schedule stuck",
        accepted=("OPT013", "OPT004", "OPT007"),
        inject=_stuck,
        tuning=(0.0, 0.003),
        judging=(0.001, 0.0),
    ),
    Fault(
        name="optimiser's memory lost",
        accepted=("OPT015",),
        kind="invariant",
        configure=_every_rate,
        inject=_resumed,
        tuning=(("state", 70), ("state and schedule", 60)),
        judging=(("state", 50), ("state and schedule", 90)),
        onset=lambda level: level[1],
    ),
    Fault(
        name="parts not divided",
        accepted=("LOS007", "LOS006"),
        kind="invariant",
        configure=_parts_summed,
        inject=_not_divided,
        tuning=(4, 2),
        judging=(8, 16),
    ),
]
