"""Claims about optimisers: Muon, warm-up, clipping, the batch and its noise."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from pellucid import config
from pellucid.course.experiments.picture import Curve, Curves, bars, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    in_range,
    lower_bound,
    upper_bound,
)
from pellucid.course.experiments.small_models import (
    ADAMW,
    BYTES,
    bundled_text,
    held_out_loss,
    small_model,
    text_batches,
    train_on_text,
)
from pellucid.model import Transformer
from pellucid.objectives import NextToken
from pellucid.typed import gradients

_LENGTH = 32
_MODEL = small_model(vocab_size=BYTES, context_length=_LENGTH)


def _muon(setting: Setting) -> Reading:
    steps = 100 if setting.quick else 400
    rates = {"AdamW": (1e-3, 3e-3, 1e-2), "Muon": (1e-2, 3e-2, 6e-2)}
    losses: dict[str, list[float]] = {name: [] for name in rates}
    for name, tried in rates.items():
        for rate in tried:
            optimiser = replace(ADAMW, learning_rate=rate)
            if name == "Muon":
                optimiser = config.Muon(
                    learning_rate=rate,
                    momentum=0.95,
                    weight_decay=0.0,
                    newton_schulz_steps=5,
                    rest=replace(ADAMW, learning_rate=rate / 3),
                )
            trained = train_on_text(
                _MODEL, length=_LENGTH, setting=setting, steps=steps, optimiser=optimiser
            )
            losses[name].append(held_out_loss(trained.model, length=_LENGTH))
    best = {name: min(values) for name, values in losses.items()}
    return Reading(
        numbers={f"held-out loss, {name} (nats per byte)": value for name, value in best.items()}
        | {"Muon minus AdamW (nats per byte)": best["Muon"] - best["AdamW"]},
        picture=bars(
            f"Held-out loss after {steps} updates, nats per byte",
            {
                f"{name}, rate {rate:g}": value
                for name, values in losses.items()
                for rate, value in zip(rates[name], values, strict=True)
            },
        ),
    )


def _warm_up(setting: Setting) -> Reading:
    steps = 80 if setting.quick else 300
    rates = (3e-3, 3e-2)
    losses: dict[tuple[str, float], float] = {}
    for rate in rates:
        for name, warm_up in (("none", 0.0), ("a quarter", 0.25)):
            trained = train_on_text(
                _MODEL,
                length=_LENGTH,
                setting=setting,
                steps=steps,
                optimiser=replace(ADAMW, learning_rate=rate),
                schedule=config.Linear(warm_up=warm_up, final=0.0),
                clip_norm=None,
            )
            losses[name, rate] = held_out_loss(trained.model, length=_LENGTH)
    gains = [losses["none", rate] - losses["a quarter", rate] for rate in rates]
    return Reading(
        numbers={
            "loss that warm-up saves at rate 0.003 (nats per byte)": gains[0],
            "loss that warm-up saves at rate 0.03 (nats per byte)": gains[1],
            "saved at 0.03 minus saved at 0.003 (nats per byte)": gains[1] - gains[0],
        },
        picture=bars(
            f"Held-out loss after {steps} updates, nats per byte",
            {f"warm-up {name}, rate {rate:g}": v for (name, rate), v in losses.items()},
        ),
    )


def _clipping(setting: Setting) -> Reading:
    steps = 120 if setting.quick else 400
    sgd = config.SGD(learning_rate=1.0, momentum=0.9, l2=0.0)
    losses: dict[str, float] = {}
    curves: list[Curve] = []
    for name, clip_norm in (("none", None), ("norm 1", 1.0)):
        trained = train_on_text(
            _MODEL, length=_LENGTH, setting=setting, steps=steps, optimiser=sgd, clip_norm=clip_norm
        )
        losses[name] = min(held_out_loss(trained.model, length=_LENGTH), 20.0)
        curves.append(curve(name, range(1, steps + 1), [min(v, 20.0) for v in trained.losses]))
    return Reading(
        numbers={f"held-out loss, clipping {name} (nats)": v for name, v in losses.items()}
        | {"loss that clipping saves (nats per byte)": losses["none"] - losses["norm 1"]},
        picture=Curves(
            title="SGD with momentum at a high rate, with and without clipping (at most 20 shown)",
            x_label="update",
            y_label="loss in nats",
            curves=tuple(curves),
        ),
    )


def _noise_scale(setting: Setting) -> Reading:
    steps = 150 if setting.quick else 500
    training, _ = bundled_text()
    sizes = (2, 8, 32)
    early: dict[int, float] = {}
    scales: dict[int, float] = {}

    def look(step: int, model: Transformer) -> None:
        if step in (10, steps):
            noise, signal = _noise_and_signal(model, training, sizes, setting.seed + step)
            scales[step] = noise[sizes[0]] * sizes[0] / max(signal, 1e-12)
            if step == 10:
                early.update(noise)

    train_on_text(_MODEL, length=_LENGTH, setting=setting, steps=steps, after=look)
    slope = math.log(early[32] / early[2]) / math.log(32 / 2)
    return Reading(
        numbers={
            "slope of log noise by log batch size": slope,
            "noise scale after 10 updates (rows)": scales[10],
            "noise scale at the end (rows)": scales[steps],
            "log of noise scale at the end over after 10 updates": math.log(
                scales[steps] / scales[10]
            ),
        },
        picture=Curves(
            title="The variance of the gradient by the size of the batch, after 10 updates",
            x_label="rows in the batch",
            y_label="variance, summed over weights",
            curves=(
                curve("measured", sizes, [early[size] for size in sizes]),
                curve("1 / B", sizes, [early[2] * 2 / size for size in sizes]),
            ),
            log_x=True,
            log_y=True,
        ),
    )


def _noise_and_signal(
    model: Transformer, ids: Tensor, sizes: tuple[int, ...], seed: int
) -> tuple[dict[int, float], float]:
    """The variance of the gradient for each size of the batch, and the true gradient's square."""
    noise: dict[int, float] = {}
    signal = 0.0
    for size in sizes:
        draws = torch.stack(
            [_gradient(model, ids, size, seed * 1000 + size * 17 + draw) for draw in range(24)]
        )
        noise[size] = float(draws.var(0).sum())
        # the mean of n gradients has 1 / n of their variance left in it
        signal = float(draws.mean(0).square().sum()) - noise[size] / len(draws)
    return noise, signal


