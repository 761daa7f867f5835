"""Hooks on modules, parameters and optimisers: each calls through a guard and changes nothing."""

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

_thread = threading.local()
_GETSTATE = "__getstate__"


@contextmanager
def unheard() -> Generator[None]:
    """Within it, hooks that stay on a model hear nothing: pellucid itself runs the model."""
    was_unheard = getattr(_thread, "unheard", False)
    _thread.unheard = True
    try:
        yield
    finally:
        _thread.unheard = was_unheard


class Hook:
    """Calls what it was given, through a guard; whatever that gives, it gives None."""

    #: torch does not warn that it is left out of a parameter that goes to another process
    __torch_unserializable__ = True

    def __init__(self, guard: Guard, part: str, call: Callable[..., object]) -> None:
        self._guard = guard
        self._part = part
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._guard(self._part, self._call, *args, **kwargs)

    def __deepcopy__(self, memo: object) -> Callable[..., None]:
        return _nothing

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _no_hook, ()


class LastingHook(Hook):
    """A hook that stays on while the training runs; a compiler lets it run as it is."""

    #: whether it is called with what a module gave
    hears_outputs = False

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            self.hear(*args, **kwargs)

    def hear(self, *args: Any, **kwargs: Any) -> None:
        """Call, unless pellucid itself runs the model."""
        if not getattr(_thread, "unheard", False):
            self._guard(self._part, self._call, *args, **kwargs)


@cache
def _beside_a_compiler() -> type[LastingHook]:
    """Hooks that a compiler does not look into: not one frame of theirs is traced.

    They break its graph in two. Where it was told to make one of all (`fullgraph=True`) that would
    end the training: then they are not heard.
    """
    compiler: Any = torch.compiler
    hear, is_whole = compiler.disable(_hear), compiler.assume_constant_result(_is_whole)

    def call(self: LastingHook, *args: Any, **kwargs: Any) -> None:
        if not is_whole(self.hears_outputs):
            hear(self, args, kwargs)  # whole: to take them apart is to look at what is in them

    return type("CompiledHook", (LastingHook,), {"__call__": call})


def _hear(hook: LastingHook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    hook.hear(*args, **kwargs)


def _is_whole(hears_outputs: bool) -> bool:
    """Whether a compiler is at work that must not be interrupted; it asks this for itself.

    Where warnings are errors it cannot go on after outputs were heard: it warns of them itself.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        translator: Any = cast("Any", InstructionTranslator).current_tx()
    except AttributeError:  # nothing was compiled so far
        return False
    if translator is None:
        return False
    raises = hears_outputs and any(action == "error" for action, *_ in warnings.filters)
    one_graph = getattr(translator, "one_graph", True) or getattr(
        translator, "error_on_graph_break", False
    )
    return bool(one_graph or raises)


class Hooks:
    """The hooks of one purpose. As a context, all are off afterwards, whatever happened."""

    def __init__(self, guard: Guard, kind: type[Hook] = Hook) -> None:
        self._guard = guard
        self._kind = kind
        self._handles: list[Any] = []

    def before(
        self, module: nn.Module, part: str, call: Callable[..., object], *, named: bool = False
    ) -> None:
        """Call it with the module and its arguments, `named` ones too, before each forward pass."""
        hook = self._hook(module, part, call)
        self.add(module.register_forward_pre_hook(hook, with_kwargs=named))

    def after(
        self, module: nn.Module, part: str, call: Callable[..., object], *, named: bool = False
    ) -> None:
        """Call it with the module, its arguments and its output, after each forward pass."""
        hook = self._hook(module, part, call)
        if isinstance(hook, LastingHook):
            hook.hears_outputs = True
        self.add(module.register_forward_hook(hook, with_kwargs=named))

    def on(self, register: Callable[[Any], Any], part: str, call: Callable[..., object]) -> None:
        """Call it where `register` (of a parameter or an optimiser) registers it."""
        self.add(register(self._new(part, call)))

    def add(self, handle: Any) -> None:
        """Take one more handle to be removed with the others."""
        self._handles.append(handle)

    def remove(self) -> None:
        """Take all hooks off."""
        while self._handles:
            self._handles.pop().remove()

    def _hook(self, module: nn.Module, part: str, call: Callable[..., object]) -> Hook:
        if issubclass(self._kind, LastingHook):
            self.add(_LeftOut(module))
        return self._new(part, call)

    def _new(self, part: str, call: Callable[..., object]) -> Hook:
        # not loaded for this alone: where it was not, hooks that it meets later do nothing
        is_compiling = self._kind is LastingHook and "torch._dynamo" in sys.modules
        kind = _beside_a_compiler() if is_compiling else self._kind
        return kind(self._guard, part, call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class _LeftOut:
    """Leaves lasting hooks out of what `torch.save`, `pickle` and `copy` take of a module.

    They all ask the module for its state: while hooks are on, a function of its own answers.
    """

    def __init__(self, module: nn.Module) -> None:
        self._own = vars(module)
        self._own.setdefault(_GETSTATE, _StateWithoutHooks(module))

    def remove(self) -> None:
        is_last = next(_lasting(self._own), None) is None
        if is_last and isinstance(self._own.get(_GETSTATE), _StateWithoutHooks):
            del self._own[_GETSTATE]


class _StateWithoutHooks:
    """The state of a module as its class gives it, without lasting hooks."""

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
    return _nothing


def _nothing(*args: object, **kwargs: object) -> None:
    """What is left of a hook in a copy."""
