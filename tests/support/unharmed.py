"""A loop run twice, watched and not: what has to be the same afterwards, bit for bit."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.vitals import Watch, watch
from support.foreign import ids_of, made

#: Of the loops: enough for two looks inside.
STEPS = 6

Say = Callable[[Any], None]


def silent(loss: Any) -> None:
    """The loop without a watch."""


class Loop:
    """A user's training: a model, its optimisers, an update. What differs is overridden."""

    def __init__(self) -> None:
        self.model: nn.Module = made()
        self.optimizers: list[Any] = [torch.optim.AdamW(self.model.parameters(), lr=3e-3)]
        self.options: dict[str, Any] = {}

    def loss(self, step: int) -> Tensor:
        ids = ids_of(step)
        return F.cross_entropy(self.model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    def update(self, step: int, say: Say) -> None:
        loss = self.loss(step)
        loss.backward()
        say(loss)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()

    def train(self, say: Say = silent) -> None:
        for step in range(STEPS):
            self.update(step, say)


def state(loop: Loop) -> list[Any]:
    """Everything that watching could have changed."""
    model = loop.model
    return [
        {name: tensor.clone() for name, tensor in model.state_dict().items()},
        [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        [p.requires_grad for p in model.parameters()],
        [module.training for module in model.modules()],
        [[len(h) for n, h in vars(m).items() if n.endswith("_hooks")] for m in model.modules()],
        [sorted(vars(module)) for module in model.modules()],
        [len(p._backward_hooks or ()) for p in model.parameters()],
        [optimizer.state_dict() for optimizer in loop.optimizers],
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        (torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()),
        torch.get_default_dtype(),
    ]


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal, bit for bit; NaN equals itself."""
    if isinstance(one, Tensor):
        if one.is_meta:
            return other.is_meta and one.shape == other.shape
        return one.dtype == other.dtype and torch.equal(
            one.nan_to_num(7.25) if one.is_floating_point() else one,
            other.nan_to_num(7.25) if other.is_floating_point() else other,
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or one is other or (one != one and other != other)


def run(make: Callable[[], Loop], begin: Callable[[Loop], Any] | None) -> tuple[list[Any], Any]:
    """Train, watched by what `begin` gives; the state at the end, and who watched."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    loop = make()
    torch.manual_seed(1)
    with nullcontext() if begin is None else begin(loop) as w:
        loop.train(silent if w is None else w.step)
    return state(loop), w


#: How loops end without a watch: each is run once.
_PLAIN: dict[Any, list[Any]] = {}


def all_of(loop: Loop) -> Watch:
    """A watch that looks as often as it can."""
    optimizers = [getattr(optimizer, "optimizer", optimizer) for optimizer in loop.optimizers]
    return watch(loop.model, optimizers, max_overhead=None, **loop.options)


def unharmed(make: Callable[[], Loop], begin: Callable[[Loop], Any] = all_of) -> Any:
    """Assert that a watched loop ends as an unwatched one does; gives who watched."""
    plain = _PLAIN.get(make) or run(make, None)[0]
    _PLAIN[make] = plain
    watched, w = run(make, begin)
    different = [i for i, pair in enumerate(zip(plain, watched, strict=True)) if not same(*pair)]
    assert different == [], (different, [(plain[i], watched[i]) for i in different])
    return w


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def reports() -> Iterator[list[str]]:
    """The log's words for parts that are switched off."""
    handler, log = _Lines(), logging.getLogger("pellucid")
    log.addHandler(handler)
    try:
        yield handler.lines
    finally:
        log.removeHandler(handler)
