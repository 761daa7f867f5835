"""Probes of learning: every weight gets a gradient and moves, and one batch can be learnt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.probes.trial_updates import (
    Seen,
    adam,
    few_steps,
    held,
    loss_of,
    torch_optimizers,
)
from pellucid.typed import backward

#: Stands beside the way from ids to logits in BERT and its kin: trained with another head.
_BESIDE = re.compile(r"(^|\.)pooler(\.|$)")
_RATES = (3e-3, 3e-4, 2e-2)
#: A batch whose loss is below this is known already.
_LEARNT_LOSS = 0.05
_TOO_LARGE = 20_000_000


def probe_gradients(adapter: ModelAdapter, ids: Tensor | None = None) -> list[Finding]:
    """Whether every weight that is to be trained gets a gradient that is not zero."""
    findings = _left_over(adapter) + _frozen(adapter)
    return findings + _of_gradients(adapter, few_steps(adapter, _ids(adapter, ids), None))


def probe_moves(adapter: ModelAdapter, optimizer: Any, ids: Tensor | None = None) -> list[Finding]:
    """Whether the optimiser holds every weight that is to be trained, and moves it."""
    named = {n: p for n, p in adapter.model.named_parameters() if p.requires_grad}
    holds = held(optimizer)
    missing = [n for n, p in named.items() if id(p) not in holds and _is_trainable(adapter, n)]
    if len(missing) == len(named) and named:
        return [
            build_finding(
                "OPT003",
                "The optimiser holds no parameter of this model: it updates another one's.",
                evidence("OPT003", "parameters of the model in the optimiser", 0),
                where="optimizer",
            )
        ]
    findings = [_named("OPT001", "are not in the optimiser", missing)] if missing else []
    observed = few_steps(adapter, _ids(adapter, ids), optimizer)
    still = [
        name
        for name in observed.trained
        if name in observed.with_gradient
        and name not in observed.moved | observed.stayed.keys()
        and name not in missing
    ]
    if still:
        findings.append(_named("OPT002", "have a gradient and do not move", still))
    return findings + _of_zero_rate(optimizer) + _of_half(observed)


def _of_zero_rate(optimizer: Any) -> list[Finding]:
    rates = [
        g["lr"]
        for torch_optimizer in torch_optimizers(optimizer)
        for g in torch_optimizer.param_groups
    ]
    if any(float(rate) != 0 for rate in rates):
        return []
    sign = evidence("OPT004", "learning rate", 0.0)
    return [
        build_finding("OPT004", "The learning rate of every group is 0.", sign, where="optimizer")
    ]


def _of_half(observed: Seen) -> list[Finding]:
    lost = {
        name: share for name, share in observed.stayed.items() if share > limit("NUM001", "share")
    }
    if not lost:
        return []
    worst = max(lost, key=lambda name: lost[name])
    return [
        build_finding(
            "NUM001",
            f"Of {len(observed.stayed)} weights in half precision, {len(lost)} lose more than a "
            f"fifth of their updates to rounding.",
            evidence("NUM001", "elements that have a gradient and stay", lost[worst]),
            where=worst,
        )
    ]


def _left_over(adapter: ModelAdapter) -> list[Finding]:
    with_gradient = [
        n for n, p in adapter.model.named_parameters() if p.grad is not None and p.grad.any()
    ]
    return [_named("GRD004", "carry a gradient already", with_gradient)] if with_gradient else []


def _frozen(adapter: ModelAdapter) -> list[Finding]:
    named = [(n, p) for n, p in adapter.model.named_parameters() if p.is_floating_point()]
    frozen = [n for n, p in named if not p.requires_grad and not adapter.declared.is_frozen(n)]
    return [_named("GRD003", "do not require a gradient", frozen)] if frozen else []


def _of_gradients(adapter: ModelAdapter, observed: Seen) -> list[Finding]:
    trainable = [name for name in observed.trained if _is_trainable(adapter, name)]
    none = [name for name in trainable if name not in observed.with_some_gradient]
    zero = [
        n for n in trainable if n in observed.with_some_gradient and n not in observed.with_gradient
    ]
    findings = [_named("GRD001", "are not reached by the loss", none)] if none else []
    if zero:
        findings.append(_named("GRD002", "get a gradient of exactly zero", zero))
    return findings


def _is_trainable(adapter: ModelAdapter, name: str) -> bool:
    return not adapter.declared.is_frozen(name) and not _BESIDE.search(name)


def _named(code: str, do_what: str, names: list[str]) -> Finding:
    return build_finding(
        code,
        f"{len(names)} parameters {do_what}.",
        evidence(code, "parameters", len(names)),
        where=_listed(names),
    )


def _listed(names: Iterable[str], n_shown: int = 4) -> str:
    names = list(names)
    n_hidden = len(names) - n_shown
    return ", ".join(names[:n_shown]) + (f" and {n_hidden} more" if n_hidden > 0 else "")


def _ids(adapter: ModelAdapter, ids: Tensor | None) -> Tensor:
    """A small batch: what is asked does not depend on how much there is of it."""
    batch = adapter.random_ids(2) if ids is None else ids[:4, : max(32, adapter.length)]
    return batch.to(adapter.device)


def probe_overfit(adapter: ModelAdapter, ids: Tensor | None = None) -> list[Finding]:
    """Whether 60 updates on one small batch bring its loss down by half.

    Asked of models of at most 20 million weights, and where at least a tenth of them is trained.
    """
    weights = list(adapter.model.parameters())
    trained = sum(p.numel() for p in weights if p.requires_grad)
    n_weights = sum(p.numel() for p in weights)
    if not adapter.has_logits or n_weights > _TOO_LARGE or trained < n_weights / 10:
        return []
    batch = _ids(adapter, ids)[:2, :16]
    first, last = 0.0, float("inf")
    for rate in _RATES:
        first, reached = _overfitted(adapter, batch, rate)
        last = min(last, reached)
        if last <= limit("LRN001", "share") * first or first < _LEARNT_LOSS:
            return []
    return [
        build_finding(
            "LRN001",
            f"{limit('LRN001', 'updates'):.0f} updates on one batch of {batch.numel()} tokens "
            f"brought its loss from {first:.3f} to {last:.3f} only.",
            evidence("LRN001", "loss after / loss before", last / first),
            confidence=0.8,
        )
    ]


def _overfitted(adapter: ModelAdapter, batch: Tensor, rate: float) -> tuple[float, float]:
    """The first and the lowest loss of one batch, learnt by Adam."""
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
