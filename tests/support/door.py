"""Calls through the public door of `maths`: rows of the table, and one argument of them changed.

Comes in: the name of an equation. Goes out: its example as arguments by name, what they are
declared to be, and what came of a call: a value, or a refusal. Anything else is raised.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

from pellucid import maths
from pellucid.errors import MathsError
from pellucid.maths.door.equation import DECLARED, Equation
from pellucid.maths.door.kinds import Either, Floats, Truths, Wholes
from support.table import NUMBERS, ROWS

NAMES = tuple(maths.__all__)


def for_all(names: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A law of one equation becomes a test of each module: a test for each name takes too long."""
    modules: dict[str, list[str]] = {}
    for name in names:
        module = inspect.unwrap(getattr(maths, name)).__module__.rpartition(".")[2]
        modules.setdefault(module, []).append(name)

    def test_of(law: Callable[..., None]) -> Callable[..., None]:
        def test(module: str) -> None:
            for name in modules[module]:
                try:
                    law(name)
                except BaseException as error:
                    error.add_note(f"of {name}")
                    raise

        test.__name__ = law.__name__
        return pytest.mark.parametrize("module", sorted(modules))(test)

    return test_of


def declared(name: str) -> Equation:
    """What the equation is declared to take."""
    return DECLARED[getattr(maths, name).__wrapped__]


def example(name: str) -> dict[str, Any]:
    """The example of the equation's row, by argument."""
    if name in NUMBERS:
        return dict(NUMBERS[name][0])
    row = ROWS[name]
    first = len(row.arrays) - len(row.named)
    positional = dict(zip(declared(name).positional, row.arrays[:first], strict=False))
    by_name = dict(zip(row.named, row.arrays[first:], strict=True))
    return {**positional, **by_name, **row.options}


def array_arguments(name: str) -> dict[str, np.ndarray]:
    """The arrays of the example."""
    return {key: x for key, x in example(name).items() if isinstance(x, np.ndarray)}


def call(name: str, **changed: Any) -> Any:
    """The equation of its example, with some arguments changed."""
    return getattr(maths, name)(**{**example(name), **changed})


def answer(name: str, **changed: Any) -> Any:
    """The value, or the refusal in words. Whatever else is raised goes through."""
    try:
        return call(name, **changed)
    except MathsError as refusal:
        message = str(refusal)
        assert message.startswith(f"{name}: "), message
        return refusal


def is_refusal(value: Any) -> bool:
    """Whether an answer is a refusal."""
    return isinstance(value, MathsError)


def results(value: Any) -> tuple[Any, ...]:
    """One result or several, as several."""
    return value if isinstance(value, tuple) else (value,)


def array_kind(name: str, argument: str) -> Floats | Wholes | Truths:
    """The kind of an argument that is an array in the example."""
    kind = declared(name).kinds[argument]
    kind = kind.array if isinstance(kind, Either) else kind
    assert isinstance(kind, Floats | Wholes | Truths)
    return kind


def axis_names(name: str, argument: str) -> list[str]:
    """The names of its axes, `...` among them."""
    axes = array_kind(name, argument).axes
    return [*(["..."] if axes.leading else []), *(axis.name for axis in axes.trailing)]


def is_shared(name: str, argument: str, axis: str) -> bool:
    """Whether an axis is one of another array too, or twice of this one, or a number's value.

    If so its length cannot change in this argument alone.
    """
    others = [key for key in array_arguments(name) if key != argument]
    return (
        any(axis in axis_names(name, key) for key in others)
        or axis_names(name, argument).count(axis) > 1
        or isinstance(example(name).get(axis), int)
    )


def as_torch(x: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """A tensor; floats in the dtype."""
    tensor = torch.from_numpy(np.ascontiguousarray(x))
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
