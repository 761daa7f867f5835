"""An update, told from the steps of one optimiser or of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.optim import Optimizer

from pellucid.vitals.taps.hooks import Hooks


class Steps:
    """Listens to the steps of all optimisers, in whatever order they come.

    An update is done once each has stepped, or when one that has is about to step again.

    Args:
        optimisers: those that step.
        begin: called before an update's first step.
        gather: called with an optimiser when the gradients of its step are there: before it, or,
            if a closure makes them, after it.
        end: called after an update's last step.
    """

    def __init__(
        self,
        optimisers: Sequence[Optimizer],
        *,
        begin: Callable[[], None],
        gather: Callable[[Optimizer], None],
        end: Callable[[], None],
    ) -> None:
        self._optimisers = optimisers
        self._begin, self._gather, self._end = begin, gather, end
        self._stepped: set[Optimizer] = set()
        self._has_closure = False

    def attach(self, hooks: Hooks) -> None:
        """Listen to each optimiser."""
        self._stepped.clear()
        for optimiser in self._optimisers:
            hooks.on(optimiser.register_step_pre_hook, "updates", self._step_begins)
            hooks.on(optimiser.register_step_post_hook, "updates", self._step_ends)

    def _step_begins(
        self, optimiser: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if optimiser in self._stepped:
            self._done()
        if not self._stepped:
            self._begin()
        # the arguments are those of `step` as a function: the optimiser is the first
        self._has_closure = any(map(callable, (*args[1:], *kwargs.values())))
        if not self._has_closure:
            self._gather(optimiser)

    def _step_ends(self, optimiser: Optimizer, *_: object) -> None:
        if self._has_closure:
            self._gather(optimiser)
        self._stepped.add(optimiser)
        if len(self._stepped) == len(self._optimisers):
            self._done()

    def _done(self) -> None:
        self._stepped.clear()
        self._end()
