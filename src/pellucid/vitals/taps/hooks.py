"""Hooks on modules, parameters and optimisers: each goes through a guard and changes nothing."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self, cast

import torch
from torch import nn

from pellucid.training import Guard
from pellucid.typed import is_recomputing

_thread = threading.local()
_GETSTATE = "__getstate__"


@contextmanager
def silenced() -> Generator[None]:
    """Silence the lasting hooks of a model, because pellucid itself runs it."""
    was_silenced = getattr(_thread, "silenced", False)
    _thread.silenced = True
    try:
        yield
    finally:
        _thread.silenced = was_silenced


class IdleSpell:
    """Whether nothing is due in the update that comes: hooks on a model then cost next to none."""

    is_on = False


class Hook:
    """Calls a function through a guard, and always returns None."""

    #: whether it is on a module's forward pass, which a backward pass may compute again
    on_forward = False
    #: so torch does not warn when a parameter goes to another process without this hook
    __torch_unserializable__ = True

    def __init__(self, guard: Guard, part: str, call: Callable[..., object]) -> None:
        self._guard = guard
        self._part = part
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call the function under the guard of its part, once for each forward pass."""
        if not (self.on_forward and is_recomputing()):
            self._guard(self._part, self._call, *args, **kwargs)

    def __deepcopy__(self, memo: object) -> Callable[..., None]:
        return _ignore

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _no_hook, ()


