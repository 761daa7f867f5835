"""What a loop does between two updates: calls of the model, gradients that arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.training import Guard
from pellucid.vitals.ledger.latest_batch import LatestBatch
from pellucid.vitals.ledger.output_gradients import OutputGradients
from pellucid.vitals.ledger.witnesses import gradient_numbers, numbers_of
from pellucid.vitals.taps.hooks import Hooks, LastingHook
from pellucid.vitals.taps.recorded_call import is_plain


class Events:
    """Counts what happens since the last update.

    Args:
        rate: Gives the learning rate now.
        guard: Guards measurements of logits.
    """

    def __init__(self, rate: Callable[[], float | None], guard: Guard) -> None:
        self._rate = rate
        #: what the gradients by the model's outputs say
        self.outputs = OutputGradients(guard)
        self.open_calls = (0, 0)
        #: on a parameter, while a page is open
        self.arrival_hooks = Hooks(guard, LastingHook)
        self._batch: LatestBatch | None = None
        self.clear()

    def clear(self) -> None:
        """Begin anew: an update is done."""
        self.clear_calls()
        self.outputs.clear()
        self.arrivals = 0
        #: how many of the gradients arrived where there was none, or one of zeros
        self.fresh: Tensor | int = 0
        self.rates: set[float | None] = set()
        #: numbers of the first gradient that arrived, and of the one that was there
        self.first: tuple[Tensor, Tensor | None] | None = None
        #: numbers of the gradient so far
        self.total: Tensor | None = None
        self._pending: tuple[Tensor, Tensor | None] | None = None

    def clear_calls(self) -> None:
        """Begin to count calls anew."""
        #: calls of the model since the last update, and the most before one
        self.open_calls = (0, max(self.open_calls))
        self.calls = self.training_calls = 0

    def attach_to_model(self, model: nn.Module, hooks: Hooks, batch: LatestBatch | None) -> None:
        """Count the calls of the model, whose rows `batch` has."""
        self._batch = batch
        hooks.after(model, "calls of the model", self._on_output, when_idle=self._count)

    def attach_to_head(self, head: nn.Module, hooks: Hooks) -> None:
        """Read what a head gives for the rows of the model's call: a loop may call each itself."""
        hooks.after(head, "outputs of a head", self._on_head)

    def attach_to_parameter(self, parameter: nn.Parameter, size: int) -> None:
        """Count the gradients that arrive at a parameter; `arrival_hooks` do it.

        Args:
            parameter: One that every backward pass reaches.
            size: The numbers that are kept of its gradient.
        """

        def before_adding(gradient: Tensor) -> None:
            self._pending = None
            if is_plain(gradient) and gradient.is_contiguous():
                old = gradient_numbers(parameter, size)
                new = numbers_of(gradient.detach(), size)
                # copies, because the sum may be written to the memory of either
                self._pending = (new.clone(), None if old is None else old.clone())
                self.fresh = self.fresh + (1 if old is None else (old == 0).all().long())

        def arrived(_: Tensor) -> None:
            self.arrivals += 1
            self.rates.add(self._rate())  # a schedule may step between two parts
            if self._pending is None:
                return
            new, old = self._pending
            if self.arrivals == 1:
                self.first = self._pending
            self.total = new if old is None else old + new

        leaf: Any = parameter
        register = self.arrival_hooks.register
        register(leaf.register_hook, "gradient.left", before_adding)
        register(leaf.register_post_accumulate_grad_hook, "gradients that arrive", arrived)

    def _count(self, module: nn.Module, *_: object) -> None:
        """Count a call of the model that may learn from it."""
        if torch.is_grad_enabled():
            self.calls += 1
            self.open_calls = (self.calls, self.open_calls[1])
            self.training_calls += module.training

    def _on_output(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._count(module)
        if torch.is_grad_enabled() and not self.outputs.is_idle:
            self.outputs.watch(output, self._batch)

    def _on_head(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if torch.is_grad_enabled() and self._batch is not None:
            self.outputs.watch_head(output, self._batch)
