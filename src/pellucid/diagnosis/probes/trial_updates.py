"""A few updates of a copy of the model: which weights get a gradient, and which move."""

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
class UpdateRecord:
    """The names of parameters, by their behaviour in the updates."""

    trained: list[str] = field(default_factory=list[str])
    with_gradient: set[str] = field(default_factory=set[str])
    with_some_gradient: set[str] = field(default_factory=set[str])
    updated: set[str] = field(default_factory=set[str])
    #: for weights in half precision: the share of elements that had a gradient and did not move
    stayed: dict[str, float] = field(default_factory=dict[str, float])


def torch_optimizers(optimizer: Any) -> list[torch.optim.Optimizer]:
    """The torch optimisers inside an optimiser: pellucid's has several, a wrapper has one."""
    parts = getattr(optimizer, "parts", None)
    if parts is not None:
        return list(cast("Sequence[torch.optim.Optimizer]", parts))
    inner = getattr(optimizer, "optimizer", None)
    return torch_optimizers(inner) if inner is not None else [optimizer]


def parameter_ids(optimizer: Any) -> set[int]:
    """The identities of the parameters that an optimiser updates."""
    groups = (group for inner in torch_optimizers(optimizer) for group in inner.param_groups)
    return {id(parameter) for group in groups for parameter in group["params"]}


def try_updates(adapter: ModelAdapter, ids: Tensor, optimizer: Any | None) -> UpdateRecord:
    """The behaviour of each weight in three updates by a copy of `optimizer`, or by Adam.

    A learning rate of zero, as at the start of a warm-up, is replaced.

    Args:
        adapter: the model.
        ids: (batch, time) of the batch.
        optimizer: the optimiser; None for Adam.
    """
    record = UpdateRecord()
    with adapter.as_is(training=True, wide=optimizer is None):
        weights = [(n, p) for n, p in each_weight(adapter.model) if p.requires_grad]
        record.trained = [name for name, weight in weights if weight.numel()]
        if not weights:
            return record
        initial = {name: weight.detach().clone() for name, weight in weights}
        copies = _copies(adapter.model, optimizer) or [
            adam([weight for _, weight in weights], _RATE, eps=1e-30)
        ]
        # before a projection that starts at zero, gradients arrive one update later
        for _ in range(round(limit("GRD002", "updates"))):
            for _, weight in weights:
                weight.grad = None
            backward(loss_of(adapter, ids))
            for name, weight in weights:
                if weight.grad is not None:
                    record.with_some_gradient.add(name)
                    if bool((weight.grad != 0).any()):
                        record.with_gradient.add(name)
            for torch_optimizer in copies:
                cast("Any", torch_optimizer).step()
        for name, weight in weights:
            if not torch.equal(initial[name], weight.detach()):
                record.updated.add(name)
            if weight.element_size() < 4 and weight.grad is not None:
                live = weight.grad != 0
                stayed = (weight.detach() == initial[name]) & live
                record.stayed[name] = float(stayed.sum() / live.sum().clamp_min(1))
    return record


def adam(weights: list[nn.Parameter], rate: float, *, eps: float = 1e-8) -> torch.optim.Optimizer:
    """Adam, with a fused kernel if there is one.

    Args:
        weights: the parameters, all on one device.
        rate: the learning rate.
        eps: Adam's eps.
    """
    fused = weights[0].device.type in ("cpu", "cuda")
    return Adam(weights, lr=rate, eps=eps, fused=fused)


def _copies(model: nn.Module, optimizer: Any | None) -> list[torch.optim.Optimizer]:
    """Copies of the optimisers with their own state, for the model's own parameters."""
    if optimizer is None:
        return []
    memo: dict[int, Any] = {id(p): p for p in model.parameters()}
    copies = [_copy(torch_optimizer, memo) for torch_optimizer in torch_optimizers(optimizer)]
    for group in (group for copied in copies for group in copied.param_groups):
        if float(group["lr"]) == 0:
            group["lr"] = group.get("initial_lr") or _RATE
    return copies


def _copy(optimizer: torch.optim.Optimizer, memo: dict[int, Any]) -> torch.optim.Optimizer:
    """A copy with all attributes: torch's own copies only groups and state."""
    copied = copy.deepcopy(optimizer, memo)
    for name, value in vars(optimizer).items():
        if not name.startswith("_") and not hasattr(copied, name):
            setattr(copied, name, value)
    return copied


def loss_of(adapter: ModelAdapter, ids: Tensor) -> Tensor:
    """A loss that uses every output: cross-entropy, or a fixed mixture of hidden states."""
    outputs = adapter.outputs(ids).float()
    if not adapter.has_logits:
        draws = torch.Generator().manual_seed(3)
        mixture = torch.randn(outputs.shape[1:], generator=draws).to(outputs.device)
        classes = adapter.class_logits(ids)
        return (outputs * mixture).mean() + (0.0 if classes is None else classes.square().mean())
    targets = targets_for(ids, 1 if adapter.causal else 0)
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
