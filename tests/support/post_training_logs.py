"""Logs of preferences and rewards, as TRL writes them, of curves that are made up by a seed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

Row = dict[str, float]


def dpo(seed: int = 0, rows: int = 40, rise: float = 1.2) -> list[Row]:
    """Margins that rise with noise; both answers become a little less likely, as they do."""
    draws = random.Random(seed)
    log: list[Row] = []
    for i in range(rows):
        progress, noise = 1 - math.exp(-3 * i / rows), draws.gauss(0, 0.15 * (i > 0))
        margin, length = rise * progress + noise, draws.gauss(250, 30)
        chosen_reward = -0.6 * rise * progress + draws.gauss(0, 0.1 * (i > 0))
        log.append({
            "loss": math.log1p(math.exp(-margin)) + draws.random() * 0.05 * (i > 0),
            "grad_norm": 8 * math.exp(draws.gauss(0, 0.3)),
            "learning_rate": 5e-7 * min(1, (i + 1) / 8),
            "rewards/chosen": chosen_reward,
            "rewards/rejected": chosen_reward - margin,
            "rewards/accuracies": min(1.0, max(0.0, 0.5 * (i > 0) + 0.22 * progress + noise / 3)),
            "rewards/margins": margin,
            "logps/chosen": -length + 10 * chosen_reward,
            "logps/rejected": -length + 10 * (chosen_reward - margin),
        })  # fmt: skip
    return log


def grpo(seed: int = 0, rows: int = 60) -> list[Row]:
    """A reward that rises, longer answers, and a loss that says nothing."""
    draws = random.Random(seed)
    log: list[Row] = []
    for i in range(rows):
        progress = 1 - math.exp(-2 * i / rows)
        right = min(1.0, max(0.0, 0.2 + 0.4 * progress + draws.gauss(0, 0.08)))
        log.append({
            "loss": max(0.0, draws.gauss(0.002 * progress, 0.01)),
            "grad_norm": 0.3 * math.exp(draws.gauss(0, 0.4)),
            "learning_rate": 1e-6 * min(1, (i + 1) / 6),
            "rewards/accuracy_reward/mean": right,
            "rewards/format_reward/mean": min(1.0, progress + draws.random() * 0.1),
            "reward": right + min(1.0, progress + draws.random() * 0.1),
            "reward_std": abs(draws.gauss(0.3, 0.05)),
            "frac_reward_zero_std": min(1.0, abs(draws.gauss(0.3, 0.15))),
            "kl": 0.02 * progress * math.exp(draws.gauss(0, 0.5)),
            "completions/mean_length": 300 * (1 + progress) * math.exp(draws.gauss(0, 0.1)),
            "completions/clipped_ratio": min(1.0, abs(draws.gauss(0.1, 0.05))),
            "clip_ratio/region_mean": abs(draws.gauss(0.001, 0.001)),
            "entropy": 0.5 - 0.3 * progress + draws.gauss(0, 0.02),
        })  # fmt: skip
    return log


def column(log: Sequence[Row], name: str, *values: float) -> list[Row]:
    """The rows with another column: one value for all, or a straight line between two."""
    first, last, n = values[0], values[-1], len(log) - 1
    return [row | {name: first + (last - first) * i / n} for i, row in enumerate(log)]


def state(folder: Path, log: Sequence[Row], every: int = 10) -> Path:
    """As TRL's trainers save them in `trainer_state.json`."""
    history = [row | {"step": every * (i + 1), "epoch": i / len(log)} for i, row in enumerate(log)]
    file = folder / "trainer_state.json"
    file.write_text(json.dumps({"log_history": history, "global_step": every * len(log)}))
    return file
