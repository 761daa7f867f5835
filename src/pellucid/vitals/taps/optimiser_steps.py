"""Updates, from the steps of one optimiser or of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.optim import Optimizer

from pellucid.vitals.taps.hooks import Hooks


class Steps:
    """Follows the steps of all optimisers, in any order.

    An update ends when each has stepped, or when one of them is about to step a second time.

    Args:
        optimisers: Those that step.
        begin: Called before an update's first step.
        gather: Called with an optimiser when its gradients are complete: before its step, or after
            it if a closure computes them.
        end: Called after an update's last step.
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
        """Add hooks to each optimiser."""
        self._stepped.clear()
        for optimiser in self._optimisers:
            hooks.register(optimiser.register_step_pre_hook, "updates", self._step_begins)
            hooks.register(optimiser.register_step_post_hook, "updates", self._step_ends)

    def _step_begins(
        self, optimiser: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if optimiser in self._stepped:
            self._finish_update()
        if not self._stepped:
            self._begin()
        # the first argument of `step` is the optimiser itself
        self._has_closure = any(map(callable, (*args[1:], *kwargs.values())))
        if not self._has_closure:
            self._gather(optimiser)

    def _step_ends(self, optimiser: Optimizer, *_: object) -> None:
        if self._has_closure:
            self._gather(optimiser)
        self._stepped.add(optimiser)
        if len(self._stepped) == len(self._optimisers):
            self._finish_update()

    def _finish_update(self) -> None:
        self._stepped.clear()
        self._end()
