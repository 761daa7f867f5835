"""The verdict on each fix: compare pairs of forks with and without it, by a stated rule.

The rule. A pair is an unfixed and a fixed fork with the same seed: the same batches and dropout,
and the same random weights. A difference of losses counts if every pair agrees, and if its mean is
above twice its spread (the standard deviation over pairs) and above 1% of the unfixed loss.

    not finite      a fixed fork met a value that is not finite
    helped          the loss is lower by a difference that counts; or all fixed forks stay finite
                    while an unfixed one did not; or sick signs became healthy in every pair while
                    the loss is no higher; and no other sign is sick
    mixed           the loss is lower by a difference that counts, and another sign is sick
    harmed          the loss is higher by a difference that counts, or another sign is sick
    no difference   none of these
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pellucid.diagnosis.fixes.propose import Fix
from pellucid.diagnosis.proof.fork import Fork

Verdict = Literal["helped", "mixed", "no difference", "harmed", "not finite"]

_SPREADS, _SHARE = 2.0, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The test of one fix: pairs of an unfixed and a fixed fork, and the codes that name it."""

    fix: Fix
    codes: tuple[str, ...]
    pairs: tuple[tuple[Fork, Fork], ...]

    @property
    def _unfixed_forks(self) -> list[Fork]:
        return [unfixed for unfixed, _ in self.pairs]

    @property
    def _fixed_forks(self) -> list[Fork]:
        return [fixed for _, fixed in self.pairs]

    @property
    def differences(self) -> tuple[float, ...]:
        """The fixed minus the unfixed loss of each finite pair; below 0 is better."""
        return tuple(
            fixed.loss - unfixed.loss
            for unfixed, fixed in self.pairs
            if fixed.loss is not None and unfixed.loss is not None
        )

    @property
    def mean(self) -> float | None:
        """The mean difference; None if no pair is finite."""
        return statistics.fmean(self.differences) if self.differences else None

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
        unit = self.pairs[0][1].unit.removesuffix("s")
        lower = sum(difference < 0 for difference in self.differences)
        unfixed_loss = statistics.fmean(u.loss for u, _ in self.pairs if u.loss is not None)
        return (
            f"held-out loss {unfixed_loss:.3f} -> {unfixed_loss + self.mean:.3f} "
            f"({self.mean:+.3f} ± {self.spread:.3f} nats per {unit}, "
            f"lower in {lower} of {len(self.differences)} pairs)"
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
        changes = [sign * difference for difference in self.differences]
        if not changes:
            return False
        unfixed = [fork.loss for fork, _ in self.pairs if fork.loss is not None]
        least = max(_SPREADS * self.spread, _SHARE * abs(statistics.fmean(unfixed)))
        return min(changes) > 0 and statistics.fmean(changes) > least

    def record(self) -> dict[str, Any]:
        """The trial as plain values."""
        return {
            "does": self.fix.change,
            "set": list(self.fix.assignments),
            "codes": list(self.codes),
            "needs": self.fix.start,
            "verdict": self.verdict,
            "difference": self.mean,
            "spread": self.spread,
            "cured": sorted(self.cured),
            "caught": sorted(self.caught),
            "seconds": self.seconds,
            "pairs": [
                {"unfixed": _fork(unfixed), "fixed": _fork(fixed)} for unfixed, fixed in self.pairs
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The trials of all fixes, in the order of `propose_fixes`.

    `untried` are fixes that forks cannot test, with the reason; `incurable` are codes without any
    fix in the config. `note` says why forks began after the trouble. If a fix helped, `file` is the
    patched config and `command` trains with it, from `checkpoint` if it continues from one.
    """

    run: str
    trials: tuple[Trial, ...]
    untried: tuple[tuple[Fix, str], ...] = ()
    incurable: tuple[str, ...] = ()
    note: str = ""
    file: str = ""
    command: str = ""
    checkpoint: str = ""

    @property
    def best(self) -> Trial | None:
        """The trial that helped most."""
        return best_of(self.trials)

    def record(self) -> dict[str, Any]:
        """The proof as plain values."""
        best = self.best
        return {
            "run": self.run,
            "trials": [trial.record() for trial in self.trials],
            "untried": [
                {"does": fix.change, "set": list(fix.assignments), "why": reason}
                for fix, reason in self.untried
            ],
            "incurable": list(self.incurable),
            "note": self.note,
            "recommended": None if best is None else list(best.fix.assignments),
            "config": self.file or None,
            "command": self.command or None,
        }


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The trial that helped most; None if none helped.

    Among the trials within the spread of the lowest loss, the one with the fewest sick signs wins,
    and then the first.
    """
    helped = [trial for trial in trials if trial.verdict == "helped"]
    if not helped:
        return None
    first = min(helped, key=_gain)
    highest = _gain(first) + max(trial.spread for trial in helped)
    tied = [trial for trial in helped if _gain(trial) <= highest]
    return min(tied, key=lambda trial: len(trial.still_sick))


def _gain(trial: Trial) -> float:
    """The mean difference; the best possible if no unfixed fork is finite."""
    return -math.inf if trial.mean is None else trial.mean


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
