"""Screening: which of many fixes are worth pairs, by forks on seeds that judge nothing.

Each fix is tried once. A learning rate that helps is moved on until it helps no more, and the best
fixes are tried once more with another seed: one fork alone would often choose by luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Protocol

from pellucid.diagnosis.fixes.propose import Fix, read_fixes
from pellucid.diagnosis.fixes.training import RATES
from pellucid.diagnosis.proof.fork import Fork
from pellucid.training import error_line

#: The seed of the first forks, and of those that the best fixes get as well.
FIRST_SEED, SECOND_SEED = 0, 1
#: So many of the best proposed fixes, and of the best of all, get a second fork.
_PROPOSED, _BEST = 2, 3


class Forks(Protocol):
    """Runs the forks of a loop."""

    def expect(self, n_forks: int) -> None:
        """Say how many more forks there will be."""
        ...

    def run(self, name: str, seed: int) -> Fork:
        """A fork with a fix, or without one if the name is empty."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """A fix, the codes of the findings that name it, and its forks so far.

    It is proposed if a finding names it, or if a number that it changes is far from the usual.
    """

    name: str
    fix: Fix
    codes: tuple[str, ...]
    is_proposed: bool
    forks: list[Fork] = field(default_factory=list[Fork])
    error: str = ""

    @property
    def loss(self) -> float:
        """The mean loss of its forks; infinite if one raised or is not finite, or without any."""
        losses = [fork.loss for fork in self.forks if fork.loss is not None]
        is_whole = losses and len(losses) == len(self.forks) and not self.error
        return fmean(losses) if is_whole else math.inf


def first_rate(name: str) -> str:
    """The fix that is tried first in the place of one: ten times a learning rate, or a tenth."""
    factor = RATES.get(name, 1.0)
    return name if factor == 1 else "rate_tenfold" if factor > 1 else "rate_tenth"


def screen(
    forks: Forks, candidates: Sequence[Candidate], unfixed: Fork, code: Callable[[str], str]
) -> list[Candidate]:
    """Try each fix once, and more learning rates in a direction that helps.

    Args:
        forks: Runs them.
        candidates: The fixes to try first.
        unfixed: The fork without a fix.
        code: Gives a fix of the learning rate as code of this loop.
    """
    forks.expect(len(candidates))
    screened = list(candidates)
    for candidate in screened:
        _try(forks, candidate, FIRST_SEED)
    start = math.inf if unfixed.loss is None else unfixed.loss
    rates = [c for c in screened if c.name in RATES and c.loss < start]
    if rates:
        screened += _other_rates(forks, min(rates, key=lambda candidate: candidate.loss), code)
    return screened


def _other_rates(forks: Forks, first: Candidate, code: Callable[[str], str]) -> list[Candidate]:
    """Further rates: each ten times as far as the one before, and at last two around the best."""
    is_up = RATES[first.name] > 1
    names = {round(math.log10(factor), 1): name for name, factor in RATES.items()}
    step = 1 if is_up else -1
    best, exponent, others = first, 2 * step, list[Candidate]()
    while (name := names.get(exponent)) and best is (others or [first])[-1]:
        others.append(_tried(forks, first, name, code(name)))
        best = min(best, others[-1], key=lambda candidate: candidate.loss)
        exponent += step
    power = round(math.log10(RATES[best.name]), 1)
    for half_step in (round(power - 0.5, 1), round(power + 0.5, 1)):
        if half_step in names:
            others.append(_tried(forks, first, names[half_step], code(names[half_step])))
    return others


def _tried(forks: Forks, first: Candidate, name: str, code: str) -> Candidate:
    fix = Fix(assignments=(), code=code, **read_fixes()[name])
    candidate = replace(first, name=name, fix=fix, forks=[], error="")
    forks.expect(1)
    _try(forks, candidate, FIRST_SEED)
    return candidate


def _try(forks: Forks, candidate: Candidate, seed: int) -> None:
    try:
        candidate.forks.append(forks.run(candidate.name, seed))
    except Exception as error:  # a foreign loop may do anything once it is changed
        candidate.error = error_line(error)


def finalists(forks: Forks, screened: Sequence[Candidate], unfixed: Fork) -> list[Candidate]:
    """The fixes to try on pairs, in order: the best proposed one, then the best of all.

    What removes the cause comes before what makes up for it, such as a higher learning rate. A fix
    whose fork ended exactly as the unfixed one changes nothing in this loop.
    """
    changing = [c for c in screened if math.isfinite(c.loss) and c.loss != unfixed.loss]
    by_loss = sorted(changing, key=lambda candidate: candidate.loss)
    best = _unique([*_proposed(by_loss)[:_PROPOSED], *by_loss[:_BEST]])
    forks.expect(len(best))
    for candidate in best:
        _try(forks, candidate, SECOND_SEED)
    finite = [candidate for candidate in best if math.isfinite(candidate.loss)]
    by_loss = sorted(finite, key=lambda candidate: candidate.loss)
    return _unique([*_proposed(by_loss)[:1], *by_loss])


def _unique(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [c for i, c in enumerate(candidates) if c not in candidates[:i]]


def _proposed(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.is_proposed]
