"""A training loop of your own, in the form in which `prove` can build and run it again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis.model_outputs import logits_in, loss_in
from pellucid.errors import ConfigError
from pellucid.typed import backward
from pellucid.vitals.update_sizes import Optimisers, unwrap_optimisers

#: A prefix ends at each of so many places of a row.
_PREFIXES = 6


def own_loss(model: nn.Module, batch: Any) -> Tensor:
    """The loss that the model itself computes for a batch of named tensors.

    Raises:
        ConfigError: the batch is no dict, or the model returns no loss.
    """
    if not isinstance(batch, Mapping):
        raise ConfigError(
            "without loss=, pellucid calls model(**batch) and takes the loss that it returns, so a "
            f"batch must be a dict of tensors; it was a {type(batch).__name__}: pass loss=, a "
            "function of model and batch"
        )
    table = cast("Mapping[str, Any]", batch)
    loss = loss_in(model(**table))
    if loss is None:
        raise ConfigError(
            f"{type(model).__name__} returned no loss for a batch with the names "
            f"{', '.join(table)}: add labels to it, or pass loss="
        )
    return loss


def plain_update(loop: Loop, batch: Any) -> Tensor:
    """One update as most people write it: loss, backward, clip, step, schedule, clear."""
    loop.model.train()
    loss = loop.loss(loop.model, batch)
    backward(loss)
    if loop.clip_norm is not None:
        nn.utils.clip_grad_norm_(loop.model.parameters(), loop.clip_norm)
    optimisers = unwrap_optimisers(loop.optimizer)
    for optimiser in optimisers:
        optimiser.step()
    if loop.schedule is not None:
        loop.schedule.step()
    for optimiser in optimisers:
        optimiser.zero_grad()
    return loss.detach()


@dataclass(kw_only=True, eq=False)
class Loop:
    """A training, built anew for each fork of a proof.

    Args:
        model: the model.
        optimizer: its optimiser, or several that step together.
        batches: a batch for each update, in any form that `loss` and `update` understand.
        loss: the loss of a batch; by default `model(**batch).loss`.
        update: your own update, if it is not the plain one: a function of the loop and a batch. It
            may return the loss.
        schedule: an object whose `step()` follows each update.
        clip_norm: the norm at which the plain update clips; None does not clip.
        train: instead of `batches`: a function that trains, such as `trainer.train`. pellucid stops
            it after enough steps of the optimiser.
        held_out: batches that are not trained on. A fork is judged by their mean loss.
        measure: instead of `held_out`: a number that tells how good a model is; lower is better.
        pad_id: the id of padding, if the model's config does not say it.

    Raises:
        ConfigError: nothing to train on, or nothing to judge by.
    """

    model: nn.Module
    optimizer: Optimisers
    batches: Iterable[Any] | None = None
    loss: Callable[[nn.Module, Any], Tensor] = own_loss
    update: Callable[[Loop, Any], Tensor | float | None] = plain_update
    schedule: Any = None
    clip_norm: float | None = None
    train: Callable[[], object] | None = None
    held_out: Sequence[Any] = ()
    measure: Callable[[nn.Module], float] | None = None
    pad_id: int | None = None

    def __post_init__(self) -> None:
        if (self.batches is None) == (self.train is None):
            raise ConfigError("a Loop needs either batches= or train=, and not both")
        if bool(self.held_out) == (self.measure is not None):
            raise ConfigError(
                "a Loop is judged either by held_out= (batches that are not trained on) or by "
                "measure= (a function of the model; lower is better): give one of them"
            )
        unwrap_optimisers(self.optimizer)

    def evaluate(self) -> float:
        """The measure, or the mean loss of the held-out batches, in evaluation mode."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                if self.measure is not None:
                    return float(self.measure(self.model))
                losses = [float(self.loss(self.model, batch)) for batch in self.held_out]
            return math.fsum(losses) / len(losses)
        finally:
            self.model.train(was_training)


def next_token_loss(rows: Int[Tensor, "rows time"]) -> Callable[[nn.Module], float]:
    """A measure of language models that no leak and no label can flatter.

    The model gets prefixes of held-out rows, each cut off before the token that is asked for. So it
    cannot see that token, whatever its mask does, and the loss function of the loop plays no part.

    Args:
        rows: token ids without padding (rows, time).

    Raises:
        ConfigError: the rows are too short.
    """
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise ConfigError(
            f"next_token_loss needs ids (rows, time) of 2 tokens at least, had {tuple(rows.shape)}"
        )
    last = rows.shape[1] - 1
    places = sorted({round(1 + i * (last - 1) / (_PREFIXES - 1)) for i in range(_PREFIXES)})

    def measure(model: nn.Module) -> float:
        ids = rows.to(next(model.parameters()).device)
        losses: list[float] = []
        for place in places:
            prefix = ids[:, :place]
            logits = logits_in(model(prefix), *prefix.shape)
            if logits is None:
                raise ConfigError(
                    f"{type(model).__name__} returned no logits (rows, time, vocab) for token ids: "
                    "pass a measure of your own"
                )
            losses.append(float(F.cross_entropy(logits[:, -1].float(), ids[:, place])))
        return math.fsum(losses) / len(losses)

    return measure
