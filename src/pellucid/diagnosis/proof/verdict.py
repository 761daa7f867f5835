"""The verdict on each fix: compare pairs of forks with and without it, by a stated rule.

The rule. A pair is an unfixed and a fixed fork with the same seed: the same batches and dropout,
and the same random weights. A difference of losses counts if p < 0.05 in the t test of pairs, after
Holm's correction for the number of fixes, and if its mean is above 1% of the unfixed loss.

    not finite      a fixed fork met a value that is not finite
    helped          the loss is lower by a difference that counts; or all fixed forks stay finite
                    while an unfixed one did not; or sick signs became healthy in every pair while
                    the loss is no higher; and no other sign is sick
    mixed           the loss is lower by a difference that counts, and another sign is sick
    harmed          the loss is higher by a difference that counts, or another sign is sick
    no difference   none of these
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pellucid.diagnosis.fixes.propose import Fix
from pellucid.diagnosis.proof.fork import Fork
from pellucid.lab.statistics import LEVEL, Difference, detectable_difference, paired_difference

Verdict = Literal["helped", "mixed", "no difference", "harmed", "not finite"]

_ALPHA = 1 - LEVEL
#: The least difference that counts, as a share of the unfixed loss.
SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The test of one fix: pairs of an unfixed and a fixed fork, and the codes that name it.

    `adjusted_p` is the p-value of the losses after a correction for several trials, if any.

    Attributes:
        fix: the change.
        codes: of the findings that name it.
        pairs: for each seed the fork without and the fork with the fix.
    """

    fix: Fix
    codes: tuple[str, ...]
    pairs: tuple[tuple[Fork, Fork], ...]
    adjusted_p: float | None = None

    @property
    def _unfixed_forks(self) -> list[Fork]:
        return [unfixed for unfixed, _ in self.pairs]

    @property
    def _fixed_forks(self) -> list[Fork]:
        return [fixed for _, fixed in self.pairs]

    @property
    def differences(self) -> tuple[float, ...]:
        """The fixed minus the unfixed loss of each finite pair; below 0 is better."""
        return tuple(fixed - unfixed for unfixed, fixed in self._losses)

    @property
    def _losses(self) -> list[tuple[float, float]]:
        """The unfixed and the fixed loss of each finite pair."""
        return [
            (unfixed.loss, fixed.loss)
            for unfixed, fixed in self.pairs
            if unfixed.loss is not None and fixed.loss is not None
        ]

    @property
    def difference(self) -> Difference:
        """The mean of the differences with its 95% interval and p-value."""
        return paired_difference([u for u, _ in self._losses], [f for _, f in self._losses])

    @property
    def detectable(self) -> float | None:
        """The smallest difference that so many such pairs show in 4 of 5 proofs, if tried alone."""
        difference = self.difference
        if difference.deviation is None:
            return None
        return detectable_difference(difference.deviation, difference.n)

    @property
    def p(self) -> float | None:
        """The p-value by which a difference counts; None with fewer than two finite pairs."""
        return self.difference.p if self.adjusted_p is None else self.adjusted_p

    @property
    def mean(self) -> float | None:
        """The mean difference; None if no pair is finite."""
        return statistics.fmean(self.differences) if self.differences else None

    @property
    def leans(self) -> bool:
        """Whether the fixed loss is lower on average by a difference that would be large enough."""
        unfixed = [unfixed for unfixed, _ in self._losses]
        return self.mean is not None and self.mean < -SHARE * abs(statistics.fmean(unfixed))

    @property
    def spread(self) -> float:
        """The standard deviation of the differences; 0 if there are fewer than two."""
        return statistics.stdev(self.differences) if len(self.differences) > 1 else 0.0

    @property
    def cured(self) -> frozenset[str]:
        """The signs that are sick in every unfixed and in no fixed fork."""
        return _sick_in_all(self._unfixed_forks) - _sick_in_any(self._fixed_forks)

    @property
    def caught(self) -> frozenset[str]:
        """The signs that are sick in every fixed and in no unfixed fork."""
        return _sick_in_all(self._fixed_forks) - _sick_in_any(self._unfixed_forks)

    @property
    def still_sick(self) -> frozenset[str]:
        """The signs that are sick in any fixed fork."""
        return _sick_in_any(self._fixed_forks)

    @property
    def seconds(self) -> float:
        """How long the fixed forks took."""
        return sum(fork.seconds for fork in self._fixed_forks)

    @property
    def rescued(self) -> bool:
        """Whether all fixed forks stay finite, and an unfixed one does not."""
        return any(fork.loss is None for fork in self._unfixed_forks) and self._finite

    @property
    def words(self) -> str:
        """What the fix did to the loss, in one phrase."""
        if self.rescued:
            n = sum(fork.loss is None for fork in self._unfixed_forks)
            return f"stays finite, while {n} of {len(self.pairs)} unfixed forks do not"
        stopped = sum(fork.loss is None for fork in self._fixed_forks)
        if stopped or self.mean is None:
            return f"{stopped} of {len(self.pairs)} fixed forks met a value that is not finite"
        lower = sum(difference < 0 for difference in self.differences)
        unfixed_loss = statistics.fmean(unfixed for unfixed, _ in self._losses)
        return (
            f"{self.pairs[0][1].measure} {unfixed_loss:.3f} -> {unfixed_loss + self.mean:.3f} "
            f"({self.mean:+.3f}{self._unit}{self._certainty}, "
            f"lower in {lower} of {len(self.differences)} pairs)"
        )

    @property
    def _unit(self) -> str:
        unit = self.pairs[0][1].unit.removesuffix("s")
        return f" nats per {unit}" if unit else ""

    @property
    def _certainty(self) -> str:
        interval, p = self.difference.interval, self.p
        if interval is None or p is None:
            return ""
        return f", 95% interval {interval[0]:+.3f} to {interval[1]:+.3f}, p = {p:.2g}"

    @property
    def reach(self) -> str:
        """How large a difference these pairs could have shown, in a sentence."""
        if self.detectable is None:
            return "Fewer than two pairs are finite, so no difference could have been seen."
        if not any(self.differences):
            return "Both forks of each pair ended alike: the fix changes nothing here."
        return (
            f"{len(self.differences)} pairs with this spread show a difference of "
            f"{self.detectable:.2g}{self._unit} in 4 of 5 proofs; a smaller one may be missed."
        )

    @property
    def _finite(self) -> bool:
        return all(fork.loss is not None for fork in self._fixed_forks)

    @property
    def verdict(self) -> Verdict:
        """By the rule at the head of this file."""
        if not self._finite:
            return "not finite"
        better, worse = self._counts(-1), self._counts(1)
        cured = bool(self.cured) and all(
            len(fixed.sick) < len(unfixed.sick) for unfixed, fixed in self.pairs
        )
        if worse or (self.caught and not better and not self.rescued):
            return "harmed"
        if better and self.caught:
            return "mixed"
        if better or self.rescued or cured:
            return "helped"
        return "no difference"

    def _counts(self, sign: int) -> bool:
        """Whether the loss is lower (-1) or higher (1) by a difference that counts."""
        if self.mean is None or self.p is None:
            return False
        least = SHARE * abs(statistics.fmean(unfixed for unfixed, _ in self._losses))
        return self.p < _ALPHA and sign * self.mean > least

    def record(self) -> dict[str, Any]:
        """The trial as plain values."""
        return {
            "does": self.fix.change,
            "set": list(self.fix.assignments),
            "code": self.fix.code or None,
            "codes": list(self.codes),
            "needs": self.fix.start,
            "verdict": self.verdict,
            "difference": self.mean,
            "spread": self.spread,
            "interval": self.difference.interval,
            "p": self.p,
            "detectable": self.detectable,
            "cured": sorted(self.cured),
            "caught": sorted(self.caught),
            "seconds": self.seconds,
            "pairs": [
                {"unfixed": _fork(unfixed), "fixed": _fork(fixed)} for unfixed, fixed in self.pairs
            ],
        }


def _sick_in_any(forks: Iterable[Fork]) -> frozenset[str]:
    no_signs: frozenset[str] = frozenset()
    return no_signs.union(*(fork.sick for fork in forks))


def _sick_in_all(forks: Iterable[Fork]) -> frozenset[str]:
    first, *remaining = (fork.sick for fork in forks)
    return first.intersection(*remaining)


def _fork(fork: Fork) -> dict[str, Any]:
    return {
        "seed": fork.seed,
        "start": fork.start,
        "steps": fork.steps,
        "loss": fork.loss,
        "unit": fork.unit,
        "stopped": fork.stopped or None,
        "signs": {id: {"value": s.value, "word": s.word} for id, s in fork.signs.items()},
    }
