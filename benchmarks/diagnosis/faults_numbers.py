"""Faults of numbers: rates, first weights, optimisers, formats. Most are a line of config.

Comes in: nothing. Goes out: a list of classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from benchmarks.diagnosis.changes import fill
from benchmarks.diagnosis.fault import Fault
from benchmarks.diagnosis.setups import Arch, optimiser, rate, stack, starts
from benchmarks.diagnosis.setups import loop as looped
from benchmarks.diagnosis.training import Training
from pellucid import config


def _no_warm_up(run: config.Run, arch: Arch, times: float) -> config.Run:
    run = optimiser(rate(run, times), betas=(0.9, 0.999))
    return replace(run, schedule=replace(run.schedule, warm_up=0.0))


def _large(run: config.Run, arch: Arch, std: float) -> config.Run:
    return starts(run, weights=config.Normal(std=std), outputs="plain")


def _small(run: config.Run, arch: Arch, std: float) -> config.Run:
    return starts(run, weights=config.Normal(std=std), embedding_std=std)


def _loud_head(t: Training, times: float) -> None:
    fill(t.model.head_weight, t.model.head_weight * times)


def _smoothing(run: config.Run, arch: Arch, share: float) -> config.Run:
    return replace(run, objective=replace(run.objective, label_smoothing=share))


def _z_loss(run: config.Run, arch: Arch, weight: float) -> config.Run:
    return replace(run, objective=replace(run.objective, z_loss=weight))


def _gains_decay(t: Training, decay: float) -> None:
    vectors = [p for p in t.weights if p.ndim < 2]
    matrices = [p for p in t.weights if p.ndim >= 2]
    adam: Any = t.run.optimiser
    groups = [
        {"params": matrices, "weight_decay": adam.weight_decay},
        {"params": vectors, "weight_decay": decay},
    ]
    t.optimisers = [torch.optim.AdamW(groups, lr=adam.learning_rate, betas=adam.betas)]
    for group in t.groups:
        group["initial_lr"] = group["lr"]


def _half_weights(t: Training, level: float) -> None:
    t.model.to(torch.bfloat16)
    positions: Any = t.model.stack.positions
    for name in ("cos", "sin"):
        if hasattr(positions, name):
            setattr(positions, name, getattr(positions, name).float())
    t.new_optimiser()


def _underflow(t: Training, scale: float) -> None:
    """Gradients pass through float16 without being made larger first."""

    def round_gradients(t: Training, update: int) -> None:
        for weight in t.weights:
            if weight.grad is not None:
                weight.grad.copy_((weight.grad * scale).half().float() / scale)

    t.to_gradients.append(round_gradients)


def _overflow(t: Training, start: int) -> None:
    """The scale doubles without a check that gradients still fit into float16."""

    def round_gradients(t: Training, update: int) -> None:
        scale = 2.0 ** (10 + max(0, update - start))
        for weight in t.weights:
            if weight.grad is not None:
                weight.grad.copy_((weight.grad * scale).half().float() / scale)

    t.to_gradients.append(round_gradients)


FAULTS = [
    Fault(
        name="learning rate too high",
        accepted=("OPT005",),
        configure=lambda run, arch, times: rate(run, times),
        tuning=(30.0, 100.0),
        judging=(50.0, 200.0),
        repairable=True,
    ),
    Fault(
        name="no warm-up",
        accepted=("OPT006", "OPT005"),
        configure=_no_warm_up,
        tuning=(6.0, 10.0),
        judging=(8.0, 14.0),
        repairable=True,
    ),
    Fault(
        name="learning rate too low",
        accepted=("OPT007",),
        configure=lambda run, arch, times: rate(run, times),
        tuning=(1 / 300, 1 / 3000),
        judging=(1 / 200, 1 / 1000),
        repairable=True,
    ),
    Fault(
        name="rate too high for SGD",
        accepted=("OPT005", "OPT006"),
        base="sgd",
        configure=lambda run, arch, times: rate(run, times),
        tuning=(30.0, 300.0),
        judging=(100.0, 1000.0),
        repairable=True,
    ),
    Fault(
        name="eps of Adam too large",
        accepted=("OPT009",),
        configure=lambda run, arch, eps: optimiser(run, eps=eps),
        tuning=(1e-2, 1.0),
        judging=(3e-2, 0.3),
        repairable=True,
    ),
    Fault(
        name="weight decay too strong",
        accepted=("OPT010",),
        configure=lambda run, arch, decay: optimiser(run, weight_decay=decay),
        tuning=(20.0, 80.0),
        judging=(40.0, 150.0),
        repairable=True,
    ),
    Fault(
        name="weight decay on gains",
        accepted=("OPT011", "OPT010"),
        inject=_gains_decay,
        tuning=(20.0, 60.0),
        judging=(40.0, 100.0),
        place="norm",
    ),
    Fault(
        name="clipped too short",
        accepted=("OPT012",),
        base="sgd",
        configure=lambda run, arch, norm: looped(run, clip_norm=norm),
        tuning=(1e-2, 1e-3),
        judging=(3e-3, 3e-4),
        repairable=True,
    ),
    Fault(
        name="first weights too large",
        accepted=("INI004", "INI001"),
        configure=_large,
        tuning=(0.5, 1.5),
        judging=(0.8, 3.0),
        repairable=True,
    ),
    Fault(
        name="head too large",
        accepted=("INI005", "INI001"),
        inject=_loud_head,
        tuning=(20.0, 60.0),
        judging=(35.0, 100.0),
        place="head|embedding|logits",
    ),
    Fault(
        name="first weights too small",
        accepted=("INI006",),
        configure=_small,
        tuning=(1e-4, 1e-6),
        judging=(3e-5, 1e-5),
        repairable=True,
    ),
    Fault(
        name="dropout absurd",
        accepted=("ARC010",),
        configure=lambda run, arch, share: stack(run, dropout=share),
        tuning=(0.8, 0.95),
        judging=(0.7, 0.9),
        repairable=True,
    ),
    Fault(
        name="label smoothing dominates",
        accepted=("LOS013", "LOS005"),
        configure=_smoothing,
        tuning=(0.8, 0.95),
        judging=(0.7, 0.9),
        repairable=True,
    ),
    Fault(
        name="z-loss dominates",
        accepted=("LOS013", "LOS005"),
        configure=_z_loss,
        tuning=(1.0, 30.0),
        judging=(3.0, 10.0),
        repairable=True,
    ),
    Fault(
        name="betas swapped",
        accepted=("OPT016",),
        configure=lambda run, arch, betas: optimiser(run, betas=betas),
        tuning=((0.999, 0.9), (0.99, 0.5)),
        judging=((0.995, 0.9), (0.999, 0.8)),
        repairable=True,
    ),
    Fault(
        name="bfloat16 weights",
        accepted=("NUM001",),
        kind="invariant",
        configure=lambda run, arch, times: rate(run, times),
        inject=_half_weights,
        tuning=(1.0, 0.1),
        judging=(0.3, 0.05),
    ),
    Fault(
        name="float16 gradients vanish",
        accepted=("NUM009",),
        inject=_underflow,
        tuning=(1e-5, 1e-6),
        judging=(3e-6, 3e-7),
    ),
    Fault(
        name="float16 gradients overflow",
        accepted=("NUM007", "NUM008"),
        inject=_overflow,
        tuning=(20, 50),
        judging=(10, 80),
        onset=lambda level: level,
    ),
]
