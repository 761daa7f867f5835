"""A wrapper in the style of Keras: `compile`, then `fit` on arrays, with callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from benchmarks.diagnosis.elsewhere.parts import Batch, Loop, Parts, cross_entropy, shifted
from benchmarks.diagnosis.elsewhere.styles.style import (
    BUILT,
    IN_THE_LOOP,
    Seen,
    Setting,
    Style,
    seen,
)
from pellucid.vitals import watch


class Trained(nn.Module):
    """A network that trains itself."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def compile(self, loop: Loop) -> None:  # type: ignore[override]
        """Take the optimiser and the loss."""
        self._loop = [loop]  # in a list: it is no part of the network

    def forward(self, x: Tensor) -> Any:
        """What the network returns."""
        return self.network(x)

    def train_step(self, batch: Batch) -> Tensor:
        """One update."""
        loop = self._loop[0]
        loss = loop.parts.loss(loop, batch)
        loop.parts.cleared(loop)
        loop.parts.back(loop, loss)
        loop.parts.clipped(loop)
        loop.parts.stepped(loop)
        return loss

    def fit(self, batches: Iterable[Batch], callbacks: list[Callable[[Tensor], Any]]) -> None:
        """All updates."""
        self.train()
        for batch in batches:
            loss = self.train_step(batch)
            for callback in callbacks:
                callback(loss)


def train(setting: Setting) -> Seen:
    """Train by `fit`, watched from a callback."""
    loop = setting.loop()
    model = Trained(loop.model)
    loop.model = model
    model.compile(loop)
    with watch(model, loop.optimizer, **setting.options) as w:

        def after(loss: Tensor) -> None:
            w.step(loss)
            loop.parts.advanced(loop)
            loop.parts.between(loop)
            loop.update += 1

        model.fit(setting.batches(), callbacks=[after])
    return seen(w)


STYLE = Style(
    name="keras-like",
    split="test",
    tasks={"lm": ("decoder",)},
    writes=(BUILT | IN_THE_LOOP) - {"micro"},
    train=train,
    base=Parts(joined=shifted, loss=cross_entropy),
    packed=True,
)
