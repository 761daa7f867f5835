"""One training, as a user would write it in plain torch, with every part in the open.

Comes in: a config, a corpus. Goes out: a `Training` whose parts may be exchanged before it runs,
and what came of it. It knows neither the faults nor the judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.diagnosis.rows import Batch, Corpus, Feed, Form
from benchmarks.diagnosis.setups import Arch
from pellucid import config
from pellucid.batches import IGNORED
from pellucid.diagnosis import Expectations
from pellucid.model import Transformer, assemble
from pellucid.optim import assemble_optimiser, assemble_schedule

Loss = Callable[[Tensor, Tensor], Tensor]
FORMS: dict[Arch, Form] = {"gpt": "plain", "llama": "plain", "encoder": "masked", "pair": "pairs"}


@dataclass
class Training:
    """A training in the making. A fault may change everything in it.

    `prepare` turns rows into a batch, in training and in evaluation; `feed` says which rows.
    `happens` is done before an update, `to_gradients` before the optimiser steps.
    """

    arch: Arch
    run: config.Run
    model: Transformer
    feed: Feed
    optimisers: list[torch.optim.Optimizer]
    schedule: Callable[[int], float]
    batch_of: Callable[[int], Batch]
    loss: Loss
    declared: Expectations = field(default_factory=Expectations)
    ignore: tuple[str, ...] = ()
    tokenizer: Any = None
    prepare: list[Callable[[Batch], Batch]] = field(default_factory=list[Any])
    divide: float = 1.0
    clears: Callable[[int], bool] = lambda update: True
    steps: Callable[[int], bool] = lambda update: True
    happens: dict[int, Callable[[Training], None]] = field(default_factory=dict[int, Any])
    to_gradients: list[Callable[[Training, int], None]] = field(default_factory=list[Any])
    autocast: bool = False
    updates: int = 0

    @property
    def weights(self) -> list[nn.Parameter]:
        """All parameters that are trained."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def prepared(self, batch: Batch) -> Batch:
        """Rows as they are learnt from."""
        for change in self.prepare:
            batch = change(batch)
        return batch

    def batch(self, update: int) -> Batch:
        """The batch of an update, from 0."""
        return self.prepared(self.batch_of(update))

    def logits(self, batch: Batch) -> Tensor:
        """What the model says of rows."""
        return call(self.model, batch)

    def new_optimiser(self) -> None:
        """Build the optimiser anew from the config, over the parameters there are now."""
        optimiser = assemble_optimiser(self.run.optimiser, self.model.named_parameters())
        self.optimisers = list(optimiser.parts)
        for group in self.groups:
            group["initial_lr"] = group["lr"]

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Every optimiser's groups."""
        return [group for optimiser in self.optimisers for group in optimiser.param_groups]

    def held_out(self) -> float:
        """The loss on held-out rows, as whoever trains would compute it."""
        batch = self.prepared(self.feed.held_out(32))
        return self._evaluated(batch, self.loss)

    def outcome(self) -> float:
        """The loss on held-out rows of the true task, whatever was trained on."""
        return self._evaluated(self.feed.held_out(96), cross_entropy)

    def _evaluated(self, batch: Batch, loss: Loss) -> float:
        state = torch.get_rng_state()
        self.model.eval()
        with torch.no_grad():
            value = float(loss(self.logits(batch).float(), batch.labels))
        self.model.train()
        torch.set_rng_state(state)
        return value


def call(model: Transformer, batch: Batch) -> Tensor:
    """The logits of rows of any form."""
    if batch.source is not None:
        return model(batch.ids, encoded=model.encode(batch.source))
    return model(batch.ids, padding=batch.padding, documents=batch.documents)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over supervised places."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def new_training(arch: Arch, run: config.Run, corpus: Corpus, form: Form | None = None) -> Training:
    """A healthy training of a config."""
    torch.manual_seed(run.seed)
    model = assemble(run.model, seed=run.seed)
    loop = run.training
    feed = Feed(corpus, form or FORMS[arch], loop.batch_size, _time(run), run.seed)
    assert isinstance(loop.budget, config.Steps)
    training = Training(
        arch=arch,
        run=run,
        model=model,
        feed=feed,
        optimisers=[],
        schedule=assemble_schedule(run.schedule, total=loop.budget.count),
        batch_of=feed.batch,
        loss=loss_of(run),
        divide=loop.accumulation,
        updates=loop.budget.count,
        autocast=loop.precision == "bfloat16",
    )
    # a fault or a variant may put another feed in place later
    training.batch_of = lambda update: training.feed.batch(update)
    training.new_optimiser()
    return training


def _time(run: config.Run) -> int:
    """Tokens of a row: half of what the model could read."""
    return run.model.context_length // 2


def loss_of(run: config.Run) -> Loss:
    """The loss that the config asks for."""
    smoothing = float(getattr(run.objective, "label_smoothing", 0.0))
    z_loss = float(getattr(run.objective, "z_loss", 0.0))
    if not smoothing and not z_loss:
        return cross_entropy

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        flat, target = logits.flatten(0, 1), labels.flatten()
        cross_entropies = F.cross_entropy(
            flat, target, ignore_index=IGNORED, label_smoothing=smoothing
        )
        log_z = flat.logsumexp(-1)[target != IGNORED]
        return cross_entropies + z_loss * log_z.square().mean()

    return loss


@dataclass
class TrainingLog:
    """What whoever trains writes down."""

    losses: list[tuple[int, float]] = field(default_factory=list[Any])
    held_out: list[tuple[int, float]] = field(default_factory=list[Any])
    norms: list[tuple[int, float]] = field(default_factory=list[Any])
    rates: list[tuple[int, float]] = field(default_factory=list[Any])
    stopped: int | None = None


def train(training: Training, watched: Any) -> TrainingLog:
    """The loop. It ends early where the loss is no number."""
    t, log = training, TrainingLog()
    t.model.train()
    every = max(1, t.updates // 4)
    for update in range(t.updates):
        if update in t.happens:
            t.happens[update](t)
        for group in t.groups:
            group["lr"] = group["initial_lr"] * t.schedule(update)
        loss = _gradients(t, update, watched)
        bound = t.run.training.clip_norm or math.inf
        norm = float(nn.utils.clip_grad_norm_(t.weights, bound))
        for change in t.to_gradients:
            change(t, update)
        if t.steps(update):
            for optimiser in t.optimisers:
                cast("Any", optimiser).step()
        log.losses.append((update + 1, loss))
        log.norms.append((update + 1, norm))
        log.rates.append((update + 1, float(t.groups[0]["lr"])))
        if not math.isfinite(loss):
            log.stopped = update + 1
            break
        if (update + 1) % every == 0:
            watched.pause()
            log.held_out.append((update + 1, t.held_out()))
            watched.resume()
    return log


def _gradients(t: Training, update: int, watched: Any) -> float:
    """One update's backward passes; the mean loss of its parts."""
    if t.clears(update):
        for optimiser in t.optimisers:
            optimiser.zero_grad()
    losses: list[float] = []
    count = t.run.training.accumulation
    for part in t.batch(update).parts(count):
        with torch.autocast("cpu", torch.bfloat16, enabled=t.autocast):
            logits = t.logits(part)
        loss = t.loss(logits.float() if t.autocast else logits, part.labels)
        cast("Any", loss / t.divide).backward()
        watched.step(loss)
        losses.append(float(loss.detach()))
    return sum(losses) / len(losses)
