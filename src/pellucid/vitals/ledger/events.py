"""What a loop does between two updates: calls of the model, gradients that arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.training import Guard
from pellucid.vitals.ledger.witnesses import gradient_numbers, numbers_of
from pellucid.vitals.taps.hooks import Hook, Hooks
from pellucid.vitals.taps.outputs import logits_of
from pellucid.vitals.taps.recorded_call import is_plain

#: About how many tokens' gradients are measured at the logits.
_TOKENS = 64


class Events:
    """Counts what happens since the last update.

    Args:
        rate: Gives the learning rate now.
        guard: Guards measurements of logits.
    """

    def __init__(self, rate: Callable[[], float | None], guard: Guard) -> None:
        self._rate = rate
        self._guard = guard
        #: whether numbers are kept: a page is open
        self.records = False
        #: whether the gradient of the next call's logits is measured
        self.measures_outputs = False
        self.open_calls = (0, 0)
        self.clear()

    def clear(self) -> None:
        """Begin anew: an update is done."""
        #: calls of the model since the last update, and the most before one
        self.open_calls = (0, max(self.open_calls))
        self.calls = self.training_calls = self.arrivals = 0
        #: how many of the gradients arrived where there was none, or one of zeros
        self.fresh: Tensor | int = 0
        self.rates: set[float | None] = set()
        #: numbers of the first gradient that arrived, and of the one that was there
        self.first: tuple[Tensor, Tensor | None] | None = None
        #: numbers of the gradient so far
        self.total: Tensor | None = None
        #: sums of the absolute gradients of logits
        self.outputs: list[Tensor] = []
        self._pending: tuple[Tensor, Tensor | None] | None = None

    def attach_to_model(self, model: nn.Module, hooks: Hooks) -> None:
        """Count the calls of the model."""
        hooks.after(model, "calls of the model", self._on_output)

    def attach_to_parameter(self, parameter: nn.Parameter, size: int, hooks: Hooks) -> None:
        """Count the gradients that arrive at a parameter.

        Args:
            parameter: One that every backward pass reaches.
            size: The numbers that are kept of its gradient.
            hooks: Take the hooks.
        """

        def before_adding(gradient: Tensor) -> None:
            self._pending = None
            if self.records and is_plain(gradient) and gradient.is_contiguous():
                old = gradient_numbers(parameter, size)
                new = numbers_of(gradient.detach(), size)
                # copies, because the sum may be written to the memory of either
                self._pending = (new.clone(), None if old is None else old.clone())
                self.fresh = self.fresh + (1 if old is None else (old == 0).all().long())

        def arrived(_: Tensor) -> None:
            if not self.records:
                return
            self.arrivals += 1
            self.rates.add(self._rate())  # a schedule may step between two parts
            if self._pending is None:
                return
            new, old = self._pending
            if self.arrivals == 1:
                self.first = self._pending
            self.total = new if old is None else old + new

        leaf: Any = parameter
        hooks.register(leaf.register_hook, "gradient.left", before_adding)
        hooks.register(leaf.register_post_accumulate_grad_hook, "gradients that arrive", arrived)

    def _on_output(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if not torch.is_grad_enabled():
            return
        self.calls += 1
        self.open_calls = (self.calls, self.open_calls[1])
        self.training_calls += module.training
        if self.measures_outputs and self.records:
            logits = logits_of(output)
            if logits is not None and logits.requires_grad and is_plain(logits):
                hook = Hook(self._guard, "gradients of logits", self._measure_outputs)
                cast("Any", logits).register_hook(hook)

    def _measure_outputs(self, gradient: Tensor) -> None:
        """Measure the sum of the absolute gradients of the logits (batch, time, vocab)."""
        if not (is_plain(gradient) and gradient.is_contiguous() and gradient.numel()):
            return
        rows = gradient.detach().view(-1, gradient.shape[-1])
        stride = max(1, len(rows) // _TOKENS) | 1
        sampled = rows[::stride]
        self.outputs.append(sampled.abs().sum(dtype=torch.float32) * (len(rows) / len(sampled)))
