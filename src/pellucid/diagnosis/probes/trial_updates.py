"""A few updates of a copy: which weights get a gradient, and which move."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.batches import IGNORED
from pellucid.diagnosis.batches import targets_for
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.preserve_state import each_weight
from pellucid.optim import Adam
from pellucid.typed import backward

_RATE = 1e-3


@dataclass(slots=True)
class Seen:
    """Names of parameters, by what happened to them in the updates."""

    trained: list[str] = field(default_factory=list[str])
    with_gradient: set[str] = field(default_factory=set[str])
    with_some_gradient: set[str] = field(default_factory=set[str])
    moved: set[str] = field(default_factory=set[str])
    #: of weights in half precision: the share of their elements that had a gradient and stayed
    stayed: dict[str, float] = field(default_factory=dict[str, float])


def torch_optimizers(optimizer: Any) -> list[torch.optim.Optimizer]:
    """The optimisers of torch inside: pellucid's has several, wrappers have one."""
    parts = getattr(optimizer, "parts", None)
    if parts is not None:
        return list(cast("Sequence[torch.optim.Optimizer]", parts))
    inner = getattr(optimizer, "optimizer", None)
    return torch_optimizers(inner) if inner is not None else [optimizer]


def held(optimizer: Any) -> set[int]:
    """The identities of the parameters that an optimiser updates."""
    groups = (
        group
        for torch_optimizer in torch_optimizers(optimizer)
        for group in torch_optimizer.param_groups
    )
    return {id(parameter) for group in groups for parameter in group["params"]}


def few_steps(adapter: ModelAdapter, ids: Tensor, optimizer: Any | None) -> Seen:
    """What happens to each weight in three updates by a copy of `optimizer`, or by Adam.

    A learning rate of zero, as at the foot of a warm-up, is replaced: it is not what is asked.
    """
    observed = Seen()
    with adapter.as_is(training=True, wide=optimizer is None):
        named = [(n, p) for n, p in each_weight(adapter.model) if p.requires_grad]
        observed.trained = [name for name, weight in named if weight.numel()]
        if not named:
            return observed
        initial = {name: weight.detach().clone() for name, weight in named}
        stepping = _copies(adapter.model, optimizer) or [
            adam([weight for _, weight in named], _RATE, eps=1e-30)
        ]
        # where a projection starts at zero, what stands before it gets its gradient an update later
        for _ in range(round(limit("GRD002", "updates"))):
            for _, weight in named:
                weight.grad = None
            backward(loss_of(adapter, ids))
            _note(observed, named)
            for torch_optimizer in stepping:
                cast("Any", torch_optimizer).step()
        for name, weight in named:
            if not torch.equal(initial[name], weight.detach()):
                observed.moved.add(name)
            if weight.element_size() < 4 and weight.grad is not None:
                live = weight.grad != 0
                stayed = (weight.detach() == initial[name]) & live
                observed.stayed[name] = float(stayed.sum() / live.sum().clamp_min(1))
    return observed


def adam(weights: list[nn.Parameter], rate: float, *, eps: float = 1e-8) -> torch.optim.Optimizer:
    """Adam, in one kernel where there is one."""
    fused = weights[0].device.type in ("cpu", "cuda")
    return Adam(weights, lr=rate, eps=eps, fused=fused)


def _note(observed: Seen, named: list[tuple[str, nn.Parameter]]) -> None:
    for name, weight in named:
        if weight.grad is not None:
            observed.with_some_gradient.add(name)
            if bool((weight.grad != 0).any()):
                observed.with_gradient.add(name)


def _copies(model: nn.Module, optimizer: Any | None) -> list[torch.optim.Optimizer]:
    """Copies of the optimisers, with a memory of their own, over the model's own parameters."""
    if optimizer is None:
        return []
    memo: dict[int, Any] = {id(p): p for p in model.parameters()}
    copies = [_copy(torch_optimizer, memo) for torch_optimizer in torch_optimizers(optimizer)]
    for group in (group for copied in copies for group in copied.param_groups):
        if float(group["lr"]) == 0:
            group["lr"] = group.get("initial_lr") or _RATE
    return copies


def _copy(optimizer: torch.optim.Optimizer, memo: dict[int, Any]) -> torch.optim.Optimizer:
    """A copy with all it has: torch's own copies its groups and memory alone."""
    copied = copy.deepcopy(optimizer, memo)
    for name, value in vars(optimizer).items():
        if not name.startswith("_") and not hasattr(copied, name):
            setattr(copied, name, value)
    return copied


def loss_of(adapter: ModelAdapter, ids: Tensor) -> Tensor:
    """A loss through every output: cross-entropy, or a fixed mixture of hidden states."""
    outputs = adapter.outputs(ids).float()
    if not adapter.has_logits:
        draws = torch.Generator().manual_seed(3)
        mixture = torch.randn(outputs.shape[1:], generator=draws).to(outputs.device)
        classes = adapter.class_logits(ids)
        return (outputs * mixture).mean() + (0.0 if classes is None else classes.square().mean())
    targets = targets_for(ids, 1 if adapter.causal else 0)
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
