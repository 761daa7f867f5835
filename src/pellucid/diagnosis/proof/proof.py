"""A proof: the trials of fixes, and the one that helped most, as values and as text."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.fixes.propose import Fix
from pellucid.diagnosis.proof.fork import Fork
from pellucid.diagnosis.proof.verdict import Trial
from pellucid.display.numbers import duration
from pellucid.lab.statistics import holm

_WIDTH = 80
#: How many signs the text lists by name.
_MAX_SIGNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """The forks that choose which fixes a proof tries on pairs: without, and with each.

    A fixed fork is compared with `unfixed`; the best fixes have a second one, with another seed. A
    fix is left out of `fixed` if its fork raised.
    """

    unfixed: Fork
    fixed: tuple[tuple[Fix, tuple[Fork, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The trials of all fixes, in the order of `propose_fixes`.

    `untried` are fixes that forks cannot test, with the reason; `incurable` are codes without any
    fix in the config. `note` says where forks began and why. If a fix helped, `file` is the patched
    config and `command` trains with it, from `checkpoint` if it continues from one.

    The proof of a loop has its `findings` and a `screening`, and no file: `fix.code` is the change.

    Attributes:
        run: the name of the run or the model.
        trials: one for each fix that was tried.
    """

    run: str
    trials: tuple[Trial, ...]
    untried: tuple[tuple[Fix, str], ...] = ()
    incurable: tuple[str, ...] = ()
    note: str = ""
    file: str = ""
    command: str = ""
    checkpoint: str = ""
    findings: tuple[Finding, ...] = ()
    screening: Screening | None = None

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
            "code": None if best is None else best.fix.code or None,
        }

    def text(self) -> str:
        """The proof for people: the method, the result of each fix, and the recommendation."""
        lines, shown_reasons = self._head(), set[str]()
        for number, trial in enumerate(self.trials, start=1):
            lines += ["", *_trial_lines(number, trial, shown_reasons)]
            shown_reasons.add(trial.fix.reason)
        for fix, reason in self.untried:
            lines += ["", *_filled(f"not tried: {fix.change}, for {reason}")]
        if self.incurable:
            kind = "from outside the loop" if self.screening else "of a config"
            lines += ["", *_filled(f"no change {kind} cures {', '.join(self.incurable)}")]
        return "\n".join([*lines, "", *self._advice()])

    def _head(self) -> list[str]:
        lines = _screening_lines(self.screening) if self.screening else []
        if not self.trials:
            reason = (
                f"no fix changed the outcome ({self.note})"
                if self.screening
                else "no fix changes only the config, so forks cannot try any"
            )
            return [*lines, *_filled(f"proof: {reason}")]
        pairs = self.trials[0].pairs
        lengths = sorted({pair[0].steps for trial in self.trials for pair in trial.pairs})
        long = " or ".join(map(str, lengths))
        fixes = "each fix" if self.screening is None else "the best of them"
        lines += _filled(
            f"proof: {fixes} was tried on {len(pairs)} forks of {self.run}, {long} updates long, "
            "against the same forks without it"
        )
        return lines + (_filled(self.note) if self.note else [])

    def _advice(self) -> list[str]:
        best = self.best
        if best is None:
            was_tried = self.trials or self.screening
            result = "None of these fixes helped" if was_tried else "Nothing was tried"
            advice = f"{result}, so pellucid recommends none. The findings remain."
            if self.trials:
                advice += " More updates and more pairs can show smaller differences."
            return _filled(advice)
        sick = (
            f" {len(best.still_sick)} signs are sick even so: diagnose the new run too."
            if best.still_sick
            else ""
        )
        lines = _filled(f"recommended: {best.fix.change}. {best.words.capitalize()}.{sick}")
        limits = f"This holds for {best.pairs[0][1].steps} updates; it does not tell how a long "
        limits += "training ends."
        if not self.file:
            return [*lines, *_filled(f"{limits} In your code:"), f"  {best.fix.code}"]
        limits += f" The whole config is in {self.file}. To train with it:"
        return [*lines, *_filled(limits), f"  {self.command}"]


def correct(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """The trials with p-values that hold for all of them together (Holm's correction)."""
    adjusted = holm([trial.difference.p for trial in trials])
    return tuple(replace(trial, adjusted_p=p) for trial, p in zip(trials, adjusted, strict=True))


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


def _screening_lines(screening: Screening) -> list[str]:
    unfixed = screening.unfixed
    lines = _filled(
        f"each fix once, on a fork of {unfixed.steps} updates with seed {unfixed.seed}, and the "
        f"best with another; {unfixed.measure} at its end, at most as in the untrained model"
    )
    rows = [("unfixed", (unfixed,)), *((fix.change, forks) for fix, forks in screening.fixed)]
    for change, forks in rows:
        first, second = [*map(_fork_loss, forks), ""][:2]
        lines.append(f"  {first:>10}  {second:>10}  {change}")
    return [*lines, ""]


def _fork_loss(fork: Fork) -> str:
    return "not finite" if fork.loss is None else f"{fork.loss:.4g}"


def _trial_lines(number: int, trial: Trial, shown_reasons: set[str]) -> list[str]:
    """A fix and its result; the reason appears only once."""
    lines = [f"{number}  {trial.fix.change}: {trial.verdict}"]
    lines += _filled(f"{trial.words}; {duration(trial.seconds)}", "   ")
    if trial.verdict == "no difference":
        lines += _filled(trial.reach, "   ")
    for words, signs in (
        ("sick no more", trial.cured),
        ("newly sick", trial.caught),
        ("still sick", trial.still_sick - trial.caught),
    ):
        if signs:
            lines += _filled(f"{words}: {_signs(trial, sorted(signs))}", "   ")
    if trial.fix.reason not in shown_reasons:
        codes = f"for {', '.join(trial.codes)}: " if trial.codes else ""
        lines += _filled(f"{codes}{trial.fix.reason}", "   ")
    return lines + [f"   --set {shlex.quote(assignment)}" for assignment in trial.fix.assignments]


def _signs(trial: Trial, ids: Sequence[str]) -> str:
    """The signs with their values without and with the fix, in the first pair that has both."""
    texts = [_sign(trial, id) for id in ids[:_MAX_SIGNS]]
    return ", ".join(texts) + (
        f" and {len(ids) - _MAX_SIGNS} more" if len(ids) > _MAX_SIGNS else ""
    )


def _sign(trial: Trial, id: str) -> str:
    for unfixed, fixed in trial.pairs:
        if id in unfixed.signs and id in fixed.signs:
            return f"{id} {unfixed.signs[id].value:.3g} -> {fixed.signs[id].value:.3g}"
    return id


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + ("" if indent else "  "),
        break_long_words=False,
        break_on_hyphens=False,
    )
