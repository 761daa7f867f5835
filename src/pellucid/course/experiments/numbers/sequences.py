"""Claims about a sequence that need no training: rotary scores, and the time of attention."""

from __future__ import annotations

import math
import time
from statistics import median
from typing import Any

import numpy as np
import torch

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
from pellucid.maths.attention.attention import attention
from pellucid.maths.attention.linear_attention import linear_attention_in_chunks
from pellucid.maths.positions.rotary import rotary_angles, rotate


def _rotary_shift(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    q, k = random.normal(size=(2, 6, 32))
    places = np.arange(6.0)

    def scores(shift: float) -> Any:
        angles = rotary_angles(places + shift, d_head=32, base=10_000.0)
        rotated_vectors = [rotate(x, angles, pairing="half_split") for x in (q, k)]
        return rotated_vectors[0] @ rotated_vectors[1].T

    shifts = (1, 10, 100, 1000)
    changes = [float(np.abs(scores(shift) - scores(0)).max()) for shift in shifts]
    angles = rotary_angles(places + 3, d_head=32, base=10_000.0)
    shifted_keys = rotate(k, angles, pairing="half_split")
    queries = rotate(q, rotary_angles(places, d_head=32, base=10_000.0), pairing="half_split")
    return Reading(
        numbers={
            "largest change of a score, both shifted by 1,000": changes[-1],
            "largest change of a score, only keys shifted by 3": float(
                np.abs(queries @ shifted_keys.T - scores(0)).max()
            ),
        },
        picture=bars(
            "The largest change of 36 scores when queries and keys shift together",
            {f"by {shift}": change for shift, change in zip(shifts, changes, strict=True)},
        ),
    )


def _attention_cost(setting: Setting) -> Reading:
    lengths = (512, 1024, 2048)
    times: dict[str, list[float]] = {"softmax": [], "linear": []}
    for length in lengths:
        q, k, v = torch.randn(3, 4, length, 32)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        for name in times:
            seconds: list[float] = []
            for _ in range(4):
                started = time.process_time()
                if name == "softmax":
                    attention(q, k, v, mask=mask)
                else:
                    linear_attention_in_chunks(q, k, v, eps=1e-6, chunk=64)
                seconds.append(time.process_time() - started)
            times[name].append(median(seconds[1:]) * 1000)
    slopes = {
        name: math.log(values[-1] / values[0]) / math.log(lengths[-1] / lengths[0])
        for name, values in times.items()
    }
    return Reading(
        numbers={
            "power of the length, softmax": slopes["softmax"],
            "power of the length, linear": slopes["linear"],
        },
        picture=Curves(
            title="Milliseconds of processor for four heads",
            x_label="length in tokens",
            y_label="milliseconds",
            curves=tuple(curve(name, lengths, values) for name, values in times.items()),
            log_x=True,
            log_y=True,
        ),
    )


EXPERIMENTS = (
    Experiment(
        name="rotary-shift",
        title="Rotary scores do not change when both positions shift",
        description="Shift queries and keys together, and compare their scores.",
        question=Question(
            text="Query and key both move 1,000 places. Their rotary score",
            choices=("stays the same", "falls", "changes its sign"),
        ),
        claim="With rotary positions a score depends on the distance of query and key only.",
        source=Source(
            authors="Su et al.",
            year=2021,
            title="RoFormer: Enhanced Transformer with Rotary Position Embedding",
            place="section 3.2",
        ),
        concepts=("rotate", "rotary_angles", "model.decoder.positions"),
        checks=(
            upper_bound("largest change of a score, both shifted by 1,000", 1e-9),
            lower_bound("largest change of a score, only keys shifted by 3", 0.1),
        ),
        measure=_rotary_shift,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="attention-cost",
        title="The cost of attention by length",
        description="Time softmax and linear attention from 512 to 2,048 tokens.",
        question=Question(
            text="A text becomes 8 times longer. Softmax attention takes",
            choices=("64 times as long", "8 times as long", "512 times as long"),
        ),
        claim="The time of softmax attention grows as the square of the length, linear "
        "attention's as the length.",
        source=Source(
            authors="Katharopoulos et al.",
            year=2020,
            title="Transformers are RNNs",
            place="section 3.2",
        ),
        concepts=("attention", "linear_attention", "linear_attention_in_chunks"),
        checks=(
            in_range("power of the length, softmax", 1.6, 2.4),
            in_range("power of the length, linear", 0.6, 1.4),
        ),
        measure=_attention_cost,
        seeds=5,
        quick_seeds=3,
    ),
)
