"""A tiny model with a whole life: rows to answer, to prefer, to be rewarded for, and runs."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pellucid
from pellucid.runs import Run
from pellucid.training import Observer
from support.tiny import TINY

WORDS = ("red", "blue", "green", "black", "white")
#: What makes any stage of the life tiny: one window holds a prompt in its template and an answer.
SMALL = (
    "training.batch_size=4",
    "training.precision=float32",
    "training.device=cpu",
    "training.log_every=3",
    "training.evaluate_every=100",
    "training.checkpoint_every=4",
    "training.keep_checkpoints=4",
    "text.held_out=0.2",
)


def rows(n: int = 16, seed: int = 0) -> list[dict[str, str]]:
    """Prompts to say two words, with answers of different lengths."""
    draw = random.Random(seed)
    row_list: list[dict[str, str]] = []
    for number in range(n):
        first_word, second_word = draw.choices(WORDS, k=2)
        row_list.append(
            {
                "instruction": f"say {first_word} {number}",
                "output": first_word if number % 3 else f"{first_word} and {second_word}.",
                "chosen": f"{first_word}.",
                "rejected": f"no {second_word}",
            }
        )
    return row_list


def write_rows(folder: Path, given: Sequence[dict[str, Any]] | None = None) -> Path:
    """The rows as a JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "rows.json"
    file.write_text(json.dumps(rows() if given is None else list(given)), encoding="utf-8")
    return file


def pretrain(folder: Path, *, steps: int = 8) -> Path:
    """A base model whose window holds an example."""
    file = folder.parent / "base.txt"
    text = " ".join(f"{row['instruction']} {row['output']}" for row in rows(60, seed=1))
    file.write_text(text, encoding="utf-8")
    settings = [*TINY, "model.context_length=96", "text.held_out=0.2"]
    pellucid.train([file], out=folder, steps=steps, settings=settings, show=False)
    return folder


def tune(
    folder: Path,
    objective: str,
    start: Path,
    file: Path,
    *,
    steps: int = 6,
    settings: Sequence[str] = (),
    observers: Sequence[Observer] = (),
    **choices: Any,
) -> Run:
    """A stage of the life: trained on from `start` into `folder`."""
    short = ["objective.max_new_tokens=6"] if objective == "policy-gradient" else []
    return pellucid.train(
        [file],
        objective=objective,
        start=start,
        out=folder,
        steps=steps,
        settings=[*SMALL, *short, *settings],
        observers=observers,
        show=False,
        **choices,
    )


def short_and_finished(row: dict[str, object], answer: str) -> float:
    """A reward: 1 for a full stop at the end, minus a penalty for length."""
    del row
    return float(answer.endswith(".")) - 0.05 * len(answer)
