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
import re
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.catalogue import message
from pellucid.explain.optimiser_settings import StepSettings, choose_settings, parts_of, read_memory
from pellucid.explain.trace_types import LastResults, Progress, Trace
from pellucid.optim import (
    AdamW,
    Gate,
    Orthogonaliser,
    Penalty,
    assemble_optimiser,
    orthogonaliser,
)
from pellucid.runs import Run
from pellucid.saved_runs.folder import is_published

#: The names of a state in a checkpoint, and what it is called here.
_STATES = (
    ("exp_avg", "m"),
    ("momentum", "m"),
    ("momentum_buffer", "m"),
    ("exp_avg_sq", "v"),
)
#: A model of the size of its own, so only one.
_last_after = LastResults[Trace](1)
#: Of one parameter: whoever reads a part of its step reads the others soon.
_last_step = LastResults[dict[str, Tensor]](1)
#: Numbers of the parameters that step together: Muon is faster with many matrices of one shape.
_STEPPED_AT_ONCE = 1 << 22
_NUMBERED = re.compile(r"(iterate|gram)(\d+)\Z")


def read_update(trace: Trace, name: str, part: str) -> Tensor | None:
    """A parameter after one step, or a part of the step, such as m, v or before_penalty.

    None if the model has no such parameter, or its step has no such part.
    """
    if name not in dict(trace.model.named_parameters()):
        return None
    if part in ("m_before", "v_before"):
        return _state_before(trace, name, part[0])
    parts = _last_step.get(trace, name, lambda: step_parameter(trace, name, trace[f"{name}.grad"]))
    match = _NUMBERED.match(part)
    if part not in parts and match is not None and "look_ahead" in parts:
        matrix = _iterate(trace, parts["look_ahead"], int(match[2]), is_gram=match[1] == "gram")
        if matrix is not None:
            parts[part] = matrix
    return parts.get(part)


def _state_before(trace: Trace, name: str, part: str) -> Tensor | None:
    """A moment before the step, from the checkpoint, or zeros; None if the step has none."""
    settings = choose_settings(trace, name)
    is_stateful = part in parts_of(settings)
    moment = settings.m if part == "m" else settings.v
    if not is_stateful:
        return None
    weight = trace[name]
    return torch.zeros_like(weight) if moment is None else moment.to(weight)


def number_of(address: str) -> int:
    """The number of an iteration in an address that ends with it."""
    match = _NUMBERED.search(address)
    assert match is not None
    return int(match[2])


def muon_of(trace: Trace) -> config.Muon:
    """The settings of the run's Muon."""
    assert trace.run is not None
    optimiser = trace.run.config.optimiser
    assert isinstance(optimiser, config.Muon)
    return optimiser


def newton_schulz_steps(trace: Trace) -> int:
    """How many iterations Muon makes."""
    return muon_of(trace).newton_schulz_steps


def orthogonal_name(trace: Trace) -> str:
    """The type in which Muon orthogonalises, such as bfloat16."""
    assert trace.run is not None
    dtype = _orthogonaliser(trace).dtype
    return str(dtype).removeprefix("torch.") if trace.dtype == "float32" else trace.dtype


def _iterate(trace: Trace, look_ahead: Tensor, number: int, *, is_gram: bool) -> Tensor | None:
    """The matrix of Newton-Schulz after so many iterations, or its product with its transpose."""
    if number > newton_schulz_steps(trace) or (is_gram and number == newton_schulz_steps(trace)):
        return None
    x = _orthogonaliser(trace)(look_ahead[None], number)[0]
    if is_gram:
        x = x.to(getattr(torch, orthogonal_name(trace)))
        x = x.mT @ x if x.shape[0] > x.shape[1] else x @ x.mT
    return x.to(look_ahead.dtype)


def singular_values(trace: Trace, name: str) -> list[Tensor]:
    """The singular values of Muon's matrix before and after each iteration, the largest first."""
    steps = range(newton_schulz_steps(trace) + 1)
    matrices = (trace[f"{name}.iterate{step}"].double() for step in steps)
    return [cast("Any", torch.linalg).svdvals(matrix) for matrix in matrices]


def step_parameter(trace: Trace, name: str, gradient: Tensor) -> dict[str, Tensor]:
    """A parameter after a step, the optimiser's state after it, and the step's own parts."""
    parts, step_settings = take_steps(trace, {name: gradient})[name], choose_settings(trace, name)
    if step_settings.clip_norm is not None:
        parts["clipped_grad"] = gradient / divisor(trace, step_settings)
    if step_settings.kind == "Muon":
        clipped = gradient / divisor(trace, step_settings)
        parts["look_ahead"] = clipped + step_settings.beta1 * parts["m"]
        parts["direction"] = _direction(trace, parts["look_ahead"])
    return parts


