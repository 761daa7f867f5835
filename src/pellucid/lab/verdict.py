"""The verdict on a pair of variants, in words that follow the interval of their difference."""

from __future__ import annotations

from pellucid.display.metric_labels import Measured
from pellucid.lab.statistics import LEVEL, MOST_SEEDS, Difference
from pellucid.printable import plural

#: A p-value above this is no evidence that two variants differ.
ALPHA = 1 - LEVEL


def verdict(
    names: tuple[str, str],
    difference: Difference,
    measure: Measured,
    *,
    p: float | None,
    n_pairs: int = 1,
    equal_configs: bool = False,
) -> str:
    """Which variant is better and by how much, or what these seeds cannot tell.

    Args:
        names: the names of the two variants.
        difference: the second minus the first, over seeds.
        measure: how the values are shown, and which direction is better.
        p: the p-value after Holm's correction.
        n_pairs: how many pairs of variants are compared.
        equal_configs: whether the two variants are one config.
    """
    n, unit = difference.n, measure.unit or measure.label
    seeds = f"{n} {plural(n, 'seed')}"
    if n == 0:
        return "nothing to compare: no seed has a finite value of both"
    if difference.identical:
        if equal_configs:
            return f"identical: equal configs, and no difference with {seeds}"
        return f"no difference with {seeds}, though the configs differ"
    if difference.interval is None:
        return (
            f"one seed cannot tell: the values differ by {_size(difference.mean)} {unit}; give at "
            "least 2 seeds"
        )
    low, high = difference.interval
    if low <= 0 <= high:
        return _undecided(difference, seeds, unit)
    smaller, larger = sorted((abs(low), abs(high)))
    amount = f"by {_size(difference.mean)} {unit}, {_size(smaller)} to {_size(larger)}"
    word, winner = _direction(names, difference.mean, measure)
    if p is not None and p > ALPHA:
        return (
            f"{winner} may be {word} {amount}, but one of {n_pairs} pairs can look so by chance "
            f"(p = {p:.2g} after Holm)"
        )
    return f"{winner} is {word} {amount}"


def _direction(names: tuple[str, str], mean: float, measure: Measured) -> tuple[str, str]:
    """The word for the winner, and its name; without a better direction the higher one."""
    if measure.better == "lower":
        return "better", names[mean < 0]
    return ("better" if measure.better == "higher" else "higher"), names[mean > 0]


def _undecided(difference: Difference, seeds: str, unit: str) -> str:
    assert difference.interval is not None
    largest = max(map(abs, difference.interval))
    text = f"no difference larger than {_size(largest)} {unit} can be seen with {seeds}"
    if difference.mean == 0:
        return text
    size = _size(difference.mean)
    if difference.n_needed is None:
        return f"{text}; more than {MOST_SEEDS:,} would be needed to see one of {size}"
    if difference.n_needed <= difference.n:
        return f"{text}; one of {size} was likely to be seen with {difference.n_needed}"
    return f"{text}; {difference.n_needed:,} would be needed to see one of {size}"


def _size(value: float) -> str:
    """A difference without its sign, in two digits or three decimals, whichever says more."""
    value = abs(value)
    return f"{value:.3f}" if value >= 0.01 else f"{value:.2g}"
