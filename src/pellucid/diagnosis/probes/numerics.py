"""Probes of numbers and of randomness: values that a dtype cannot hold, outputs that vary."""

from __future__ import annotations

import re
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.model_adapter import HALF, ModelAdapter
from pellucid.diagnosis.probes.leakage import relative_change, tolerance
from pellucid.diagnosis.probes.trial_updates import torch_optimizers
from pellucid.typed import named_modules
from pellucid.vitals.taps.dropout_calls import DropoutCalls

_TABLE = re.compile(r"(^|\.|_)(inv_freq|cos|sin|cos_cached|sin_cached)$")


def probe_finite(adapter: ModelAdapter, ids: Tensor | None = None) -> list[Finding]:
    """Whether outputs are finite; if not, the first module with other outputs."""
    ids = adapter.random_ids(2) if ids is None else ids
    names = {module: name for name, module in named_modules(adapter.model).items()}
    culprits: list[str] = []
    largest = {"": 0.0}

    def record(module: nn.Module, _: Any, output: Any) -> None:
        outputs = cast("tuple[Any, ...]", output if isinstance(output, tuple) else (output,))
        for tensor in outputs:
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                continue
            if not bool(torch.isfinite(tensor).all()):
                culprits.append(names.get(module, ""))
            elif tensor.dtype == torch.float16 and tensor.numel():
                largest[names.get(module, "")] = float(tensor.abs().max())

    hooks: list[Any] = []
    try:
        hooks.extend(module.register_forward_hook(record) for module in names)
        with adapter.as_is(), torch.no_grad():
            adapter.outputs(ids)
    finally:
        for hook in hooks:
            hook.remove()
    if culprits:
        return [describe("NUM004", n=len(culprits), place=culprits[0] or "the model")]
    worst = max(largest, key=lambda name: largest[name])
    if largest[worst] <= limit("NUM002", "value"):
        return []
    return [describe("NUM002", value=largest[worst], module=worst)]


def probe_dtypes(adapter: ModelAdapter, optimizer: Any | None = None) -> list[Finding]:
    """Whether small numbers that matter (eps, angles of positions) survive the dtype."""
    findings: list[Finding] = []
    if any(p.dtype == torch.float16 for p in adapter.model.parameters()):
        lost = _lost_eps(adapter, optimizer)
        if lost:
            place, eps = lost[0]
            findings.append(describe("NUM003", n=len(lost), eps=eps, place=place))
        if optimizer is not None:
            findings.append(describe("NUM005", dtype="float16"))
    tables = [
        name
        for name, buffer in adapter.model.named_buffers()
        if buffer.dtype in HALF and _TABLE.search(name)
    ]
    if tables:
        findings.append(describe("NUM006", n=len(tables), place=tables[0]))
    return findings


def _lost_eps(adapter: ModelAdapter, optimizer: Any | None) -> list[tuple[str, float]]:
    """Every eps that float16 rounds to zero, with its place."""
    modules = named_modules(adapter.model).items()
    all_eps = [(n, getattr(m, "eps", getattr(m, "variance_epsilon", None))) for n, m in modules]
    inner_optimizers = [] if optimizer is None else torch_optimizers(optimizer)
    groups = (group for inner in inner_optimizers for group in inner.param_groups)
    all_eps += [("optimizer", float(group["eps"])) for group in groups if "eps" in group]
    least = limit("NUM003", "eps")
    return [(place, eps) for place, eps in all_eps if isinstance(eps, float) and 0 < eps < least]


def probe_chance(adapter: ModelAdapter, ids: Tensor | None = None) -> list[Finding]:
    """Whether evaluation is deterministic, and dropout differs from pass to pass."""
    ids = adapter.random_ids(2) if ids is None else ids
    with adapter.as_is(), torch.no_grad(), DropoutCalls() as dropout:
        output, repeated = adapter.outputs(ids), adapter.outputs(ids)
    noise = float(relative_change(output, repeated).max())
    if noise > tolerance(output, "RND001"):
        return [describe("RND001" if dropout.share else "RND001/sampled", noise=noise)]
    if not _drops(adapter.model):
        return []
    with adapter.as_is(training=True), torch.no_grad():
        first, second = adapter.outputs(ids), adapter.outputs(ids)
    drops_any = float(relative_change(output, first).max()) > tolerance(output)
    return [describe("RND002", difference=0.0)] if drops_any and torch.equal(first, second) else []


def _drops(model: nn.Module) -> bool:
    modules = named_modules(model).values()
    if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in modules):  # pyright: ignore[reportPrivateUsage]
        return False
    return any(isinstance(m, nn.Dropout) and m.p > 0 for m in modules)
