"""One step of the optimiser from a sentence's gradient: of one weight, or of a copy of the model.

    trace["decoder.blocks.2.attention.query.weight.next"][4, 3]   the weight after the step
    trace["after_update.loss"]                                    of the sentence, all weights moved

The model itself does not change.

For a run, the optimiser, its learning rate, decay, clipping and state come from the checkpoint: it
is the next step of the run with this sentence as the batch. For other models it is the first step
of AdamW from zero state, with torch's default settings.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints import load_optimiser
from pellucid.explain.backward_segments import texts_of, walk_backward
from pellucid.explain.trace_types import Progress, Trace
from pellucid.optim import (
    AdamW,
    Gate,
    assemble_optimiser,
    assemble_schedule,
    group,
    orthogonal_type,
    orthogonalise,
)
from pellucid.runs import Run
from pellucid.saved_runs.folder import RunFolder, is_published
from pellucid.saved_runs.load import read_plan

Kind = Literal["AdamW", "Muon", "other"]
#: What pellucid can show of a step, by the kind of optimiser.
_PARTS_BY_KIND: dict[Kind, tuple[str, ...]] = {
    "AdamW": ("m", "v", "next"),
    "Muon": ("m", "direction", "next"),
    "other": ("next",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """How one parameter is moved: `step` is the number of this step, from 1.

    `origin` says where the numbers come from; `m` and `v` are None in the zero state. Muon
    has its momentum as `beta1`. An optimiser of another kind has a learning rate only.
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
    m: Tensor | None = None
    v: Tensor | None = None


@dataclass(slots=True)
class _Memory:
    """The optimiser's state in a run's checkpoint, and the precision of Muon in its plan."""

    step: int
    factor: float
    orthogonal: Literal["float32", "bfloat16"]
    tensors: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])


_memories: WeakKeyDictionary[nn.Module, _Memory] = WeakKeyDictionary()


def read_update(trace: Trace, name: str, part: str) -> Tensor | None:
    """A parameter after one step, or a part of the step: `part` is next, m, v or direction.

    None if the model has no such parameter, or its optimiser keeps no such part.
    """
    if name not in dict(trace.model.named_parameters()):
        return None
    return step_parameter(trace, name, trace[f"{name}.grad"]).get(part)


def choose_settings(trace: Trace, name: str) -> StepSettings:
    """The settings of the next step of a parameter."""
    run = trace.run
    if run is None or is_published(run.folder):
        return _first_step_settings()
    memory = _memory(run)
    is_remembered = any(key.startswith(f"{name}::") for key in memory.tensors)
    groups = group(trace.model.named_parameters())
    decays = any(part.decays and name in part.parameters for part in groups.every)
    origin = (
        f"the optimiser's state comes from the run after {memory.step:,} updates, with its "
        "learning rate, decay and clipping"
        if is_remembered
        else "first step from zero state: the checkpoint remembers nothing of this weight"
    )
    shared: dict[str, Any] = {
        "step": memory.step + 1 if is_remembered else 1,
        "clip_norm": run.config.training.clip_norm,
        "origin": origin,
    }
    optimiser = run.config.optimiser
    if isinstance(optimiser, config.Muon):
        if name in groups.hidden.parameters:
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
    if not isinstance(optimiser, config.AdamW):
        return StepSettings(kind="other", learning_rate=rate, **shared)
    return StepSettings(
        kind="AdamW",
        learning_rate=rate,
        beta1=optimiser.betas[0],
        beta2=optimiser.betas[1],
        eps=optimiser.eps,
        weight_decay=optimiser.weight_decay if decays else 0.0,
        m=memory.tensors.get(f"{name}::exp_avg"),
        v=memory.tensors.get(f"{name}::exp_avg_sq"),
        **shared,
    )


