"""Texts whose class is one of their words, and a classifier that learns them in a second."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pellucid import runs

#: Each class with the words that tell it.
TELLING = {"animals": ("cat", "dog"), "capitals": ("paris", "rome"), "food": ("bread", "soup")}
_FILLING = ("the", "a", "we", "saw", "then", "again", "so", "there")
#: What makes an encoder tiny; also usable as --set flags.
TINY = (
    "text.tokenizer.vocab_size=280",
    "text.held_out=0.25",
    "model.context_length=32",
    "model.d_model=32",
    "model.encoder.n_layers=1",
    "model.encoder.dropout=0.1",
    "model.encoder.attention.n_heads=2",
    "model.encoder.attention.n_kv_heads=2",
    "model.encoder.attention.d_head=16",
    "model.encoder.feed_forward.d_ff=32",
    "training.batch_size=8",
    "training.precision=float32",
    "training.device=cpu",
    "training.log_every=2",
    "training.evaluate_every=1000",
    "training.checkpoint_every=4",
    "training.keep_checkpoints=9",
)


def text_of(words: Iterable[str], number: int) -> str:
    """Filling words with the telling ones among them."""
    chance = random.Random(number)
    text_words = [*chance.sample(_FILLING, 4), *words]
    chance.shuffle(text_words)
    return f"{' '.join(text_words)} {number}"


def write_labelled(file: Path, n: int = 96, *, shuffled: bool = False) -> Path:
    """`n` texts with one class each; with `shuffled`, also texts with several."""
    names = list(TELLING)
    chance = random.Random(0)
    labels = [names[number % len(names)] for number in range(n)]
    texts = [text_of([chance.choice(TELLING[name])], i) for i, name in enumerate(labels)]
    if shuffled:
        chance.shuffle(labels)
    return _write(file, zip(texts, labels, strict=True))


def write_several(file: Path, n: int = 96) -> Path:
    """`n` texts with none, one or several classes each, parted by a semicolon."""
    chance = random.Random(0)
    rows: list[tuple[str, str]] = []
    for number in range(n):
        names = [name for name in TELLING if chance.random() < 0.4]
        words = [chance.choice(TELLING[name]) for name in names]
        rows.append((text_of(words, number), ";".join(names) or ";"))
    return _write(file, rows)


def train_labelled(
    out: Path, data: Path, *, settings: Sequence[str] = (), **given: Any
) -> runs.Run:
    """A classifier of such texts; eight updates by default."""
    length: dict[str, Any] = {} if {"epochs", "steps"} & given.keys() else {"steps": 8}
    return runs.train(
        [data],
        objective="classify",
        out=out,
        settings=[*TINY, *settings] if given.get("start") is None else [*TINY[-9:], *settings],
        show=False,
        **length,
        **given,
    )


def _write(file: Path, rows: Iterable[tuple[str, str]]) -> Path:
    lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in rows)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
