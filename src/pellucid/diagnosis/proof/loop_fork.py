"""A fork of a loop: build it for a seed, run some updates, perhaps with a change, and judge it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import Any

import torch
from torch import nn

from pellucid.diagnosis.fixes.loop.change import (
    LoopChange,
    applied,
    changed_calls,
    changed_forward,
)
from pellucid.diagnosis.loop import Loop
from pellucid.diagnosis.proof.fork import Fork, Ticks
from pellucid.errors import ConfigError
from pellucid.training import generators_kept, seed_step
from pellucid.vitals.update_sizes import unwrap_optimisers

MakeLoop = Callable[[int], Loop]
#: Yields a function that takes the loss of each update.
Observe = Callable[[Loop], Generator[Callable[[Any], None]]]


class _EnoughUpdates(BaseException):
    """Ends a loop that trains itself; no loop should catch it."""


def _keep_silent(loss: Any) -> None:
    """Drop the loss of an update."""


def run_loop_fork(
    make_loop: MakeLoop,
    *,
    seed: int,
    steps: int,
    build: Callable[[Loop], LoopChange | None] = lambda loop: None,
    observe: Observe | None = None,
    tick: Ticks = lambda n_done: None,
) -> Fork:
    """Build a loop, run it, and judge its model; random numbers of the caller stay as they are.

    Args:
        make_loop: builds the loop.
        seed: what it is built for.
        steps: the updates to run.
        build: the change of this loop, if any.
        observe: a watch over the updates.
        tick: called after each update.

    Raises:
        ConfigError: `make_loop` returns no Loop, or the loop made no update.
    """
    started = time.perf_counter()
    with generators_kept(), ExitStack() as stack:
        seed_step(seed, 0)
        loop = make_loop(seed)
        if not isinstance(loop, Loop):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"make_loop returned a {type(loop).__name__}; it has to return a "
                "pellucid.diagnosis.Loop(model=..., optimizer=..., ...)"
            )
        change = build(loop) or LoopChange(code="")
        stack.enter_context(changed_forward(loop, change))
        stack.enter_context(applied(loop, change))
        untrained = _judge(loop, change)
        with changed_calls(loop, change), _observed(loop, observe) as take:
            n_done, stopped = _train(loop, change, seed, steps, take, tick)
        if n_done == 0:
            raise ConfigError(
                "the loop made no update: give it batches, or a train= that steps its optimizer"
            )
        loss = math.nan if stopped else _judge(loop, change)
        if loss > untrained:
            loss = untrained  # how far past guessing a model went is luck
    return Fork(
        seed=seed,
        start=0,
        steps=n_done,
        loss=loss if math.isfinite(loss) else None,
        unit="",
        signs={},
        stopped=stopped or ("" if math.isfinite(loss) else "the measure"),
        seconds=time.perf_counter() - started,
        measure="held-out loss" if loop.measure is None else "measure",
    )


def _judge(loop: Loop, change: LoopChange) -> float:
    """The loss of held-out batches, fed as the change feeds them; or the measure of the loop."""
    seed_step(0, 0)  # every fork is judged with the same random numbers
    if loop.measure is not None:
        return loop.evaluate()
    with changed_calls(loop, change):
        return loop.evaluate()


@contextmanager
def _observed(loop: Loop, observe: Observe | None) -> Generator[Callable[[Any], None]]:
    if observe is None:
        yield _keep_silent
    else:
        with contextmanager(observe)(loop) as take:
            yield take


def _train(
    loop: Loop,
    change: LoopChange,
    seed: int,
    steps: int,
    take: Callable[[Any], None],
    tick: Ticks,
) -> tuple[int, str]:
    """Run the updates: how many there were, and the value that was not finite, if any."""
    if loop.train is not None:
        return _train_itself(loop, loop.train, steps, take, tick), ""
    update = change.update or loop.update
    n_done = 0
    for batch in islice(loop.batches or (), steps):
        seed_step(seed, n_done + 1)
        loss = update(loop, batch if change.batch is None else change.batch(batch))
        n_done += 1
        if loss is not None:
            loss = loss.detach() if isinstance(loss, torch.Tensor) else loss
            take(loss)
            if not math.isfinite(float(loss)):
                return n_done, f"loss at update {n_done}"
        tick(n_done)
    return n_done, ""


def _train_itself(
    loop: Loop,
    train: Callable[[], object],
    steps: int,
    take: Callable[[Any], None],
    tick: Ticks,
) -> int:
    """Let a loop train itself, and stop it after so many steps of its last optimiser."""
    n_done = 0

    def count(*_: Any) -> None:
        nonlocal n_done
        n_done += 1
        tick(n_done)
        if n_done == steps:
            raise _EnoughUpdates

    def take_loss(module: nn.Module, args: Any, output: Any) -> None:
        loss = getattr(output, "loss", None)
        if torch.is_grad_enabled() and isinstance(loss, torch.Tensor):
            take(loss.detach())

    with ExitStack() as stack:
        stack.callback(loop.model.register_forward_hook(take_loss).remove)
        last = unwrap_optimisers(loop.optimizer)[-1]
        stack.callback(last.register_step_post_hook(count).remove)
        stack.enter_context(suppress(_EnoughUpdates))
        train()
    return n_done
