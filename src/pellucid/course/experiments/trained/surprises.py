"""Claims about surprises of training: grokking, superposition, covariate shift."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.course.experiments.picture import Curves, bars, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    lower_bound,
    upper_bound,
)
from pellucid.course.experiments.small_models import (
    ADAMW,
    next_token_batch,
    share_right,
    small_model,
    train,
)
from pellucid.model import BatchNorm, Transformer
from pellucid.typed import backward, gradients


def _grokking(setting: Setting) -> Reading:
    steps, prime = (1200 if setting.quick else 4000), 17
    numbers = torch.arange(prime)
    a, b = (grid.flatten() for grid in torch.meshgrid(numbers, numbers, indexing="ij"))
    rows = torch.stack([a, b, torch.full_like(a, prime), (a + b) % prime], 1)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(setting.seed))
    cut = int(0.6 * len(rows))

    def answers_of(part: Tensor) -> TokenBatch:
        is_asked = torch.zeros_like(part, dtype=torch.bool)
        is_asked[:, -1] = True
        return next_token_batch(part, is_asked)

    known_sums, unseen = answers_of(rows[order[:cut]]), answers_of(rows[order[cut:]])
    right: dict[str, dict[int, float]] = {"known": {}, "unseen": {}}

    def look(step: int, model: Transformer) -> None:
        if step % (steps // 40) == 0:
            right["known"][step] = share_right(model, known_sums)
            right["unseen"][step] = share_right(model, unseen)

    train(
        small_model(vocab_size=prime + 1, context_length=3, n_layers=1, positions=config.Learned()),
        lambda step: known_sums,
        setting=setting,
        steps=steps,
        optimiser=replace(ADAMW, learning_rate=2e-3, weight_decay=2.0),
        schedule=config.Constant(warm_up=0.01),
        after=look,
    )

    def first(name: str) -> int:
        return next((s for s, share in right[name].items() if share > 0.9), 2 * steps)

    return Reading(
        numbers={
            "known sums right at the end": right["known"][steps],
            "unseen sums right at the end": right["unseen"][steps],
            "log10 of updates to 90% of unseen over updates to 90% of known": math.log10(
                first("unseen") / first("known")
            ),
        },
        picture=Curves(
            title=f"Sums modulo {prime}, 60% of them trained on",
            x_label="update",
            y_label="share right",
            curves=tuple(curve(name, shares, shares.values()) for name, shares in right.items()),
        ),
    )


def _superposition(setting: Setting) -> Reading:
    n_features, width = 12, 4
    n_kept: dict[str, float] = {}
    for density in (1.0, 0.3, 0.05):
        weight = (torch.randn(n_features, width) * 0.3).requires_grad_()
        bias = torch.zeros(n_features, requires_grad=True)
        optimiser: Any = torch.optim.Adam([weight, bias], lr=1e-2)
        importance = 0.9 ** torch.arange(n_features)
        for _ in range(1500):
            x = torch.rand(256, n_features) * (torch.rand(256, n_features) < density)
            output = torch.relu(x @ weight @ weight.T + bias)
            optimiser.zero_grad()
            backward((importance * (x - output).square()).mean())
            optimiser.step()
        n_kept[f"density {density:g}"] = float((weight.detach().square().sum(1) > 0.25).sum())
    return Reading(
        numbers={
            "features kept by 4 dimensions, dense inputs": n_kept["density 1"],
            "features kept by 4 dimensions, sparse inputs": n_kept["density 0.05"],
        },
        picture=bars("How many of 12 features 4 dimensions keep, by how often one is on", n_kept),
    )


def _covariate_shift(setting: Setting) -> Reading:
    steps = 100 if setting.quick else 400
    x = torch.randn(1024, 32)
    targets = (torch.tanh(x @ torch.randn(32, 32) / 5) @ torch.randn(32, 10)).argmax(-1)
    shifts: dict[str, float] = {}
    losses: dict[str, float] = {}
    for name in ("plain", "BatchNorm"):
        torch.default_generator.manual_seed(setting.seed)
        layers = [_layer(64 if i else 32, normed=name == "BatchNorm") for i in range(5)]
        net = nn.Sequential(*layers, nn.Linear(64, 10))
        optimiser: Any = torch.optim.SGD(net.parameters(), lr=0.1)
        measured: list[float] = []
        for step in range(steps):
            rows = torch.randint(len(x), (128,))
            loss = nn.functional.cross_entropy(net(x[rows]), targets[rows])
            optimiser.zero_grad()
            backward(loss)
            if step % 5 == 0:
                measured.append(_shift(net, x[rows], targets[rows], learning_rate=0.1))
            optimiser.step()
        shifts[name] = float(np.mean(measured))
        losses[name] = float(nn.functional.cross_entropy(net(x), targets).detach())
    return Reading(
        numbers={
            "shift with BatchNorm minus without": shifts["BatchNorm"] - shifts["plain"],
            "loss with BatchNorm minus without (nats)": losses["BatchNorm"] - losses["plain"],
        },
        picture=bars(
            "By what share a layer's gradient changes when the layers below take their step",
            shifts | {f"loss at the end, {name}": value for name, value in losses.items()},
        ),
    )


def _layer(width: int, *, normed: bool) -> nn.Sequential:
    norm = BatchNorm(64, eps=1e-5, momentum=0.1) if normed else nn.Identity()
    return nn.Sequential(nn.Linear(width, 64), norm, nn.ReLU())


def _shift(net: nn.Sequential, x: Tensor, targets: Tensor, *, learning_rate: float) -> float:
    """|G - G'| / |G| of the last hidden layer; for G' the layers below have moved.

    Source: Santurkar et al. 2018, definition 2.1.
    """
    upper = list(net[4].parameters())
    lower: list[Any] = list(net[:4].parameters())
    before = [weight.grad.clone() for weight in upper if weight.grad is not None]
    with torch.no_grad():
        for weight in lower:
            weight -= learning_rate * (0 if weight.grad is None else weight.grad)
    loss = nn.functional.cross_entropy(net(x), targets)
    after = gradients(loss, upper, None)
    with torch.no_grad():
        for weight in lower:
            weight += learning_rate * (0 if weight.grad is None else weight.grad)
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if b is not None]
    change = sum(float((a - b).square().sum()) for a, b in pairs)
    return (change / sum(float(a.square().sum()) for a, _ in pairs)) ** 0.5


EXPERIMENTS = (
    Experiment(
        name="grokking",
        title="Grokking of modular addition",
        description="Train one layer on 60% of all sums modulo 17, long after it knows them.",
        question=Question(
            text="The model knows all training sums. The unseen ones it learns",
            choices=("much later", "at the same time", "never"),
        ),
        claim="Long after a model fits its training sums, it suddenly generalises to unseen ones.",
        source=Source(
            authors="Power et al.",
            year=2022,
            title="Grokking: Generalization Beyond Overfitting on Small Algorithmic Datasets",
            place="section 3",
        ),
        concepts=("adamw_step", "optimiser.weight_decay"),
        checks=(
            lower_bound("unseen sums right at the end", 0.9),
            lower_bound("log10 of updates to 90% of unseen over updates to 90% of known", 0.5),
        ),
        measure=_grokking,
        seeds=4,
        quick_seeds=3,
    ),
    Experiment(
        name="superposition",
        title="Superposition in a toy model",
        description="Squeeze 12 features through 4 dimensions, with dense and with sparse inputs.",
        question=Question(
            text="Four dimensions carry 12 features that are rarely on. How many are kept?",
            choices=("more than four", "four", "fewer than four"),
        ),
        claim="With sparse inputs a layer represents more features than it has dimensions; with "
        "dense inputs it keeps only as many as fit.",
        source=Source(
            authors="Elhage et al.",
            year=2022,
            title="Toy Models of Superposition",
            place="demonstrating superposition",
        ),
        concepts=("relu", "model.d_model"),
        checks=(
            lower_bound("features kept by 4 dimensions, sparse inputs", 5.5),
            upper_bound("features kept by 4 dimensions, dense inputs", 4.5),
        ),
        measure=_superposition,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="internal-covariate-shift",
        title="Internal covariate shift, and the dispute about it",
        description="Measure how much a layer's gradient changes when the layers below move, with "
        "and without BatchNorm.",
        question=Question(
            text="BatchNorm makes a layer's inputs steadier. Its gradient then changes",
            choices=("less when lower layers move", "more", "as much"),
        ),
        claim="BatchNorm trains faster because it reduces internal covariate shift. (Santurkar et "
        "al. 2018 dispute it: they found as much shift with BatchNorm, or more.)",
        source=Source(
            authors="Ioffe and Szegedy",
            year=2015,
            title="Batch Normalization: Accelerating Deep Network Training by Reducing Internal "
            "Covariate Shift",
            place="section 2",
        ),
        concepts=("batch_norm", "batch_norm_grad"),
        checks=(
            upper_bound("shift with BatchNorm minus without", 0.0),
            upper_bound("loss with BatchNorm minus without (nats)", 0.0),
        ),
        measure=_covariate_shift,
        seeds=8,
        quick_seeds=5,
    ),
)
