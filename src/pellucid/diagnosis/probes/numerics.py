"""Probes of numbers and of chance: what a dtype cannot hold, and what should not be random."""

from __future__ import annotations

import re
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.model_adapter import HALF, ModelAdapter
from pellucid.diagnosis.probes.leakage import moved, tolerance
from pellucid.diagnosis.probes.trial_updates import torch_optimizers
from pellucid.typed import named_modules

_TABLE = re.compile(r"(^|\.|_)(inv_freq|cos|sin|cos_cached|sin_cached)$")


def probe_finite(adapter: ModelAdapter, ids: Tensor | None = None) -> list[Finding]:
    """Whether outputs are finite; if not, which module is the first that gives what is not."""
    ids = adapter.random_ids(2) if ids is None else ids
    names = {module: name for name, module in named_modules(adapter.model).items()}
    culprits: list[str] = []
    largest = {"": 0.0}

    def look(module: nn.Module, _: Any, output: Any) -> None:
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
        hooks.extend(module.register_forward_hook(look) for module in names)
        with adapter.as_is(), torch.no_grad():
            adapter.outputs(ids)
    finally:
        for hook in hooks:
            hook.remove()
    if culprits:
        sign = evidence("NUM004", "modules with outputs that are not finite", len(culprits))
        where = culprits[0] or "the model"
        return [build_finding("NUM004", f"The first is {where}.", sign, where=where)]
    worst = max(largest, key=lambda name: largest[name])
    if largest[worst] <= limit("NUM002", "value"):
        return []
    sign = evidence("NUM002", "largest value in float16", largest[worst])
    return [
        build_finding(
            "NUM002", f"{worst} gives values up to {largest[worst]:.3g}.", sign, where=worst
        )
    ]


def probe_dtypes(adapter: ModelAdapter, optimizer: Any | None = None) -> list[Finding]:
    """Whether small numbers that matter (eps, angles of positions) survive the dtype."""
    findings: list[Finding] = []
    types = {p.dtype for p in adapter.model.parameters() if p.is_floating_point()}
    if torch.float16 in types:
        lost = _lost_eps(adapter, optimizer)
        if lost:
            sign = evidence("NUM003", "eps that float16 rounds to zero", lost[0][1])
            findings.append(
                build_finding("NUM003", f"{len(lost)} of them.", sign, where=lost[0][0])
            )
    if torch.float16 in types and optimizer is not None:
        sign = evidence("NUM005", "dtype of the weights", "float16")
        findings.append(build_finding("NUM005", "Weights that are trained are float16.", sign))
    tables = [
        name
        for name, buffer in adapter.model.named_buffers()
        if buffer.dtype in HALF and _TABLE.search(name)
    ]
    if tables:
        sign = evidence("NUM006", "tables in half precision", len(tables))
        findings.append(build_finding("NUM006", "Tables of rotary angles.", sign, where=tables[0]))
    return findings


def _lost_eps(adapter: ModelAdapter, optimizer: Any | None) -> list[tuple[str, float]]:
    lost: list[tuple[str, float]] = []
    for name, module in named_modules(adapter.model).items():
        eps = getattr(module, "eps", getattr(module, "variance_epsilon", None))
        if isinstance(eps, float) and 0 < eps < limit("NUM003", "eps"):
            lost.append((name, eps))
    if optimizer is not None:
        groups = (
            group
            for torch_optimizer in torch_optimizers(optimizer)
            for group in torch_optimizer.param_groups
        )
        all_eps = [float(group["eps"]) for group in groups if "eps" in group]
        lost += [("optimizer", eps) for eps in all_eps if 0 < eps < limit("NUM003", "eps")]
    return lost


def probe_chance(adapter: ModelAdapter, ids: Tensor | None = None) -> list[Finding]:
    """Whether evaluation is free of chance, and dropout is not the same every time."""
    ids = adapter.random_ids(2) if ids is None else ids
    with adapter.as_is(), torch.no_grad():
        still, again = adapter.outputs(ids), adapter.outputs(ids)
    noise = float(moved(still, again).max())
    if noise > tolerance(still, "RND001"):
        return [
            build_finding(
                "RND001",
                "The same ids give other outputs the second time, in evaluation mode.",
                evidence("RND001", "largest relative change", noise),
            )
        ]
    if not _drops(adapter.model):
        return []
    with adapter.as_is(training=True), torch.no_grad():
        first, second = adapter.outputs(ids), adapter.outputs(ids)
    dropped = float(moved(still, first).max()) > tolerance(still)
    if not dropped or not torch.equal(first, second):
        return []
    return [
        build_finding(
            "RND002",
            "Two passes in training mode drop exactly the same features.",
            evidence("RND002", "difference of two passes", 0.0),
        )
    ]


def _drops(model: nn.Module) -> bool:
    modules = named_modules(model).values()
    if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in modules):  # pyright: ignore[reportPrivateUsage]
        return False
    return any(isinstance(m, nn.Dropout) and m.p > 0 for m in modules)
