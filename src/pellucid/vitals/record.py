"""What a training looked like so far, in bounded memory: losses, norms, rates and signs."""

from __future__ import annotations

from typing import NamedTuple

from pellucid.vitals.signs import Sign

#: The first points of a series are all kept: most of what goes wrong does so at once.
_FIRST = 64
#: So many points are kept of a series, at most.
_MAX_POINTS = 512


class Point(NamedTuple):
    """A number at an update, the word for it, and its place in the model."""

    step: int
    value: float
    word: str = ""
    where: str = ""


class Series:
    """The points of one number; when there are too many, one of each later pair goes.

    Of a pair the one stays that is further from the point before: a spike is not thinned away.
    """

    def __init__(self) -> None:
        self._points: list[Point] = []

    def add(self, point: Point) -> None:
        """Take the next point; one of an update that is there already takes its place."""
        if self._points and self._points[-1].step == point.step:
            self._points.pop()
        self._points.append(point)
        if len(self._points) > _MAX_POINTS:
            self._points = _thinned(self._points)

    @property
    def points(self) -> tuple[Point, ...]:
        """What was kept, in order."""
        return tuple(self._points)


class Record:
    """The series of one training."""

    def __init__(self) -> None:
        self.losses = Series()
        self.norms = Series()
        self.rates = Series()
        self.signs: dict[str, Series] = {}

    def sign(self, sign: Sign) -> None:
        """Take a sign as it was judged."""
        point = Point(sign.step, sign.value, sign.word, sign.where)
        self.signs.setdefault(sign.id, Series()).add(point)


def _thinned(points: list[Point]) -> list[Point]:
    chosen = points[:_FIRST]
    for first, second in zip(points[_FIRST::2], points[_FIRST + 1 :: 2], strict=False):
        previous = chosen[-1].value
        chosen.append(max(second, first, key=lambda point: _distance(point.value, previous)))
    return chosen if (len(points) - _FIRST) % 2 == 0 else [*chosen, points[-1]]


def _distance(a: float, b: float) -> float:
    gap = abs(a - b)
    return gap if gap == gap else float("inf")
