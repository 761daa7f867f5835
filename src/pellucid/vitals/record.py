"""The history of a training in bounded memory: losses, norms, rates and signs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pellucid.vitals.signs import Sign

#: The first points of a series all stay: most faults appear at once.
_FIRST = 64
#: Most points that a series holds.
_MAX_POINTS = 512


class Point(NamedTuple):
    """A number at an update, the word for it, and its place in the model.

    Attributes:
        step: the update.
        value: the number.
        word: calm, watch or sick; None if no rule says one.
        place: the module, parameter or head.
    """

    step: int
    value: float
    word: str = ""
    place: str = ""


class Series:
    """The points of one number; when there are too many, one of each later pair goes.

    The point that is further from the one before the pair stays, so that spikes survive.
    """

    def __init__(self) -> None:
        self._points: list[Point] = []

    def add(self, point: Point) -> None:
        """Add the next point; it replaces a point of the same update."""
        points = self._points
        if points and points[-1].step == point.step:
            points.pop()
        points.append(point)
        if len(points) > _MAX_POINTS:
            self._points = _thinned(points)

    @property
    def points(self) -> tuple[Point, ...]:
        """The points that are left, in order."""
        return tuple(self._points)


class Record:
    """The series of one training."""

    def __init__(self) -> None:
        self.losses = Series()
        self.norms = Series()
        self.rates = Series()
        self.signs: dict[str, Series] = {}
        #: numbers that the trainer logs itself, by the names that it gives them
        self.logged: dict[str, Series] = {}

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add the numbers that a trainer logged at an update."""
        for name, value in numbers.items():
            self.logged.setdefault(name, Series()).add(Point(step, value))

    def sign(self, sign: Sign) -> None:
        """Add a sign as it was judged."""
        self.add(sign.id, Point(sign.step, sign.value, sign.word, sign.place))

    def add(self, id: str, point: Point) -> None:
        """Add a reading of a sign."""
        if id not in self.signs:
            self.signs[id] = Series()
        self.signs[id].add(point)


def _thinned(points: list[Point]) -> list[Point]:
    thinned = points[:_FIRST]
    for first, second in zip(points[_FIRST::2], points[_FIRST + 1 :: 2], strict=False):
        previous = thinned[-1].value
        is_second = _distance(second.value, previous) >= _distance(first.value, previous)
        thinned.append(second if is_second else first)
    return thinned if (len(points) - _FIRST) % 2 == 0 else [*thinned, points[-1]]


def _distance(a: float, b: float) -> float:
    gap = abs(a - b)
    return gap if gap == gap else float("inf")