def step_parameter(trace: Trace, name: str, gradient: Tensor) -> dict[str, Tensor]:
    """A parameter after a step of its own optimiser, and the optimiser's state after it.

    Source:
        Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2; Jordan et
        al. 2024, "Muon: An optimizer for hidden layers in neural networks".
    """
    step_settings, run = choose_settings(trace, name), trace.run
    parameter = nn.Parameter(dict(trace.model.named_parameters())[name].detach().clone())
    parameter.grad = gradient.clone()
    with torch.enable_grad():
        if run is None or is_published(run.folder):
            optimiser = AdamW([parameter])
            cast("Any", optimiser).step()
            state: dict[str, Tensor] = dict(optimiser.state[parameter])
        else:
            state = _as_the_run(run, name, parameter, divisor(trace, step_settings))
    parts = {"next": parameter.detach()}
    for key, part in (("exp_avg", "m"), ("momentum", "m"), ("exp_avg_sq", "v")):
        if key in state and part in _PARTS_BY_KIND[step_settings.kind]:
            parts[part] = state[key]
    if step_settings.kind == "Muon":
        parts["direction"] = _direction(
            trace, gradient / divisor(trace, step_settings), parts["m"], step_settings
        )
    return parts


def _as_the_run(run: Run, name: str, parameter: nn.Parameter, divided: float) -> dict[str, Tensor]:
    """One step of the run's own optimiser on one parameter; its state after it."""
    memory = _memory(run)
    named_parameters = [(name, parameter)]
    optimiser = assemble_optimiser(
        run.config.optimiser, named_parameters, orthogonal=memory.orthogonal
    )
    optimiser.load_state_tensors(
        {
            key: value.clone() if key.endswith("::step") else value.to(parameter, copy=True)
            for key, value in memory.tensors.items()
            if key.startswith(f"{name}::")
        }
    )
    zero = torch.zeros((), device=parameter.device)
    gate = Gate(norm=zero, divisor=zero + divided, blocked=zero)
    optimiser.step(gate, memory.factor)
    return {key.rpartition("::")[2]: tensor for key, tensor in optimiser.state_tensors().items()}


def _direction(trace: Trace, gradient: Tensor, m: Tensor, step_settings: StepSettings) -> Tensor:
    """The direction of Muon: the look-ahead, its singular values pushed towards one."""
    assert trace.run is not None
    optimiser = trace.run.config.optimiser
    assert isinstance(optimiser, config.Muon)
    look_ahead = (gradient + step_settings.beta1 * m)[None]
    dtype = orthogonal_type(_memory(trace.run).orthogonal, look_ahead.device)
    return orthogonalise(look_ahead, steps=optimiser.newton_schulz_steps, dtype=dtype)[0]


def divisor(trace: Trace, settings: StepSettings) -> float:
    """The divisor of every gradient: clipping by the norm of all of them."""
    return (
        1.0 if settings.clip_norm is None else max(1.0, trace.backward().norm / settings.clip_norm)
    )


def list_left_out(trace: Trace) -> list[str]:
    """The parts of the run's training that the loss of the sentence does not have, in words."""
    if trace.run is None or is_published(trace.run.folder):
        return []
    notes = [trace.sentence.loss_note] if trace.sentence.loss_note else []
    extra = ["penalties"] if trace.run.config.penalties else []
    stacks = trace.run.config.model.stacks
    extra += ["dropout"] if any(s.dropout or s.input_dropout for s in stacks) else []
    if extra:
        notes.append(f"left out of this step, and part of the run's training: {', '.join(extra)}")
    return notes


def after_update(trace: Trace, progress: Progress = lambda n_done, total: None) -> Trace:
    """The sentence again, in a copy of the model after one step of all weights."""
    trace.backward()
    parameter = copy.deepcopy(trace.model)
    weights = dict(parameter.named_parameters())

    def take(name: str, grad: Tensor) -> None:
        weights[name].data.copy_(step_parameter(trace, name, grad)["next"])

    with torch.no_grad():
        walk_backward(texts_of(trace), take, progress)
    return trace.with_model(parameter)


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
        origin="first step from zero state: this model came without an optimiser's memory; "
        "learning rate, betas, eps and decay are those that torch's AdamW has by default",
    )


def _memory(run: Run) -> _Memory:
    """The optimiser's memory at a run's checkpoint; read once for each model that is open."""
    if run.model not in _memories:
        folder = RunFolder(run.folder)
        plan = read_plan(folder)
        total = plan.total_steps
        schedule = assemble_schedule(run.config.schedule, total=total)
        tensors, step = load_optimiser(run.checkpoint)
        # a run that has ended has no next rate: take the rate of its last update
        factor = schedule(min(step, total - 1))
        _memories[run.model] = _Memory(step, factor, plan.orthogonal, tensors)
    return _memories[run.model]
