"""How an optimiser moves one parameter: its rates, its moments and where they come from."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.catalogue import message
from pellucid.checkpoints import load_optimiser
from pellucid.explain.trace_types import Trace
from pellucid.optim import (
    assemble_schedule,
    group,
    penalties_of,
)
from pellucid.runs import Run
from pellucid.saved_runs.folder import RunFolder, is_published
from pellucid.saved_runs.load import read_plan
from pellucid.saved_runs.replans import read_replans

#: "other" is an optimiser whose step has no formula here: its weights are shown before and after.
Kind = Literal["AdamW", "Adam", "SGD", "Muon", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """How one parameter is moved: `step` is the number of this step, from 1.

    `origin` says where the numbers come from; `m` and `v` are None in the zero state. Muon
    and SGD have their momentum as `beta1`. `l2` times the weight is added to the gradient. The
    run's penalties on the parameter are `penalty_l1` and `penalty_l2`.
    """

    kind: Kind
    learning_rate: float
    step: int
    clip_norm: float | None
    origin: str
    beta1: float = 0.0
    beta2: float = 0.0
    eps: float = 0.0
    weight_decay: float = 0.0
    l2: float = 0.0
    penalty_l1: float = 0.0
    penalty_l2: float = 0.0
    m: Tensor | None = None
    v: Tensor | None = None

    @property
    def is_penalised(self) -> bool:
        """Whether a penalty's proximal step follows the optimiser's step."""
        return bool(self.penalty_l1 or self.penalty_l2)


@dataclass(slots=True)
class _Memory:
    """The optimiser's state in a run's checkpoint, the precision of Muon in its plan, its groups.

    `hidden` and `decaying` are names of parameters, `penalties` their strengths (l1, l2).
    """

    step: int
    factor: float
    orthogonal: config.Orthogonal
    tensors: Mapping[str, Tensor]
    hidden: frozenset[str]
    decaying: frozenset[str]
    penalties: Mapping[str, tuple[float, float]]


def parts_of(settings: StepSettings) -> tuple[str, ...]:
    """What a step has: by the kind of optimiser, and whether the run clips and has a penalty."""
    clipped = ("clipped_grad",) if settings.clip_norm is not None else ()
    last = ("before_penalty", "next") if settings.is_penalised else ("next",)
    match settings.kind:
        case "AdamW" | "Adam":
            return (*clipped, "m", "v", *last)
        case "Muon":
            return (*clipped, "m", "look_ahead", "direction", *last)
        case "SGD":
            return (*clipped, *(("m",) if settings.beta1 else ()), *last)
        case "other":
            return (*clipped, *last)
        case _:
            assert_never(settings.kind)


_memories: WeakKeyDictionary[nn.Module, _Memory] = WeakKeyDictionary()


def choose_settings(trace: Trace, name: str) -> StepSettings:
    """The settings of the next step of a parameter."""
    run = trace.run
    # no update of the run was made from averaged weights
    averaged = run is not None and run.config.training.ema_decay is not None
    if run is None or averaged or is_published(run.folder):
        return _first_step_settings()
    memory = read_memory(run)
    is_remembered = any(key.startswith(f"{name}::") for key in memory.tensors)
    decays = name in memory.decaying
    origin = (
        message("optimiser_settings.the-optimiser-state-comes-from", step=memory.step)
        if is_remembered
        else message("optimiser_settings.first-step-from-zero-state-2")
    )
    l1, l2 = memory.penalties.get(name, (0.0, 0.0))
    shared: dict[str, Any] = {
        "step": memory.step + 1 if is_remembered else 1,
        "clip_norm": run.config.training.clip_norm,
        "origin": origin,
        "penalty_l1": l1,
        "penalty_l2": l2,
    }
    optimiser = run.config.optimiser
    if isinstance(optimiser, config.Muon):
        if name in memory.hidden:
            return StepSettings(
                kind="Muon",
                learning_rate=optimiser.learning_rate * memory.factor,
                beta1=optimiser.momentum,
                weight_decay=optimiser.weight_decay,
                m=memory.tensors.get(f"{name}::momentum"),
                **shared,
            )
        optimiser = optimiser.rest
    rate = optimiser.learning_rate * memory.factor
    match optimiser:
        case config.SGD():
            return StepSettings(
                kind="SGD",
                learning_rate=rate,
                beta1=optimiser.momentum,
                l2=optimiser.l2 if decays else 0.0,
                m=memory.tensors.get(f"{name}::momentum_buffer"),
                **shared,
            )
        case config.AdamW():
            kind, decay = "AdamW", {"weight_decay": optimiser.weight_decay if decays else 0.0}
        case config.Adam():
            kind, decay = "Adam", {"l2": optimiser.l2 if decays else 0.0}
        case _:
            assert_never(optimiser)
    return StepSettings(
        kind=kind,
        learning_rate=rate,
        beta1=optimiser.betas[0],
        beta2=optimiser.betas[1],
        eps=optimiser.eps,
        m=memory.tensors.get(f"{name}::exp_avg"),
        v=memory.tensors.get(f"{name}::exp_avg_sq"),
        **decay,
        **shared,
    )


def _penalties_of(run: Run) -> dict[str, tuple[float, float]]:
    """The strengths of the run's penalties on each parameter, added up."""
    named = dict(run.model.named_parameters())
    names = {parameter: name for name, parameter in named.items()}
    strengths = ((penalty.l1, penalty.l2, penalty.parameters) for penalty in run.config.penalties)
    return {
        names[penalty.parameter]: (penalty.l1, penalty.l2)
        for penalty in penalties_of(strengths, named)
    }


def _first_step_settings() -> StepSettings:
    """The first step, with the numbers that torch's AdamW has by default."""
    default: dict[str, Any] = {
        name: parameter.default
        for name, parameter in inspect.signature(torch.optim.AdamW).parameters.items()
    }
    return StepSettings(
        kind="AdamW",
        learning_rate=default["lr"],
        beta1=default["betas"][0],
        beta2=default["betas"][1],
        eps=default["eps"],
        weight_decay=default["weight_decay"],
        step=1,
        clip_norm=None,
        origin=message("optimiser_settings.first-step-from-zero-state"),
    )


def read_memory(run: Run) -> _Memory:
    """The optimiser's memory at a run's checkpoint; read once for each model that is open."""
    if run.model not in _memories:
        folder = RunFolder(run.folder)
        plan = read_plan(folder)
        schedule = assemble_schedule(run.config.schedule, total=plan.total_steps)
        timetable = read_replans(folder)
        total = timetable.total(plan.total_steps)
        tensors, step = load_optimiser(run.checkpoint)
        # a run that has ended has no next rate: take the rate of its last update
        factor = schedule(timetable.moment(min(step, total - 1), plan.grows_over))
        groups = group(run.model.named_parameters())
        _memories[run.model] = _Memory(
            step=step,
            factor=factor,
            orthogonal=plan.orthogonal,
            tensors=tensors,
            hidden=frozenset(groups.hidden.parameters),
            decaying=frozenset(
                name for part in groups.every if part.decays for name in part.parameters
            ),
            penalties=_penalties_of(run),
        )
    return _memories[run.model]
