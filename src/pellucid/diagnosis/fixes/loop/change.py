"""A change of a loop, made from outside, and the hooks that make it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from pellucid.diagnosis.loop import Loop
from pellucid.vitals.update_sizes import unwrap_optimisers

Group = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopChange:
    """What a fix changes in a loop, and where.

    Args:
        code: the change as you would write it in your own code.
        prepare: called once, before the first update.
        groups: the groups that take the place of one for the step after so many steps. The loop's
            own groups come back afterwards, so a schedule does not see the change.
        gradients: changes the gradients before a step.
        after: called after each step.
        update: takes the place of the loop's own update.
        batch: changes each batch of the loop.
        arguments: changes the named arguments of each call of the model.
        forward: a context around each call of the model.
        moves_targets: whether the loss counts something else afterwards, so that the loop's
            held-out loss cannot judge it.
    """

    code: str
    prepare: Callable[[Loop], object] | None = None
    groups: Callable[[Group, int], Sequence[Group]] | None = None
    gradients: Callable[[Sequence[nn.Parameter]], object] | None = None
    after: Callable[[Loop], object] | None = None
    update: Callable[[Loop, Any], Any] | None = None
    batch: Callable[[Any], Any] | None = None
    arguments: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    forward: Callable[[], AbstractContextManager[object]] | None = None
    moves_targets: bool = False


#: A fix: the change of a loop that runs for so many updates; None if it changes nothing.
LoopFix = Callable[[Loop, int], LoopChange | None]


@contextmanager
def applied(loop: Loop, change: LoopChange) -> Generator[None]:
    """Train with the change; the hooks are removed at the end."""
    with ExitStack() as stack:
        if change.prepare is not None:
            change.prepare(loop)
        for optimiser in unwrap_optimisers(loop.optimizer):
            step = _ChangedStep(loop, change)
            stack.callback(optimiser.register_step_pre_hook(step.begin).remove)
            stack.callback(optimiser.register_step_post_hook(step.end).remove)
        yield


@contextmanager
def changed_calls(loop: Loop, change: LoopChange) -> Generator[None]:
    """Call the model with changed arguments."""
    with ExitStack() as stack:
        if change.arguments is not None:
            alter = change.arguments

            def hook(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
                return args, alter(kwargs)

            handle = loop.model.register_forward_pre_hook(hook, with_kwargs=True, prepend=True)
            stack.callback(handle.remove)
        yield


@contextmanager
def changed_forward(loop: Loop, change: LoopChange) -> Generator[None]:
    """Put the context of the change around each call of the model."""
    with ExitStack() as stack:
        if change.forward is not None:
            contexts: list[ExitStack] = []
            build = change.forward

            def open_context(module: nn.Module, args: Any) -> None:
                context = ExitStack()
                context.enter_context(build())
                contexts.append(context)

            def close_context(module: nn.Module, args: Any, output: Any) -> None:
                if contexts:
                    contexts.pop().close()

            stack.callback(loop.model.register_forward_pre_hook(open_context).remove)
            stack.callback(loop.model.register_forward_hook(close_context, always_call=True).remove)
        yield


class _ChangedStep:
    """The hooks before and after the steps of one optimiser."""

    def __init__(self, loop: Loop, change: LoopChange) -> None:
        self._loop = loop
        self._change = change
        self._n_steps = 0
        self._own_groups: list[Group] = []
        #: the loop's group, the one in its place, and the values that this one was given
        self._substitutes: list[tuple[Group, Group, Group]] = []

    def begin(self, optimiser: Optimizer, args: Any, kwargs: Any) -> None:
        """Change gradients and groups for the step."""
        groups = optimiser.param_groups
        if self._change.gradients is not None:
            self._change.gradients([p for group in groups for p in group["params"]])
        if self._change.groups is None:
            return
        self._own_groups = groups
        self._substitutes = [
            (group, substitute, dict(substitute))
            for group in groups
            for substitute in self._change.groups(group, self._n_steps)
        ]
        optimiser.param_groups = [substitute for _, substitute, _ in self._substitutes]

    def end(self, optimiser: Optimizer, args: Any, kwargs: Any) -> None:
        """Put the loop's groups back, with what the optimiser wrote to them."""
        self._n_steps += 1
        if self._change.groups is not None:
            optimiser.param_groups = self._own_groups
            for group, substitute, values in self._substitutes:
                group |= {
                    k: v for k, v in substitute.items() if k not in values or v is not values[k]
                }
        if self._change.after is not None:
            self._change.after(self._loop)
