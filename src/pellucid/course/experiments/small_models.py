"""Small models that experiments train: the real model, objective, optimiser and stepper."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import IGNORED, Batch, TokenBatch
from pellucid.course.experiments.record import Setting
from pellucid.data.standard_library import TOPICS, pydoc_topics
from pellucid.errors import TextError
from pellucid.model import Transformer, assemble
from pellucid.objectives import NextToken, Objective
from pellucid.optim import assemble_optimiser, assemble_schedule
from pellucid.presets.recipe import heads, normal
from pellucid.training import Stepper
from pellucid.typed import to_list

#: The number of bytes.
BYTES = 256
ADAMW = config.AdamW(learning_rate=3e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0)
SCHEDULE = config.Linear(warm_up=0.1, final=0.0)
_DECODER = config.Stack(
    n_layers=2,
    positions=config.Rotary(base=10_000.0),
    attention=heads(2, 2, 32),
    feed_forward=config.MLP(d_ff=256, activation="gelu", bias=False),
    norm=config.LayerNorm(eps=1e-5, bias=True),
    residual=config.PreNorm(),
    final_norm=True,
    dropout=0.0,
)
_HELD_OUT_SHARE = 0.1


def small_model(
    *,
    vocab_size: int,
    context_length: int,
    d_model: int = 64,
    tied: bool = False,
    initialisation: config.Initialisation | None = None,
    **stack: Any,
) -> config.Transformer:
    """A decoder of two layers, with changes.

    Args:
        vocab_size: the number of tokens.
        context_length: the longest input.
        d_model: the width of the residual stream.
        tied: whether embedding and head share their matrix.
        initialisation: how weights start (default: a deviation of 0.05).
        **stack: settings of the stack that differ.
    """
    return config.Transformer(
        vocab_size=vocab_size,
        context_length=context_length,
        d_model=d_model,
        embedding=config.Embedding(tied=tied, scaled=False),
        decoder=replace(_DECODER, **stack),
        initialisation=initialisation or normal(0.05, outputs="depth_scaled"),
    )


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model in evaluation mode, and the loss of each update in nats."""

    model: Transformer
    losses: list[float]

    @property
    def last_loss(self) -> float:
        """The mean over the last tenth of the updates."""
        last = self.losses[-max(1, len(self.losses) // 10) :]
        return sum(last) / len(last)


def train(
    model: config.Transformer | Transformer,
    batch: Callable[[int], Batch],
    *,
    setting: Setting,
    steps: int,
    optimiser: config.Optimiser = ADAMW,
    schedule: config.Schedule = SCHEDULE,
    objective: Objective | None = None,
    clip_norm: float | None = 1.0,
    after: Callable[[int, Transformer], None] | None = None,
) -> Trained:
    """Train a model on the CPU in float32.

    Args:
        model: its config, or the model, which is changed in place.
        batch: the batch of each update.
        setting: the seed, and where to report progress.
        steps: the number of updates.
        optimiser: moves the weights.
        schedule: the learning rate over the updates.
        objective: the loss (default: the next token).
        clip_norm: the largest norm of a gradient.
        after: called after each update with its number, from 1.
    """
    if isinstance(model, config.Transformer):
        model = assemble(model, seed=setting.seed)
    trainable = [
        (name, weight) for name, weight in model.named_parameters() if weight.requires_grad
    ]
    stepper = Stepper(
        model,
        objective or NextToken(),
        assemble_optimiser(optimiser, trainable, orthogonal="float32"),
        settings=_settings(steps, clip_norm),
        plan=_plan(steps),
        seed=setting.seed,
    )
    factor = assemble_schedule(schedule, total=steps)
    losses: list[Tensor] = []
    for step in range(steps):
        numbers = stepper.update(batch(step), step=step, factor=factor(step))
        losses.append(numbers.parts["loss_nats"])
        setting.notify(f"update {step + 1} of {steps}")
        if after is not None:
            after(step + 1, model.eval())
    return Trained(model.eval(), to_list(torch.stack(losses)))


def train_on_text(
    model: config.Transformer | Transformer,
    *,
    length: int,
    setting: Setting,
    steps: int,
    text: Tensor | None = None,
    **changes: Any,
) -> Trained:
    """Train a model on rows from random places of a text, eight for an update.

    Args:
        model: its config, or the model, which is changed in place.
        length: of a row.
        setting: the seed, of the places too, and where to report progress.
        steps: the number of updates.
        text: as tokens, (tokens,) (default: the part of the bundled text for training, as bytes).
        **changes: settings of `train` that differ.
    """
    ids = bundled_text()[0] if text is None else text
    batches = text_batches(ids, rows=8, length=length, seed=setting.seed)
    return train(model, batches, setting=setting, steps=steps, **changes)


@cache
def bundled_text() -> tuple[Tensor, Tensor]:
    """The bytes of the topics of Python's `help()`, for training and held out.

    Raises:
        TextError: this Python came without them.
    """
    library = Path(sysconfig.get_paths()["stdlib"])
    topics = [topic.text for topic in pydoc_topics(library, set())]
    if not topics:
        raise TextError(
            f"this experiment trains on the topics of Python's help(), and {library / TOPICS} has "
            "none: use a Python that came with the sources of its standard library"
        )
    ids = torch.tensor(list("\n\n".join(topics).encode()))
    cut = int(len(ids) * (1 - _HELD_OUT_SHARE))
    return ids[:cut], ids[cut:]


def text_batches(ids: Tensor, *, rows: int, length: int, seed: int) -> Callable[[int], TokenBatch]:
    """For each update, rows from random places of a text.

    Args:
        ids: the text as tokens, (tokens,).
        rows: of a batch.
        length: of a row.
        seed: of the places, with the number of the update.
    """

    def batch(step: int) -> TokenBatch:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(len(ids) - length, (rows, 1), generator=generator)
        windows = ids[starts + torch.arange(length + 1)]
        return next_token_batch(windows)

    return batch


def next_token_batch(rows: Tensor, supervised: Tensor | None = None) -> TokenBatch:
    """Rows as inputs and their next tokens.

    Args:
        rows: token ids, (rows, time + 1).
        supervised: true where a token is a target, as `rows`; by default every token is.
    """
    targets = rows[:, 1:]
    if supervised is not None:
        targets = targets.masked_fill(~supervised[:, 1:], IGNORED)
    n_supervised = int((targets != IGNORED).sum())
    return TokenBatch(ids=rows[:, :-1], targets=targets, n_supervised=n_supervised)


def loss_of(model: Transformer, batch: TokenBatch) -> float:
    """The mean loss over the targets of a batch, in nats."""
    with torch.no_grad():
        return float(NextToken()(model, batch).parts["loss_nats"])


def share_right(model: Transformer, batch: TokenBatch) -> float:
    """The share of targets that are the model's likeliest token."""
    supervised = batch.targets != IGNORED
    with torch.no_grad():
        answers: Tensor = model(batch.ids).argmax(-1)
    return float((answers == batch.targets)[supervised].float().mean())


def held_out_loss(model: Transformer, *, length: int, text: Tensor | None = None) -> float:
    """The loss on 64 rows of held-out text, in nats per token.

    Args:
        model: the model.
        length: of a row.
        text: as tokens, (tokens,) (default: the held-out part of the bundled text, as bytes).
    """
    ids = bundled_text()[1] if text is None else text
    return loss_of(model, text_batches(ids, rows=64, length=length, seed=0)(0))


def _settings(steps: int, clip_norm: float | None) -> config.Training:
    return config.Training(
        budget=config.Steps(count=steps),
        batch_size=1,
        accumulation=1,
        clip_norm=clip_norm,
        device="cpu",
        precision="float32",
        compile="off",
        log_every=1,
        evaluate_every=1,
        evaluate_tokens=1,
        checkpoint_every=1,
        keep_checkpoints=1,
        sentence="",
    )


def _plan(steps: int) -> config.Plan:
    return config.Plan(
        total_steps=steps,
        threads=1,
        device="cpu",
        precision="float32",
        compile=False,
        device_name="cpu",
        torch_version=torch.__version__,
    )
