"""Probes of learning: every weight gets a gradient and moves, and the model learns one batch."""

from __future__ import annotations

import re
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.probes.trial_updates import (
    UpdateRecord,
    adam,
    loss_of,
    parameter_ids,
    torch_optimizers,
    try_updates,
)
from pellucid.typed import backward

#: In BERT and similar models the pooler belongs to another head, and the logits do not use it.
_POOLER = re.compile(r"(^|\.)pooler(\.|$)")
_RATES = (3e-3, 3e-4, 2e-2)
#: The model knows a batch with a lower loss already.
_LEARNT_LOSS = 0.05
_TOO_LARGE = 20_000_000


def probe_gradients(adapter: ModelAdapter, ids: Tensor | None = None) -> list[Finding]:
    """Whether every weight to train gets a gradient that is not zero."""
    parameters = list(adapter.model.named_parameters())
    leftover = [n for n, p in parameters if p.grad is not None and p.grad.any()]
    frozen = [
        n
        for n, p in parameters
        if p.is_floating_point() and not p.requires_grad and not adapter.declared.is_frozen(n)
    ]
    record = try_updates(adapter, _ids(adapter, ids), None)
    trainable = [name for name in record.trained if _is_trainable(adapter, name)]
    connected = [name for name in trainable if name in record.with_some_gradient]
    return [
        *_describe_names("GRD004", leftover),
        *_describe_names("GRD003", frozen),
        *_describe_names("GRD001", [name for name in trainable if name not in connected]),
        *_describe_names(
            "GRD002", [name for name in connected if name not in record.with_gradient]
        ),
    ]


def probe_moves(adapter: ModelAdapter, optimizer: Any, ids: Tensor | None = None) -> list[Finding]:
    """Whether the optimiser has every weight to train, and moves it.

    Args:
        adapter: the model.
        optimizer: the optimiser; a copy of it takes the updates.
        ids: (batch, time); by default random ids.
    """
    trained = {n: p for n, p in adapter.model.named_parameters() if p.requires_grad}
    known_ids = parameter_ids(optimizer)
    missing = [
        name
        for name, parameter in trained.items()
        if id(parameter) not in known_ids and _is_trainable(adapter, name)
    ]
    if len(missing) == len(trained) and trained:
        return [describe("OPT003", n=0)]
    record = try_updates(adapter, _ids(adapter, ids), optimizer)
    unmoved = [
        name
        for name in record.trained
        if name in record.with_gradient
        and name not in record.updated | record.stayed.keys()
        and name not in missing
    ]
    findings = [*_describe_names("OPT001", missing), *_describe_names("OPT002", unmoved)]
    groups = [group for inner in torch_optimizers(optimizer) for group in inner.param_groups]
    if all(float(group["lr"]) == 0 for group in groups):
        findings.append(describe("OPT004", rate=0.0))
    return findings + _half_precision(record)


def _half_precision(record: UpdateRecord) -> list[Finding]:
    """Weights in half precision that lose many of their updates to rounding."""
    largest = limit("NUM001", "share")
    lost = {name: share for name, share in record.stayed.items() if share > largest}
    if not lost:
        return []
    worst = max(lost, key=lambda name: lost[name])
    n, total = len(lost), len(record.stayed)
    return [describe("NUM001", n=n, total=total, share=lost[worst], place=worst)]


def _is_trainable(adapter: ModelAdapter, name: str) -> bool:
    return not adapter.declared.is_frozen(name) and not _POOLER.search(name)


def _describe_names(code: str, names: list[str]) -> list[Finding]:
    """A finding about these parameters, if there are any."""
    n_hidden = len(names) - 4
    place = ", ".join(names[:4]) + (f" and {n_hidden} more" if n_hidden > 0 else "")
    return [describe(code, n=len(names), place=place)] if names else []


def _ids(adapter: ModelAdapter, ids: Tensor | None) -> Tensor:
    """A small batch, because the answer does not depend on its size."""
    batch = adapter.random_ids(2) if ids is None else ids[:4, : max(32, adapter.length)]
    return batch.to(adapter.device)


def probe_overfit(adapter: ModelAdapter, ids: Tensor | None = None) -> list[Finding]:
    """Whether 60 updates on one small batch halve its loss.

    The probe skips models of more than 20 million weights, and models that train less than a tenth
    of their weights.
    """
    weights = list(adapter.model.parameters())
    trained = sum(p.numel() for p in weights if p.requires_grad)
    n_weights = sum(p.numel() for p in weights)
    if not adapter.has_logits or n_weights > _TOO_LARGE or trained < n_weights / 10:
        return []
    batch = _ids(adapter, ids)[:2, :16]
    first, last = 0.0, float("inf")
    for rate in _RATES:
        first, lowest = _overfit(adapter, batch, rate)
        last = min(last, lowest)
        if last <= limit("LRN001", "share") * first or first < _LEARNT_LOSS:
            return []
    updates, tokens = limit("LRN001", "updates"), batch.numel()
    return [
        describe("LRN001", updates=updates, tokens=tokens, first=first, last=last, r=last / first)
    ]


def _overfit(adapter: ModelAdapter, batch: Tensor, rate: float) -> tuple[float, float]:
    """The first and the lowest loss while Adam learns one batch."""
    with adapter.as_is(wide=True):
        trained = [p for p in adapter.model.parameters() if p.requires_grad]
        learner = adam(trained, rate)
        losses: list[Tensor] = []
        for step in range(round(limit("LRN001", "updates"))):
            learner.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 10)
            for parameter in trained:
                parameter.grad = None
            loss = loss_of(adapter, batch)
            losses.append(loss.detach())
            backward(loss)
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            cast("Any", learner).step()
        loss_curve = torch.stack(losses).nan_to_num(float("inf"))
        return float(loss_curve[0]), float(loss_curve.min())
