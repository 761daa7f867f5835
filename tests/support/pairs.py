"""Pairs that a tiny encoder-decoder learns in seconds: a few letters, and the same backwards."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from pellucid.runs import Run

_STACKS = ("encoder", "decoder")
_ATTENTION = ("encoder.attention", "decoder.attention", "decoder.cross_attention")

#: What makes `nano-pair` tiny; also usable as --set flags.
TINY_PAIR = (
    "text.tokenizer=Characters",
    "text.held_out=0.1",
    "model.context_length=8",
    "model.d_model=32",
    *(f"model.{stack}.n_layers=1" for stack in _STACKS),
    *(f"model.{stack}.dropout=0.0" for stack in _STACKS),
    *(f"model.{stack}.feed_forward.d_ff=64" for stack in _STACKS),
    *(f"model.{each}.n_heads=2" for each in _ATTENTION),
    *(f"model.{each}.n_kv_heads=2" for each in _ATTENTION),
    *(f"model.{each}.d_head=16" for each in _ATTENTION),
    "training.batch_size=64",
    "training.precision=float32",
    "training.device=cpu",
    "training.log_every=100",
    "training.evaluate_every=1000",
    "training.checkpoint_every=1000",
)


def words(n: int = 1500, *, letters: str = "abcdefgh", longest: int = 5) -> list[str]:
    """`n` different words of these letters, none of them any language's."""
    draw = random.Random(1)
    unique_words = dict[str, None]()
    while len(unique_words) < n:
        unique_words["".join(draw.choice(letters) for _ in range(draw.randint(1, longest)))] = None
    return sorted(unique_words)


def write_pairs(file: Path, pairs: Sequence[tuple[str, str]]) -> Path:
    """Pairs as a table whose columns are called source and target."""
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    file.write_text("source\ttarget\n" + "".join(lines), encoding="utf-8")
    return file


def train_pairs(
    out: Path, file: Path, *, steps: int, settings: Sequence[str] = (), objective: str = "seq2seq"
) -> Run:
    """Train the tiny pair of stacks on a file, into `out`."""
    import pellucid

    return pellucid.train(
        [file],
        objective=objective,
        out=out,
        steps=steps,
        settings=[*TINY_PAIR, *settings],
        show=False,
    )