def take_steps(trace: Trace, gradients: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Parameters by name after a step of their optimiser and penalty, and the state after it.

    Source:
        Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2; Jordan et
        al. 2024, "Muon: An optimizer for hidden layers in neural networks"; Parikh and Boyd 2014,
        "Proximal Algorithms", section 6.5.3.
    """
    run, parameters = trace.run, dict[str, nn.Parameter]()
    for name, gradient in gradients.items():
        parameters[name] = nn.Parameter(trace.model.get_parameter(name).detach().clone())
        parameters[name].grad = gradient.clone()
    with torch.enable_grad():
        if run is None or is_published(run.folder):
            optimiser = AdamW(list(parameters.values()))
            cast("Any", optimiser).step()
            states = {name: dict(optimiser.state[p]) for name, p in parameters.items()}
        else:
            settings = choose_settings(trace, next(iter(gradients)))
            states = _as_the_run(run, parameters, divisor(trace, settings))
    return {name: _parts_of_step(trace, name, parameters[name], states[name]) for name in gradients}


def _parts_of_step(
    trace: Trace, name: str, parameter: nn.Parameter, state: dict[str, Tensor]
) -> dict[str, Tensor]:
    step_settings, parts = choose_settings(trace, name), dict[str, Tensor]()
    if step_settings.is_penalised:
        parts["before_penalty"] = parameter.detach().clone()
        l1, l2 = step_settings.penalty_l1, step_settings.penalty_l2
        unblocked = torch.zeros((), device=parameter.device)
        Penalty(parameter, l1=l1, l2=l2).step(step_settings.learning_rate, unblocked)
    parts["next"] = parameter.detach()
    for key, part in _STATES:
        if key in state and part in parts_of(step_settings):
            parts[part] = state[key]
    return parts


def _as_the_run(
    run: Run, parameters: Mapping[str, nn.Parameter], divided: float
) -> dict[str, dict[str, Tensor]]:
    """One step of the run's own optimiser on parameters by name; the state of each after it."""
    memory = read_memory(run)
    optimiser = assemble_optimiser(
        run.config.optimiser, list(parameters.items()), orthogonal=memory.orthogonal
    )
    states: dict[str, dict[str, Tensor]] = {name: {} for name in parameters}
    before: dict[str, Tensor] = {}
    for key, value in memory.tensors.items():
        name, _, part = key.rpartition("::")
        if name in parameters:
            is_step = part == "step"
            before[key] = value.clone() if is_step else value.to(parameters[name], copy=True)
    optimiser.load_state_tensors(before)
    zero = torch.zeros((), device=next(iter(parameters.values())).device)
    optimiser.step(Gate(norm=zero, divisor=zero + divided, blocked=zero), memory.factor)
    for key, tensor in optimiser.state_tensors().items():
        name, _, part = key.rpartition("::")
        states[name][part] = tensor
    return states


def _direction(trace: Trace, look_ahead: Tensor) -> Tensor:
    """The direction of Muon: the look-ahead, its singular values pushed towards one."""
    return _orthogonaliser(trace)(look_ahead[None], newton_schulz_steps(trace))[0]


def _orthogonaliser(trace: Trace) -> Orthogonaliser:
    """How the run's Muon orthogonalises."""
    assert trace.run is not None
    orthogonal = read_memory(trace.run).orthogonal
    return orthogonaliser(muon_of(trace), orthogonal, trace.model.device)


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
    stacks = trace.run.config.model.stacks
    if any(stack.dropout or stack.input_dropout for stack in stacks):
        notes.append(message("optimiser_step.left-out-of-this-step"))
    return notes


def after_update(trace: Trace, progress: Progress = lambda n_done, total: None) -> Trace:
    """The sentence again, in a copy of the model after one step of all weights."""
    return _last_after.get(trace, None, lambda: _update_copy(trace, progress))


def _update_copy(trace: Trace, progress: Progress) -> Trace:
    updated = copy.deepcopy(trace.model)
    weights = dict(updated.named_parameters())
    waiting: dict[str, Tensor] = {}

    def step_together() -> None:
        for name, parts in take_steps(trace, waiting).items():
            weights[name].data.copy_(parts["next"])
        waiting.clear()

    def take(name: str, grad: Tensor) -> None:
        waiting[name] = grad
        if sum(map(Tensor.numel, waiting.values())) >= _STEPPED_AT_ONCE:
            step_together()

    with torch.no_grad():
        trace.backward().visit_parameters(take, progress)
        if waiting:
            step_together()
    return trace.with_model(updated)
