"""Claims about first weights, and the first steps of optimisers."""

from __future__ import annotations

import numpy as np

from pellucid.course.experiments.picture import Curves, bars, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    in_range,
    lower_bound,
)
from pellucid.maths.activations import relu
from pellucid.maths.initialisation import he_std
from pellucid.maths.optimisers import adam_step, adamw_step

_ADAM: dict[str, float] = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}


def _first_weights(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    width, depth = 512, 10
    draws = {
        "rand": lambda: random.random((width, width)),
        "randn": lambda: random.normal(size=(width, width)),
        "Kaiming": lambda: random.normal(size=(width, width)) * he_std(width),
    }
    deviations: dict[str, list[float]] = {}
    for name, draw in draws.items():
        x = random.normal(size=(64, width))
        deviations[name] = []
        for _ in range(depth):
            x = relu(x) @ draw().T
            deviations[name].append(float(x.std()))
    return Reading(
        numbers={
            f"deviation after 10 layers, {name} (powers of ten)": float(np.log10(values[-1]))
            for name, values in deviations.items()
        },
        picture=Curves(
            title="The standard deviation after each of 10 layers of 512 inputs with ReLU",
            x_label="layer",
            y_label="deviation",
            curves=tuple(curve(name, range(1, 11), v) for name, v in deviations.items()),
            log_y=True,
        ),
    )


def _bias_correction(setting: Setting) -> Reading:
    steps = range(1, 101)
    w = m = v = np.zeros(1)
    corrected: list[float] = []
    for step in steps:
        new, m, v = adam_step(w, np.ones(1), m, v, step=step, l2=0.0, **_ADAM)
        corrected.append(float(abs(new - w)[0]) / 1e-3)
        w = new
    m0 = v0 = 0.0
    plain: list[float] = []
    for _ in steps:
        m0, v0 = 0.9 * m0 + 0.1, 0.999 * v0 + 0.001
        plain.append(m0 / (v0**0.5 + 1e-8))
    return Reading(
        numbers={
            "first step with the correction (learning rates)": corrected[0],
            "first step without it (learning rates)": plain[0],
            "largest step without it (learning rates)": max(plain),
            "largest step with it (learning rates)": max(corrected),
        },
        picture=Curves(
            title="Adam's steps while the gradient is always 1",
            x_label="step",
            y_label="learning rates",
            curves=(curve("corrected", steps, corrected), curve("not corrected", steps, plain)),
        ),
    )


def _decay(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    size = np.array([0.01] * 50 + [10.0] * 50)
    remainders: dict[str, list[float]] = {}
    for name in ("AdamW", "Adam with L2"):
        w, m, v = np.ones(100), np.zeros(100), np.zeros(100)
        for step in range(1, 1001):
            grad = random.normal(size=100) * size
            if name == "AdamW":
                w, m, v = adamw_step(w, grad, m, v, step=step, weight_decay=0.5, **_ADAM)
            else:
                w, m, v = adam_step(w, grad, m, v, step=step, l2=0.5, **_ADAM)
        remainders[name] = [float(w[:50].mean()), float(w[50:].mean())]
    return Reading(
        numbers={
            "AdamW: weight left, small gradients": remainders["AdamW"][0],
            "AdamW: weight left, large gradients": remainders["AdamW"][1],
            "AdamW: large minus small": remainders["AdamW"][1] - remainders["AdamW"][0],
            "Adam with L2: large minus small": remainders["Adam with L2"][1]
            - remainders["Adam with L2"][0],
        },
        picture=bars(
            "What 1,000 steps of decay leave of weights that start at 1 (gradients are noise)",
            {
                f"{name}, {gradient} gradients": value
                for name, pair in remainders.items()
                for gradient, value in zip(("small", "large"), pair, strict=True)
            },
        ),
    )


EXPERIMENTS = (
    Experiment(
        name="first-weights",
        title="First weights from rand, randn and Kaiming",
        description="Send numbers of deviation 1 through 10 layers of 512 inputs.",
        question=Question(
            text="Ten layers of 512 inputs start with randn. The deviation after them is about",
            choices=("a million million", "1", "512"),
        ),
        claim="rand and randn let the deviation explode with depth; Kaiming's factor keeps it "
        "near its start.",
        source=Source(
            authors="He et al.",
            year=2015,
            title="Delving Deep into Rectifiers",
            place="section 2.2",
        ),
        concepts=("he_std", "linear_variance", "chained_variance", "model.initialisation.weights"),
        checks=(
            lower_bound("deviation after 10 layers, rand (powers of ten)", 6),
            lower_bound("deviation after 10 layers, randn (powers of ten)", 6),
            in_range("deviation after 10 layers, Kaiming (powers of ten)", -0.5, 0.5),
        ),
        measure=_first_weights,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="bias-correction",
        title="Adam without bias correction starts with steps that are too large",
        description="Feed Adam a gradient of 1, with and without its correction of the averages.",
        question=Question(
            text="Betas are 0.9 and 0.999. How long is the first step without the correction?",
            choices=("3.2 learning rates", "1 learning rate", "0.1 learning rates"),
        ),
        claim="Without the correction of averages that start at 0, Adam's first steps are "
        "several learning rates long.",
        source=Source(
            authors="Kingma and Ba",
            year=2015,
            title="Adam: A Method for Stochastic Optimization",
            place="sections 3 and 6.4",
        ),
        concepts=("adam_step", "adamw_step", "optimiser.betas"),
        checks=(
            in_range("first step with the correction (learning rates)", 0.999, 1.001),
            lower_bound("first step without it (learning rates)", 3),
        ),
        measure=_bias_correction,
    ),
    Experiment(
        name="adamw-against-adam-with-l2",
        title="AdamW decays all weights alike, Adam with L2 does not",
        description="Decay weights for 1,000 steps while their gradients are large or small noise.",
        question=Question(
            text="Adam gets its L2 through the gradient. Which weights shrink least?",
            choices=("those with large gradients", "those with small gradients", "all alike"),
        ),
        claim="In Adam with L2, weights with large gradients are decayed less; AdamW's decay is "
        "the same for all.",
        source=Source(
            authors="Loshchilov and Hutter",
            year=2019,
            title="Decoupled Weight Decay Regularization",
            place="section 2",
        ),
        concepts=("adamw_step", "adam_step", "optimiser.weight_decay"),
        checks=(
            in_range("AdamW: large minus small", -0.05, 0.05),
            lower_bound("Adam with L2: large minus small", 0.2),
        ),
        measure=_decay,
        seeds=8,
        quick_seeds=5,
    ),
)
