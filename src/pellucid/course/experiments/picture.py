"""The picture of a measurement as data: bars, or curves on two axes.

`terminal_picture` and `svg_picture` draw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A bar for each label, from zero."""

    title: str
    bars: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points in their order, with a name."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Curves on two axes with labels; an axis may be logarithmic if all its values are above 0."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False


Picture = Bars | Curves


def bars(title: str, values: Mapping[str, float]) -> Bars:
    """A bar for each value of a mapping."""
    return Bars(title=title, bars=tuple((label, float(value)) for label, value in values.items()))


def curve(name: str, x_values: Iterable[float], y_values: Iterable[float]) -> Curve:
    """A curve through pairs of values.

    Args:
        name: its label.
        x_values: a value for each point.
        y_values: a value for each point, as many.
    """
    pairs = zip(x_values, y_values, strict=True)
    return Curve(name=name, points=tuple((float(x), float(y)) for x, y in pairs))