def _gradient(model: Transformer, ids: Tensor, rows: int, seed: int) -> Tensor:
    batch = text_batches(ids, rows=rows, length=_LENGTH, seed=seed)(0)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    loss = NextToken()(model, batch).total
    return torch.cat(
        [grad.flatten() for grad in gradients(loss, weights, None) if grad is not None]
    )


EXPERIMENTS = (
    Experiment(
        name="muon-against-adamw",
        title="Muon against AdamW",
        description="Train the same model with both, each at the best of three learning rates.",
        question=Question(
            text="Same model, same updates, each optimiser at its best rate. Which loss is lower?",
            choices=("Muon's", "AdamW's", "no difference"),
        ),
        claim="Muon reaches a lower loss than AdamW in the same number of updates.",
        source=Source(
            authors="Jordan et al.",
            year=2024,
            title="Muon: An optimizer for hidden layers in neural networks",
        ),
        concepts=("newton_schulz", "adamw_step", "optimiser.newton_schulz_steps"),
        checks=(upper_bound("Muon minus AdamW (nats per byte)", 0.0),),
        measure=_muon,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="warm-up",
        title="Warm-up or none",
        description="Train at a usual and at a high learning rate, with and without warm-up.",
        question=Question(
            text="At which learning rate does warm-up save more loss?",
            choices=("at the high one", "at the usual one", "at neither"),
        ),
        claim="Warm-up lets a model train at a learning rate that would harm it otherwise.",
        source=Source(
            authors="Goyal et al.",
            year=2017,
            title="Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
            place="section 2.2",
        ),
        concepts=("linear", "cosine", "schedule.warm_up"),
        checks=(
            lower_bound("loss that warm-up saves at rate 0.03 (nats per byte)", 0.0),
            lower_bound("saved at 0.03 minus saved at 0.003 (nats per byte)", 0.0),
        ),
        measure=_warm_up,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="clipping",
        title="Clipping the gradient",
        description="Train by SGD with momentum at a high rate, with and without clipping.",
        question=Question(
            text="At a high rate, SGD without clipping ends with a loss that is",
            choices=("higher", "the same", "lower"),
        ),
        claim="Limiting the gradient's norm keeps a training with large gradients from being "
        "thrown off.",
        source=Source(
            authors="Pascanu, Mikolov and Bengio",
            year=2013,
            title="On the Difficulty of Training Recurrent Neural Networks",
            place="section 3.2",
        ),
        concepts=("momentum_step", "sgd_step", "training.clip_norm"),
        checks=(lower_bound("loss that clipping saves (nats per byte)", 0.0),),
        measure=_clipping,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="batch-size-and-noise",
        title="The batch and the noise of its gradient",
        description="Measure the variance of gradients of batches of 2, 8 and 32 rows, early and "
        "late in a training.",
        question=Question(
            text="You make the batch 16 times larger. The variance of its gradient becomes",
            choices=("16 times smaller", "4 times smaller", "no smaller"),
        ),
        claim="The variance of the gradient falls as one over the batch size, and the noise scale "
        "grows as the loss falls.",
        source=Source(
            authors="McCandlish et al.",
            year=2018,
            title="An Empirical Model of Large-Batch Training",
            place="section 2.2",
        ),
        concepts=("sgd_step", "training.batch_size", "training.accumulation"),
        checks=(
            in_range("slope of log noise by log batch size", -1.2, -0.8),
            lower_bound("log of noise scale at the end over after 10 updates", 0.0),
        ),
        measure=_noise_scale,
        seeds=5,
        quick_seeds=3,
    ),
)
