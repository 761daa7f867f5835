"""One step of AdamW from a sentence's gradient: of one weight matrix, or of a copy of the model.

    trace["decoder.blocks.2.attention.query.weight.next"][4, 3]   the weight after the step
    trace["after_update.loss"]                                    of the sentence, all weights moved

Comes in: a trace. Goes out: what torch's own AdamW makes of its weights; `.m` and `.v` are its
moments after the step. It does not know how they are shown. The model itself is not moved.

Of a run that AdamW trains, learning rate, decay, clipping and moments are those of the checkpoint:
the step is the one that would come next, were this sentence the batch. Of other models it is the
first step from zero state, with the numbers that torch's AdamW has by default.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints import load_optimiser
from pellucid.explain.addresses import Shape
from pellucid.explain.stretches import Watch, walk
from pellucid.optim import assemble_schedule, group
from pellucid.runs import Run
from pellucid.runs.folder import RunFolder, is_published
from pellucid.runs.load import read_plan

if TYPE_CHECKING:
    from pellucid.explain.tracing import Trace

_PARTS = ("m", "v", "next")
_PART = re.compile(rf"(.+)\.({'|'.join(_PARTS)})\Z")
_AFTER = "after_update."


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How AdamW moves one parameter: `step` is the number of this step, from 1.

    `told` says in words where the numbers are from; `m` and `v` are None in the zero state.
    """

    learning_rate: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    step: int
    clip_norm: float | None
    told: str
    m: Tensor | None = None
    v: Tensor | None = None


class Stepped(NamedTuple):
    """A parameter and its moments after a step."""

    m: Tensor
    v: Tensor
    next: Tensor


@dataclass(slots=True)
class _Memory:
    """What a run's checkpoint remembers of its optimiser."""

    step: int
    factor: float
    tensors: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])


_memories: WeakKeyDictionary[nn.Module, _Memory] = WeakKeyDictionary()


def may_hold(name: str) -> bool:
    """Whether a name is of a kind that is found here."""
    return name.startswith(_AFTER) or _PART.search(name) is not None


def of(trace: Trace, name: str) -> Tensor | None:
    """The tensor at one of the addresses of an update; None where there is none."""
    if name.startswith(_AFTER):
        return after_update(trace)[name.removeprefix(_AFTER)]
    told = _PART.match(name)
    if told is None or told[1] not in dict(trace.model.named_parameters()):
        return None
    return getattr(stepped(trace, told[1], trace[f"{told[1]}.grad"]), told[2])


def addresses(trace: Trace) -> dict[str, Shape]:
    """Those of the gradients, and of what a step makes of each weight."""
    back = trace.backward()
    weights = dict(trace.model.named_parameters())
    moved = {f"{name}.{part}": tuple(weights[name].shape) for name in back.norms for part in _PARTS}
    after = {f"{_AFTER}{name}": shape for name, shape in trace.addresses().items()}
    return back.addresses() | moved | after


def settings(trace: Trace, name: str) -> Settings:
    """How AdamW would move a parameter of a trace's model next."""
    run = trace.run
    if run is None or is_published(run.folder):
        return _first("this model came without an optimiser's memory")
    kind = _adamw(run.config.optimiser, name, trace.model)
    if kind is None:
        moved_by = type(run.config.optimiser).__name__
        return _first(f"this run moves this weight with {moved_by}, and not with AdamW")
    memory = _memory(run)
    groups = group(trace.model.named_parameters()).every
    decays = any(each.decays and name in each.parameters for each in groups)
    m, v = (memory.tensors.get(f"{name}::{key}") for key in ("exp_avg", "exp_avg_sq"))
    there = m is not None and v is not None
    return Settings(
        learning_rate=kind.learning_rate * memory.factor,
        beta1=kind.betas[0],
        beta2=kind.betas[1],
        eps=kind.eps,
        weight_decay=kind.weight_decay if decays else 0.0,
        step=memory.step + 1 if there else 1,
        clip_norm=run.config.training.clip_norm,
        told=f"the optimiser's memory is that of the run after {memory.step:,} updates, with its "
        f"learning rate, decay and clipping"
        if there
        else "first step from zero state: the checkpoint remembers nothing of this weight",
        m=m if there else None,
        v=v if there else None,
    )


def stepped(trace: Trace, name: str, gradient: Tensor) -> Stepped:
    """What torch's AdamW makes of a parameter, its gradient clipped as the run clips.

    Source:
        Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.
    """
    how = settings(trace, name)
    moved = nn.Parameter(dict(trace.model.named_parameters())[name].detach().clone())
    with torch.enable_grad():
        moved.grad = gradient / divisor(trace, how)
        optimiser = torch.optim.AdamW(
            [moved],
            lr=how.learning_rate,
            betas=(how.beta1, how.beta2),
            eps=how.eps,
            weight_decay=how.weight_decay,
        )
        if how.m is not None and how.v is not None:
            optimiser.state[moved] = {
                "step": torch.tensor(float(how.step - 1)),
                "exp_avg": how.m.to(moved, copy=True),
                "exp_avg_sq": how.v.to(moved, copy=True),
            }
        optimiser.step()
    state = optimiser.state[moved]
    return Stepped(state["exp_avg"], state["exp_avg_sq"], moved.detach())


def divisor(trace: Trace, how: Settings) -> float:
    """What a gradient is divided by: clipping by the norm of all of them."""
    return 1.0 if how.clip_norm is None else max(1.0, trace.backward().norm / how.clip_norm)


def after_update(trace: Trace, watch: Watch = lambda done, total: None) -> Trace:
    """The sentence again, in a copy of the model all of whose weights were moved by one step."""
    trace.backward()
    moved = copy.deepcopy(trace.model)
    weights = dict(moved.named_parameters())

    def take(name: str, grad: Tensor) -> None:
        weights[name].data.copy_(stepped(trace, name, grad).next)

    with torch.no_grad():
        walk(trace, take, watch)
    return type(trace)(moved, trace.sentence, run=trace.run, scales=trace.scales)


def _first(why: str) -> Settings:
    """The first step, with the numbers that torch's AdamW has by default."""
    default: dict[str, Any] = {
        name: each.default for name, each in inspect.signature(torch.optim.AdamW).parameters.items()
    }
    return Settings(
        learning_rate=default["lr"],
        beta1=default["betas"][0],
        beta2=default["betas"][1],
        eps=default["eps"],
        weight_decay=default["weight_decay"],
        step=1,
        clip_norm=None,
        told=f"first step from zero state: {why}; learning rate, betas, eps and decay are those "
        "that torch's AdamW has by default",
    )


def _adamw(optimiser: config.Optimiser, name: str, model: nn.Module) -> config.AdamW | None:
    """What moves a parameter, where it is AdamW."""
    match optimiser:
        case config.AdamW():
            return optimiser
        case config.Muon(rest=rest):
            hidden = group(model.named_parameters()).hidden.parameters
            return None if name in hidden else rest
        case _:
            return None


def _memory(run: Run) -> _Memory:
    """The optimiser's memory at a run's checkpoint; read once for each model that is open."""
    if run.model not in _memories:
        folder = RunFolder(run.folder)
        total = read_plan(folder).total_steps
        schedule = assemble_schedule(run.config.schedule, total=total)
        tensors, step = load_optimiser(run.checkpoint)
        # of a run that has ended there is no next rate: it is that of its last update
        _memories[run.model] = _Memory(step, schedule(min(step, total - 1)), tensors)
    return _memories[run.model]
