"""Histories that are made up: a healthy one, and what changes in it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pellucid.diagnosis import Facts, History, Points, Reading

VOCAB, UNIGRAM, BIGRAM = 96, 3.2, 2.45
GUESSING = math.log(VOCAB)

FACTS = Facts(
    vocab_size=VOCAB,
    n_layers=8,
    d_head=16,
    d_model=64,
    norm="pre",
    residual=True,
    final_norm=True,
    score_scale=1.0,
    dropout=0.1,
    optimiser="AdamW",
    learning_rate=1e-3,
    warmup_steps=20,
    total_steps=200,
    betas=(0.9, 0.95),
    eps=1e-8,
    weight_decay=0.1,
    decays="matrices",
    clip_norm=1.0,
    batch_tokens=1024,
    precision="float32",
    weights="float32",
    pretrained=False,
    objective="NextToken",
    unigram=UNIGRAM,
    bigram=BIGRAM,
    norm_eps=1e-5,
)

#: What each sign is at its first look, and at its last.
CALM: dict[str, tuple[float, float]] = {
    "attention.max_logit": (0.4, 5.0),
    "attention.entropy": (0.99, 0.6),
    "loss.probe": (GUESSING, 2.5),
    "logits.log_z": (4.57, 5.0),
    "gradient.depth_ratio": (1.4, 2.0),
    "gradient.missing": (0.0, 0.0),
    "gradient.left": (0.0, 0.0),
    "gradient.cosine": (0.6, 0.1),
    "gradient.rms_t": (1.0, 1.5),
    "batch.repeats": (0.0, 0.0),
    "batch.repetitive": (0.0, 0.0),
    "update.effective_step": (1.0, 0.25),
    "update.ratio": (0.002, 0.008),
    "update.ratio_low": (0.001, 0.004),
    "update.kl_forward": (1e-3, 1e-3),
    "norm.variance_over_eps": (50.0, 500.0),
    "norm.gain_low": (1.0, 0.95),
    "stream.size": (0.1, 2.0),
    "stream.growth": (1.5, 2.0),
    "stream.branch_ratio": (0.7, 0.3),
    "tokens.cosine": (0.5, 0.3),
    "units.dead": (0.0, 0.0),
    "weights.size": (0.4, 0.5),
    "embeddings.rms": (1.0, 1.6),
}


def curve(start: float, end: float, updates: int = 200, *, quick: float = 30.0) -> Points:
    """A loss that falls, with some noise."""
    draws = random.Random(3)
    return tuple(
        (n, end + (start - end) * math.exp(-(n - 1) / quick) + draws.gauss(0, 0.02))
        for n in range(1, updates + 1)
    )


def sign(first: float, last: float, *, updates: int = 200, word: str = "calm") -> Any:
    """Readings from one value to another, soon; the first is calm."""
    steps = [1, 5, *range(10, updates + 1, 10)]
    return tuple(
        Reading(n, last + (first - last) * math.exp(-(n - 1) / 10), "calm" if n == 1 else word)
        for n in steps
    )


def healthy(updates: int = 200) -> History:
    """A training as it should be."""
    return History(
        name="made up",
        losses=curve(GUESSING, 2.5, updates),
        grad_norms=tuple((n, 0.8 + 0.1 * math.sin(n)) for n in range(1, updates + 1)),
        rates=tuple((n, 1e-3 * min(1.0, n / 20)) for n in range(1, updates + 1)),
        signs={id: sign(*ends, updates=updates) for id, ends in CALM.items()},
        facts=FACTS,
    )


def but(
    *, facts: dict[str, Any] | None = None, signs: dict[str, Any] | None = None, **changes: Any
) -> Callable[[], History]:
    """A healthy history, with these changes."""

    def make() -> History:
        base = healthy()
        extra_signs = {
            id: sign(*value) if len(value) == 2 else value for id, value in (signs or {}).items()
        }
        return replace(
            base,
            facts=replace(base.facts, **(facts or {})),
            signs={**base.signs, **extra_signs},
            **changes,
        )

    return make


def flat(value: float, updates: int = 200) -> Points:
    """A loss that is guessing at first, and soon stays at a value."""
    return curve(GUESSING, value, updates, quick=5.0)
