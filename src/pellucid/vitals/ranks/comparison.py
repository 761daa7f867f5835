"""Comparing the rows of all ranks: each mark is one that sound trainings on many ranks lack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pellucid.vitals.ledger.marks import Mark, MarkName
from pellucid.vitals.ranks.row import UNKNOWN, RankRow

#: Norms of equal weights are equal but for rounding; gradients of other rows differ by far more.
_WEIGHTS, _GRADIENTS = 1e-6, 1e-5
#: A gradient is a multiple of the ranks' mean up to so much of itself.
_FITS = 2e-2
#: A factor is that of a number of ranks up to so much; one of clipping varies by more.
_FACTOR = 2e-3
#: Ranks with tokens in this ratio count as uneven; their weights are equal up to so much.
_UNEVEN, _EVEN = 1.25, 1e-2


class Difference(NamedTuple):
    """A value that is not alike on all ranks.

    Attributes:
        kind: versions, code or options.
        name: of the value.
        rank: the first rank that has another value than rank 0.
        value: that rank's.
        first: rank 0's.
    """

    kind: str
    name: str
    rank: int
    value: str
    first: str


def differences(settings: Mapping[int, Mapping[str, Mapping[str, object]]]) -> list[Difference]:
    """The values that differ between ranks, from the settings of each."""
    first_rank, *others = sorted(settings)
    first = settings[first_rank]
    return [
        Difference(kind, name, rank, str(values.get(name)), str(first[kind].get(name)))
        for rank in others
        for kind, values in settings[rank].items()
        for name in dict.fromkeys((*first[kind], *values))
        if values.get(name) != first[kind].get(name)
    ]


class RankMarks:
    """The marks of the updates that all ranks have shown.

    Args:
        names: of each group of weights.
        is_divided: whether each rank should read other rows.
        is_cut: whether each rank shows its own share of a gradient that all ranks have averaged.
    """

    def __init__(self, names: Sequence[str], *, is_divided: bool, is_cut: bool) -> None:
        self._names = names
        self._is_divided = is_divided
        self._is_cut = is_cut
        #: whether it is known that the mean over ranks is the right size
        self.judges_sizes = True
        self.by_name: dict[MarkName, Mark] = {}
        #: by mark: the groups of weights that it was seen in
        self.places: dict[MarkName, list[str]] = {}
        #: whether weights that had come apart were alike again: the loop averages weights
        self.averages_weights = False
        #: whether the weights of ranks were apart after the last update that was compared
        self.is_apart = False
        #: the groups whose gradients were not shared
        self._unshared: set[int] = set()
        #: the last update that was compared
        self.step = 0

    def add(self, rows: Sequence[RankRow]) -> None:
        """Add an update: a row of each rank."""
        step, first = rows[0].step, rows[0]
        self.step = step
        self._compare_weights(rows)
        if not first.rates:
            return  # the weights after the last update
        if self._is_divided:
            twins = any(
                row.texts == other.texts and first.texts[0] != UNKNOWN
                for row, other in _pairs(rows)
            )
            self._mark("twins", step, 1.0, shows=twins)
            has_equal_draws = any(
                row.generator == other.generator and row.draws and other.draws
                for row, other in _pairs(rows)
            )
            self._mark("alike", step, 1.0, shows=has_equal_draws)
            self._compare_tokens(rows)
            self._compare_sizes(rows)
        rates = [row.rates for row in rows]
        self._mark("rates_apart", step, _ratio(rates), shows=any(r != rates[0] for r in rates))

    def _compare_weights(self, rows: Sequence[RankRow]) -> None:
        step = rows[0].step
        if not rows[0].weights or len({len(row.weights) for row in rows}) > 1:
            return
        weights = _differing([row.weights for row in rows], _WEIGHTS)
        gradients = _differing([row.gradients for row in rows], _GRADIENTS)
        starts_apart = bool(_differing([[row.before] for row in rows], _WEIGHTS))
        is_known = rows[0].before != UNKNOWN
        self.averages_weights |= self.is_apart and is_known and not starts_apart
        self.is_apart = bool(weights)
        # an optimiser may share gradients within its step: then the weights stay alike
        unshared = sorted(weights.keys() & gradients.keys())
        self._mark_places("unshared", step, unshared, gradients)
        self._unshared.update(unshared)
        drifted = [group for group in weights if group not in self._unshared]
        self._mark_places("apart", step, drifted, weights)

    def _mark_places(
        self, name: MarkName, step: int, groups: Sequence[int], sizes: Mapping[int, float]
    ) -> None:
        value = max((sizes[group] for group in groups), default=0.0)
        self._mark(name, step, value, shows=bool(groups))
        places = self.places.setdefault(name, [])
        places += [self._names[group] for group in groups if self._names[group] not in places]

    def _compare_tokens(self, rows: Sequence[RankRow]) -> None:
        """Whether ranks with more tokens have no more weight."""
        paid, weights = [row.paid for row in rows], [row.weight for row in rows]
        if min(paid) < 0 or not all(math.isfinite(weight) for weight in weights):
            return
        heaviest, lightest = max(weights), min(weights)
        ratio = max(paid) / max(1.0, min(paid))
        is_even = lightest > 0 and heaviest / lightest < 1 + _EVEN
        self._mark("unweighted", rows[0].step, ratio, shows=ratio >= _UNEVEN and is_even)

    def _compare_sizes(self, rows: Sequence[RankRow]) -> None:
        """How large the used gradient is, of the mean over ranks of what a mean loss gives."""
        n, first = len(rows), rows[0]
        if not self.judges_sizes or any(UNKNOWN in (row.arrived[0], row.used[0]) for row in rows):
            return
        shares = [first] if self._is_cut else rows
        arrived = zip(*(row.arrived for row in shares), strict=True)
        mean = [sum(numbers) / len(shares) for numbers in arrived]
        square = sum(x * x for x in mean)
        if not square or not math.isfinite(square):
            return
        factor = sum(x * y for x, y in zip(mean, first.used, strict=True)) / square
        error = sum((y - factor * x) ** 2 for x, y in zip(mean, first.used, strict=True))
        if not error <= _FITS**2 * factor**2 * square:
            return
        weights = [row.weight for row in rows]
        is_known = all(math.isfinite(weight) and weight > 0 for weight in weights)
        factor *= sum(weights) / n if is_known else 1.0
        self._mark("halved", first.step, factor, shows=abs(factor * n - 1) < _FACTOR)
        self._mark("summed", first.step, factor, shows=abs(factor / n - 1) < _FACTOR)

    def _mark(self, name: MarkName, step: int, value: float, *, shows: bool) -> None:
        self.by_name.setdefault(name, Mark()).add(step, value, shows=shows)


def _pairs(rows: Sequence[RankRow]) -> list[tuple[RankRow, RankRow]]:
    return [(row, other) for i, row in enumerate(rows) for other in rows[:i]]


def _differing(norms: Sequence[Sequence[float]], bound: float) -> dict[int, float]:
    """The groups whose norms differ between ranks by more than `bound`, and by how much."""
    differing: dict[int, float] = {}
    for group, values in enumerate(zip(*norms, strict=True)):
        low, high = min(values), max(values)
        if not all(map(math.isfinite, values)):
            continue
        size = max(abs(low), abs(high))
        if size and (high - low) / size > bound:
            differing[group] = (high - low) / size
    return differing


def compare_norms(norms: Sequence[Sequence[float]]) -> dict[int, float]:
    """The weights that differ between ranks, by place, and by how much, of their size."""
    return _differing(norms, _WEIGHTS)


def _ratio(rates: Sequence[Sequence[float]]) -> float:
    """The largest ratio of two ranks' rates."""
    ratios = [max(values) / min(values) for values in zip(*rates, strict=False) if min(values) > 0]
    return max(ratios, default=1.0)
