"""The public door of the equations: it checks and converts arguments, and checks results.

The modules of this room hold bare formulas. Code that computes in a loop imports those:
`from pellucid.maths.softmax import softmax`. `pellucid.maths.softmax` goes through the door:

- Shapes must follow the declared axes, dtypes the declared kind. Both are always checked.
- Lists, tuples and numbers become arrays like the other arguments, or NumPy arrays in float64.
- Types of 16 bits and fewer are computed in float32, and the result has the input's type. If
  numbers are so large or small that their powers leave float32, it computes in float64.
- Values are checked, except inside `torch.compile`, `torch.func` and JAX's `jit`.
- nan is refused as an argument, and as the result of arguments without nan.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array
from pellucid.maths.door.arguments import CheckedArguments, read_arguments
from pellucid.maths.door.checks import has_nan
from pellucid.maths.door.kinds import Kind, floats

P = ParamSpec("P")
R = TypeVar("R")

#: A check beyond the kinds: a function of some of the arguments, by their names.
Check = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Equation:
    """A formula, the kinds of its arguments, and further checks with the arguments they take."""

    body: Callable[..., Any]
    signature: inspect.Signature
    positional: tuple[str, ...]
    defaults: dict[str, Any]
    kinds: dict[str, Kind]
    checks: dict[Check, tuple[str, ...]]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, in order; Python's own TypeError if they do not fit."""
        by_name = dict(zip(self.positional, args, strict=False))
        arguments = {**self.defaults, **by_name, **kwargs}
        if (
            len(args) > len(self.positional)
            or any(name in by_name for name in kwargs)
            or set(arguments) != set(self.kinds)
        ):
            self.signature.bind(*args, **kwargs)
        return {name: arguments[name] for name in self.kinds}


#: Every declared equation, by its bare formula.
DECLARED: dict[Callable[..., Any], Equation] = {}


def equation(
    *others: Callable[..., Any], **kinds: Kind | str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the kinds of a formula's arguments; the decorator returns the formula itself.

    Args:
        others: equations whose kinds also apply to arguments of the same names; and functions of
            some of the arguments that raise a `MathsError` if these do not fit each other.
        kinds: by argument; a string means finite numbers with these axes.
    """

    def declare(body: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(body)
        parameters = signature.parameters.values()
        declared: dict[str, Kind] = {}
        checks: list[Check] = []
        for function in others:
            if function in DECLARED:
                declared |= DECLARED[function].kinds
                checks += DECLARED[function].checks
            else:
                checks.append(function)
        declared |= {
            k: floats(kind) if isinstance(kind, str) else kind for k, kind in kinds.items()
        }
        DECLARED[body] = Equation(
            body=body,
            signature=signature,
            positional=tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD),
            defaults={p.name: p.default for p in parameters if p.default is not p.empty},
            kinds={p.name: declared[p.name] for p in parameters},
            checks={check: tuple(inspect.signature(check).parameters) for check in checks},
        )
        return body

    return declare


def open_door(names: dict[str, Any], public: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """Replace the public names in a room's namespace by their checked versions."""
    doors = {name: checked(names[name]) for name in public}
    names.update(doors)
    return doors


def checked(body: Callable[P, R]) -> Callable[P, R]:
    """The formula with its checks; `__wrapped__` is the bare formula."""
    declared = DECLARED[body]
    name = body.__name__

    @functools.wraps(body)
    def door(*args: P.args, **kwargs: P.kwargs) -> R:
        arguments = declared.bind(args, kwargs)
        try:
            checked_arguments = read_arguments(arguments, declared.kinds, declared.defaults)
            with _quiet(checked_arguments):
                for check, parameters in declared.checks.items():
                    check(**{key: checked_arguments.arguments[key] for key in parameters})
                return _check_results(checked_arguments, body(**checked_arguments.arguments))  # pyright: ignore[reportCallIssue]
        except MathsError as refusal:
            raise MathsError(f"{name}: {refusal}") from None
        except (ArithmeticError, MemoryError) as error:
            raise MathsError(f"{name}: its arguments are out of range: {error}") from error

    door.__module__ = "pellucid.maths"
    return door


def _quiet(checked_arguments: CheckedArguments) -> AbstractContextManager[Any]:
    """Keep NumPy from warning of an exponential that underflows or a number that overflows."""
    library = checked_arguments.xp.__name__ if checked_arguments.xp is not None else "torch"
    return nullcontext() if "torch" in library or "jax" in library else np.errstate(all="ignore")


def _check_results(checked_arguments: CheckedArguments, results: Any) -> Any:
    """The results in the type of the input."""
    if isinstance(results, tuple):
        return tuple(_check_results(checked_arguments, result) for result in results)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    _refuse_nan(checked_arguments, results)
    if (
        checked_arguments.input_dtype == checked_arguments.dtype
        or results.dtype != checked_arguments.dtype
    ):
        return results
    return checked_arguments.xp.astype(results, checked_arguments.input_dtype)


def _refuse_nan(checked_arguments: CheckedArguments, result: Array) -> None:
    """Refuse nan as a result of arguments without nan, such as 0 / 0."""
    xp = checked_arguments.xp
    if xp is None:
        is_nan = result != result
    else:
        is_nan = xp.isdtype(result.dtype, "real floating") and has_nan(result)
    if is_nan and not checked_arguments.holds_nan:
        raise MathsError("the result holds nan: for these arguments there is no number")
