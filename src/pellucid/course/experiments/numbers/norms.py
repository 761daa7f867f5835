"""Claims about norms: which numbers share a mean, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

from pellucid import model
from pellucid.course.experiments.picture import Curves, bars, curve
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
from pellucid.maths.activations import relu
from pellucid.maths.batch_norm import batch_norm, batch_norm_inference, batch_norm_update
from pellucid.maths.norms import instance_norm, layer_norm, rms_norm
from pellucid.maths.weight_norms import power_iteration, spectral_norm, weight_norm
from pellucid.typed import backward


def _and_the_batch(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    row = random.normal(size=(1, 8, 16))
    gain, bias = np.ones(16), np.zeros(16)
    neighbours, others = random.normal(size=(2, 3, 8, 16)) * 3 + 1
    padded = np.concatenate([row, np.zeros((1, 8, 16))])
    changes: dict[str, float] = {}
    norms: dict[str, Callable[[Any], Any]] = {
        "LayerNorm": lambda x: layer_norm(x, gain, bias, eps=1e-5),
        "RMSNorm": lambda x: rms_norm(x, gain, eps=1e-5),
        "BatchNorm": lambda x: batch_norm(x, gain, bias, eps=1e-5),
    }
    for name, norm in norms.items():
        first = norm(np.concatenate([row, neighbours]))[0]
        second = norm(np.concatenate([row, others]))[0]
        changes[f"{name}: other neighbours"] = float(np.abs(first - second).max())
        lone_row = norm(row)[0]
        changes[f"{name}: padding added"] = float(np.abs(norm(padded)[0] - lone_row).max())
    lone = batch_norm(row[:, :1].reshape(1, 16), gain, bias, eps=1e-5)
    batch = np.concatenate([row, neighbours]).reshape(-1, 16)
    mean, var = np.zeros(16), np.ones(16)
    for _ in range(3):
        mean, var = batch_norm_update(mean, var, batch, momentum=0.1)
    evaluated = batch_norm_inference(batch, gain, bias, mean, var, eps=1e-5)
    trained = batch_norm(batch, gain, bias, eps=1e-5)
    changes["BatchNorm: evaluation, not training"] = float(np.abs(evaluated - trained).max())
    return Reading(
        numbers={f"change by {key}": value for key, value in changes.items()}
        | {"largest output of BatchNorm on a batch of one token": float(np.abs(lone).max())},
        picture=bars("How much the same row changes", changes),
    )


def _leaks_future(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    x = random.normal(size=(1, 12, 16))
    changed_tokens = x.copy()
    changed_tokens[:, -1] += 3
    gain, bias = np.ones(16), np.zeros(16)
    changes: dict[str, list[float]] = {}
    norms: dict[str, Callable[[Any], Any]] = {
        "over tokens": lambda x: instance_norm(x, gain, bias, eps=1e-5),
        "over features": lambda x: layer_norm(x, gain, bias, eps=1e-5),
    }
    for name, norm in norms.items():
        changes[name] = [float(v) for v in np.abs(norm(changed_tokens) - norm(x))[0].max(-1)]
    return Reading(
        numbers={
            "change at the first token, norm over tokens": changes["over tokens"][0],
            "change at the first token, norm over features": changes["over features"][0],
        },
        picture=Curves(
            title="Change the last of 12 tokens: where does the norm's output change?",
            x_label="token",
            y_label="largest change",
            curves=tuple(curve(name, range(1, 13), values) for name, values in changes.items()),
        ),
    )


def _seconds_of_norms(setting: Setting) -> Reading:
    x = torch.randn(8 * 256, 768, requires_grad=True)
    gain, bias = torch.ones(768), torch.zeros(768)
    fused = {
        "LayerNorm": model.LayerNorm(768, eps=1e-5, bias=True),
        "RMSNorm": model.RMSNorm(768, eps=1e-5),
    }
    kinds: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "LayerNorm, step by step": lambda x: layer_norm(x, gain, bias, eps=1e-5),
        "RMSNorm, step by step": lambda x: rms_norm(x, gain, eps=1e-5),
        "LayerNorm, in a model": fused["LayerNorm"],
        "RMSNorm, in a model": fused["RMSNorm"],
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(16 if setting.quick else 40):
        for name, norm in kinds.items():
            started = time.process_time()
            backward(norm(x).sum())
            times[name].append((time.process_time() - started) * 1000)
    middle = {name: median(values[1:]) for name, values in times.items()}  # the first warms up
    return Reading(
        numbers={
            f"time of RMSNorm over LayerNorm, {setup}": middle[f"RMSNorm, {setup}"]
            / middle[f"LayerNorm, {setup}"]
            for setup in ("step by step", "in a model")
        },
        picture=bars(
            "Forward and backward of 2,048 rows of 768 features, milliseconds of processor", middle
        ),
    )


def _lipschitz(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    matrices = random.normal(size=(6, 48, 48)) / 48**0.5
    kinds = {"plain": matrices}
    kinds["weight norm"] = np.stack([weight_norm(w, np.ones(48)) for w in matrices])
    kinds["spectral norm"] = np.stack(
        [spectral_norm(w, *power_iteration(w, random.normal(size=48), steps=500)) for w in matrices]
    )
    bounds: dict[str, float] = {}
    stretches: dict[str, float] = {}
    inputs = random.normal(size=(64, 48))
    nearby = inputs + 1e-3 * random.normal(size=inputs.shape)
    for name, stack in kinds.items():
        bounds[name] = float(np.prod([np.linalg.svd(w, compute_uv=False)[0] for w in stack]))
        x, y = inputs, nearby
        for w in stack:
            x, y = relu(x @ w.T), relu(y @ w.T)
        distance = np.linalg.norm(x - y, axis=-1) / np.linalg.norm(inputs - nearby, axis=-1)
        stretches[name] = float(distance.max())
    return Reading(
        numbers={
            "bound of six layers, spectral norm": bounds["spectral norm"],
            "bound of six layers, weight norm": bounds["weight norm"],
            "largest stretch of 64 inputs, spectral norm": stretches["spectral norm"],
            "largest stretch over its bound, plain": stretches["plain"] / bounds["plain"],
        },
        picture=bars(
            "By how much six layers with ReLU stretch a distance: the bound, and the largest seen",
            {f"bound, {name}": value for name, value in bounds.items()}
            | {f"seen, {name}": value for name, value in stretches.items()},
        ),
    )


_LAYER_NORM = Source(
    authors="Ba, Kiros and Hinton", year=2016, title="Layer Normalization", place="section 3"
)

EXPERIMENTS = (
    Experiment(
        name="norms-and-the-batch",
        title="LayerNorm and RMSNorm ignore the batch, BatchNorm does not",
        description="Normalise one row with other neighbours, with padding, alone, and as in "
        "evaluation.",
        question=Question(
            text="Only the other rows of the batch change. Whose output changes for your row?",
            choices=("BatchNorm's", "LayerNorm's", "nobody's"),
        ),
        claim="BatchNorm depends on the batch: on neighbours, on padding, on training or "
        "evaluation, and it erases a batch of one; LayerNorm and RMSNorm depend on none of these.",
        source=Source(
            authors="Ba, Kiros and Hinton",
            year=2016,
            title="Layer Normalization",
            place="section 3",
        ),
        concepts=("layer_norm", "rms_norm", "batch_norm", "model.decoder.norm"),
        checks=(
            upper_bound("change by LayerNorm: other neighbours", 1e-9),
            upper_bound("change by RMSNorm: other neighbours", 1e-9),
            lower_bound("change by BatchNorm: other neighbours", 0.1),
            upper_bound("change by LayerNorm: padding added", 1e-9),
            lower_bound("change by BatchNorm: padding added", 0.1),
            lower_bound("change by BatchNorm: evaluation, not training", 0.1),
            upper_bound("largest output of BatchNorm on a batch of one token", 1e-6),
        ),
        measure=_and_the_batch,
        seeds=10,
        quick_seeds=5,
    ),
    Experiment(
        name="norm-leaks-future",
        title="A norm that looks at other tokens leaks the future",
        description="Change the last token, and see whether the norm changes the first.",
        question=Question(
            text="A norm takes its mean over the tokens of a text. Is the model still causal?",
            choices=("no", "yes", "only in evaluation"),
        ),
        claim="A norm over tokens lets the first position depend on the last; a norm over "
        "features does not.",
        source=Source(
            authors="Ba, Kiros and Hinton",
            year=2016,
            title="Layer Normalization",
            place="section 3",
        ),
        concepts=("instance_norm", "layer_norm", "model.decoder.norm"),
        checks=(
            lower_bound("change at the first token, norm over tokens", 0.01),
            upper_bound("change at the first token, norm over features", 1e-9),
        ),
        measure=_leaks_future,
        seeds=10,
        quick_seeds=5,
    ),
    Experiment(
        name="rms-norm-is-faster",
        title="RMSNorm against LayerNorm in time",
        description="Time both norms in turns: as their equations one operation at a time, and as "
        "a model runs them.",
        question=Question(
            text="RMSNorm leaves out the mean. How much time does the norm itself save here?",
            choices=("7% or more", "almost nothing", "half"),
        ),
        claim="RMSNorm takes 7% to 64% less time than LayerNorm.",
        source=Source(
            authors="Zhang and Sennrich",
            year=2019,
            title="Root Mean Square Layer Normalization",
            place="abstract",
        ),
        concepts=("rms_norm", "layer_norm", "model.decoder.norm"),
        checks=(
            upper_bound("time of RMSNorm over LayerNorm, step by step", 0.93),
            upper_bound("time of RMSNorm over LayerNorm, in a model", 0.93),
        ),
        measure=_seconds_of_norms,
        seeds=7,
        quick_seeds=5,
    ),
    Experiment(
        name="lipschitz-bound",
        title="Spectral norm bounds the stretch of a network, weight norm does not",
        description="Send nearby inputs through six layers with plain, weight-normed and "
        "spectral-normed matrices.",
        question=Question(
            text="Every matrix is divided by its largest singular value. Six layers with ReLU",
            choices=("never stretch a distance", "stretch it six times", "may stretch it freely"),
        ),
        claim="With spectral norm the Lipschitz constant of a stack is at most 1. Weight norm "
        "fixes the length of rows and gives no such bound.",
        source=Source(
            authors="Miyato et al.",
            year=2018,
            title="Spectral Normalization for Generative Adversarial Networks",
            place="section 2.1",
        ),
        concepts=("spectral_norm", "weight_norm", "power_iteration"),
        checks=(
            in_range("bound of six layers, spectral norm", 0.99, 1.01),
            upper_bound("largest stretch of 64 inputs, spectral norm", 1.01),
            lower_bound("bound of six layers, weight norm", 1.5),
            upper_bound("largest stretch over its bound, plain", 1.0),
        ),
        measure=_lipschitz,
        seeds=10,
        quick_seeds=5,
    ),
)
