"""Claims about what a model carries from far back: recurrence, attention, a memory."""

from __future__ import annotations

from typing import Any

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
)
from pellucid.course.experiments.small_models import (
    next_token_batch,
    share_right,
    small_model,
    train,
)
from pellucid.model import assemble


class _Recurrent(nn.Module):
    """A GRU between the same embedding and head, as an objective sees a model."""

    head_bias = None
    soft_cap = None

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.recurrence = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, vocab_size, bias=False)

    @property
    def head_weight(self) -> Tensor:
        return self.head.weight

    def hidden_states(self, ids: Tensor, **context: Any) -> Tensor:
        return self.recurrence(self.embedding(ids))[0]

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.hidden_states(ids))


def _copying(setting: Setting) -> Reading:
    steps, vocab_size = (150 if setting.quick else 500), 16
    lengths = (4, 16)
    right: dict[str, list[float]] = {"attention": [], "recurrent": []}
    for length in lengths:

        def batch(step: int, rows: int = 16, length: int = length) -> TokenBatch:
            generator = torch.Generator().manual_seed(setting.seed * 1_000_003 + step)
            text = torch.randint(1, vocab_size, (rows, length), generator=generator)
            row = torch.cat([text, torch.zeros(rows, 1, dtype=torch.long), text], 1)
            copied = torch.zeros_like(row, dtype=torch.bool)
            copied[:, length + 1 :] = True
            return next_token_batch(row, copied)

        models = {
            "attention": assemble(
                small_model(vocab_size=vocab_size, context_length=2 * length), seed=setting.seed
            ),
            "recurrent": _Recurrent(vocab_size, 96),
        }
        for name, model in models.items():
            trained = train(model, batch, setting=setting, steps=steps)  # pyright: ignore[reportArgumentType]
            right[name].append(share_right(trained.model, batch(10**6, 128)))
    return Reading(
        numbers={
            "copied right, 16 tokens, attention": right["attention"][1],
            "copied right, 16 tokens, recurrent": right["recurrent"][1],
            "attention minus recurrent, 16 tokens": right["attention"][1] - right["recurrent"][1],
        },
        picture=Curves(
            title=f"Tokens copied right after {steps} updates",
            x_label="length of the text to copy",
            y_label="share right",
            curves=tuple(curve(name, lengths, values) for name, values in right.items()),
        ),
    )


def _test_time_memory(setting: Setting) -> Reading:
    steps = 150 if setting.quick else 600
    n_keys, window = 8, 8

    def batch(step: int, rows: int = 16, gap: int = 16) -> TokenBatch:
        """Four pairs, filler, then the keys again: their values are asked for."""
        generator = torch.Generator().manual_seed(setting.seed * 1_000_003 + step)
        keys = torch.rand(rows, n_keys, generator=generator).argsort(1)[:, :4]
        values = torch.randint(n_keys, 2 * n_keys, (rows, 4), generator=generator)
        pairs = torch.stack([keys, values], 2).flatten(1)
        filler = torch.full((rows, gap), 2 * n_keys)
        row = torch.cat([pairs, filler, pairs], 1)
        is_asked = torch.zeros_like(row, dtype=torch.bool)
        is_asked[:, -7::2] = True
        return next_token_batch(row, is_asked)

    kinds: dict[str, config.Attention] = {
        "window": config.MultiHead(
            n_heads=2, n_kv_heads=2, d_head=32, qkv_bias=False, out_bias=False, qk_norm=None,
            dropout=0.0, window=window,
        ),
        "memory": config.NeuralMemory(n_heads=2, d_head=32, window=window, chunk=8),
    }  # fmt: skip
    right: dict[str, float] = {}
    for name, kind in kinds.items():
        model = small_model(vocab_size=2 * n_keys + 1, context_length=48, attention=kind)
        trained = train(model, batch, setting=setting, steps=steps)
        right[name] = share_right(trained.model, batch(10**6, 128))
    return Reading(
        numbers={
            "told right beyond the window, window alone": right["window"],
            "told right beyond the window, with memory": right["memory"],
            "with memory minus window alone": right["memory"] - right["window"],
        },
        picture=bars(
            f"Values told right, 16 tokens after they were seen (a window of {window})", right
        ),
    )


EXPERIMENTS = (
    Experiment(
        name="attention-against-recurrence",
        title="Attention against a recurrent net on a long copy",
        description="Train both on copying 4 and 16 random tokens, with about as many weights.",
        question=Question(
            text="Which net copies 16 random tokens after a short training?",
            choices=("attention", "the recurrent net", "both"),
        ),
        claim="Attention reaches back to any token directly; a recurrent state has to carry all "
        "of them, and fails on long copies.",
        source=Source(
            authors="Bahdanau, Cho and Bengio",
            year=2015,
            title="Neural Machine Translation by Jointly Learning to Align and Translate",
            place="section 5",
        ),
        concepts=("attention", "linear_scan"),
        checks=(
            lower_bound("copied right, 16 tokens, attention", 0.9),
            lower_bound("attention minus recurrent, 16 tokens", 0.3),
        ),
        measure=_copying,
        seeds=4,
        quick_seeds=3,
    ),
    Experiment(
        name="test-time-memory",
        title="A memory that learns at test time, beyond its window",
        description="Ask for values that were seen 16 tokens ago, with a window of 8.",
        question=Question(
            text="The value lies two windows back. Can a memory that learns as it reads give it?",
            choices=("yes, better than the window alone", "no", "both can"),
        ),
        claim="A memory that is updated while the text is read gives back what its window no "
        "longer sees.",
        source=Source(
            authors="Behrouz, Zhong and Mirrokni",
            year=2024,
            title="Titans: Learning to Memorize at Test Time",
            place="section 3",
        ),
        concepts=("memory_step", "memory_loss", "model.decoder.attention.chunk"),
        checks=(lower_bound("with memory minus window alone", 0.1),),
        measure=_test_time_memory,
        seeds=3,
        quick_seeds=3,
    ),
)
