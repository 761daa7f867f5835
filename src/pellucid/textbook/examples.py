"""The textbook's expressions, computed: a docstring's `Example`, or the proof of a question."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid import maths


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape)


#: Functions besides the equations. `normal(...)` samples the same numbers every time.
_WORDS: dict[str, Any] = {
    "abs": abs,
    "allclose": np.allclose,
    "arange": np.arange,
    "array": np.array,
    "diff": np.diff,
    "exp": np.exp,
    "eye": np.eye,
    "inf": math.inf,
    "log": np.log,
    "max": np.max,
    "mean": np.mean,
    "min": np.min,
    "normal": _normal,
    "ones": np.ones,
    "prod": np.prod,
    "sqrt": np.sqrt,
    "std": np.std,
    "sum": np.sum,
    "tril": np.tril,
    "zeros": np.zeros,
}


@dataclass(frozen=True, slots=True)
class Computed:
    """An expression and its value, computed now.

    Attributes:
        expression: in Python.
        value: its result.
    """

    expression: str
    value: Any

    @property
    def shown_text(self) -> str:
        """The value with a few digits, an array's rows below each other."""
        return _format_value(self.value)

    @property
    def plain(self) -> Any:
        """The value for JSON; a number that is not finite becomes a word."""
        return _plain(self.value)


def compute(expression: str) -> Computed:
    """The value of an expression of the textbook."""
    words = {name: getattr(maths, name) for name in maths.__all__}
    value = eval(expression, {"__builtins__": {}, **_WORDS, **words})
    return Computed(expression, value)


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "\n".join(_format_value(part) for part in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if np.ndim(value) == 0:
        return f"{value:.6g}"
    with np.printoptions(precision=4, suppress=_readable(value), linewidth=88):
        return str(value)


def _readable(value: Any) -> bool:
    """Whether four decimals show every entry that is not 0."""
    sizes = np.abs(value[np.isfinite(value) & (value != 0)])
    return sizes.size == 0 or bool((sizes.min() >= 1e-4) & (sizes.max() < 1e5))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