class LastingHook(Hook):
    """A hook that stays on during the whole training; a compiler does not trace it."""

    #: whether its module's output is among its arguments
    takes_output = False
    #: while it is on, `when_idle` is called instead; by default nothing is
    idle_spell = IdleSpell()
    when_idle: Callable[..., object] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call the function, unless a compiler is tracing or pellucid itself runs the model."""
        if torch.compiler.is_compiling():
            self.when_traced(args, kwargs)
        elif not getattr(_thread, "silenced", False):
            self.call_active(args, kwargs)

    def when_traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Do nothing: a compiler is tracing."""

    def call_active(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call the function, or what is called while nothing is due."""
        if not self.idle_spell.is_on:
            Hook.__call__(self, *args, **kwargs)
        elif self.when_idle is not None and not is_recomputing():
            self._guard(self._part, self.when_idle, *args, **kwargs)


@cache
def _compiled_hook_type() -> type[LastingHook]:
    """The class of hooks that a compiler never traces.

    Each breaks the compiler's graph in two. With `fullgraph=True` a break would end the training,
    so then these hooks do nothing.
    """
    compiler: Any = torch.compiler
    call_untraced, forbids_breaks = (
        compiler.disable(_call_untraced),
        compiler.assume_constant_result(_forbids_breaks),
    )

    def when_traced(self: LastingHook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not forbids_breaks(self.takes_output):
            call_untraced(self, args, kwargs)  # unpacking the arguments would trace them

    return type("CompiledHook", (LastingHook,), {"when_traced": when_traced})


def _call_untraced(hook: LastingHook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    hook(*args, **kwargs)


def _forbids_breaks(takes_output: bool) -> bool:
    """Whether a compiler is running that a graph break would stop; it evaluates this itself.

    If warnings are errors, its own warning about a hook on outputs would stop it too.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        translator: Any = cast("Any", InstructionTranslator).current_tx()
    except AttributeError:  # the compiler has not run yet
        return False
    if translator is None:
        return False
    raises = takes_output and any(action == "error" for action, *_ in warnings.filters)
    one_graph = getattr(translator, "one_graph", True) or getattr(
        translator, "error_on_graph_break", False
    )
    return bool(one_graph or raises)


class Hooks:
    """The hooks of one purpose. As a context manager, it removes all of them at its end.

    Args:
        guard: Guards every call.
        kind: The class of its hooks.
        idle_spell: While it is on, lasting hooks on modules do nothing but their part `when_idle`.
    """

    def __init__(
        self, guard: Guard, kind: type[Hook] = Hook, idle_spell: IdleSpell | None = None
    ) -> None:
        self.guard = guard
        self._idle_spell = idle_spell
        self._kind = kind
        self._handles: list[Any] = []

    def before(
        self,
        module: nn.Module,
        part: str,
        call: Callable[..., object],
        *,
        with_kwargs: bool = False,
    ) -> None:
        """Call it with the module and its arguments (and keyword arguments) before each forward."""
        hook = self._hook(module, part, call)
        self.add(module.register_forward_pre_hook(hook, with_kwargs=with_kwargs))

    def after(
        self,
        module: nn.Module,
        part: str,
        call: Callable[..., object],
        *,
        with_kwargs: bool = False,
        when_idle: Callable[..., object] | None = None,
    ) -> None:
        """Call it with the module, its arguments and its output after each forward pass.

        Args:
            module: Whose passes.
            part: What the guard switches off if the call raises.
            call: What is called.
            with_kwargs: Whether keyword arguments are passed too.
            when_idle: What is called instead while nothing is due.
        """
        hook = self._hook(module, part, call)
        if isinstance(hook, LastingHook):
            hook.takes_output, hook.when_idle = True, when_idle
        self.add(module.register_forward_hook(hook, with_kwargs=with_kwargs))

    def register(
        self, register: Callable[[Any], Any], part: str, call: Callable[..., object]
    ) -> None:
        """Register it with a method of a parameter or an optimiser."""
        self.add(register(self._new(part, call)))

    def add(self, handle: Any) -> None:
        """Remember a handle, to remove it with the others."""
        self._handles.append(handle)

    def remove(self) -> None:
        """Remove all hooks."""
        while self._handles:
            self._handles.pop().remove()

    def _hook(self, module: nn.Module, part: str, call: Callable[..., object]) -> Hook:
        if issubclass(self._kind, LastingHook):
            self.add(_StateOverride(module))
        hook = self._new(part, call)
        hook.on_forward = True
        if isinstance(hook, LastingHook) and self._idle_spell is not None:
            hook.idle_spell = self._idle_spell
        return hook

    def _new(self, part: str, call: Callable[..., object]) -> Hook:
        # do not load the compiler for this: hooks that it meets later do nothing
        is_compiling = self._kind is LastingHook and "torch._dynamo" in sys.modules
        kind = _compiled_hook_type() if is_compiling else self._kind
        return kind(self.guard, part, call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class _StateOverride:
    """Keeps lasting hooks out of what `torch.save`, `pickle` and `copy` read from a module.

    All of them call `__getstate__`: while hooks are on, the module has one of its own.
    """

    def __init__(self, module: nn.Module) -> None:
        self._attributes = vars(module)
        self._attributes.setdefault(_GETSTATE, _StateWithoutHooks(module))

    def remove(self) -> None:
        is_last = next(_lasting(self._attributes), None) is None
        if is_last and isinstance(self._attributes.get(_GETSTATE), _StateWithoutHooks):
            del self._attributes[_GETSTATE]


class _StateWithoutHooks:
    """`__getstate__` of a module: the state of its class, without lasting hooks."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(self) -> Any:
        state: Any = cast("Any", type(self._module)).__getstate__(self._module)
        if not isinstance(state, dict):
            return state
        attributes = dict(cast("dict[str, Any]", state))
        attributes.pop(_GETSTATE, None)
        lasting = set(_lasting(attributes))
        for name, value in attributes.items():
            if name.endswith(("_hooks", "_hooks_with_kwargs")) and isinstance(value, dict):
                hooks = cast("dict[int, Any]", value)
                attributes[name] = type(hooks)(
                    (key, hooks[key]) for key in hooks if key not in lasting
                )
        return attributes


def _lasting(state: dict[str, Any]) -> Iterator[int]:
    for name in ("_forward_hooks", "_forward_pre_hooks"):
        hooks: dict[int, Any] = state.get(name) or {}
        yield from (key for key, hook in hooks.items() if isinstance(hook, LastingHook))


def _no_hook() -> Callable[..., None]:
    return _ignore


def _ignore(*args: object, **kwargs: object) -> None:
    """Replaces a hook in a copy of its module."""
