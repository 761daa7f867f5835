"""The word for each reading of a sign, given the readings before it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pellucid.vitals.rules import Rule
from pellucid.vitals.signs import Word, mildest


class WordHistory:
    """A word holds once as many readings in a row are that bad as its rule says.

    Args:
        rules: The rule of each sign.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = rules
        self._calm_ranges = {id: rule.calm_range for id, rule in rules.items()}
        #: the words for the last readings of each sign alone
        self.past: dict[str, list[Word]] = {}
        #: signs whose last reading alone was sick, while their word is not sick yet
        self.doubted: set[str] = set()

    def next(
        self, id: str, value: float, *, is_judged: bool = True, is_solved: bool = False
    ) -> Word:
        """The word after another reading.

        Args:
            id: The sign.
            value: The reading; one that is not finite is sick at once.
            is_judged: Whether the rule holds for it; if not, a finite number is calm.
            is_solved: Whether it is watch at worst, because the task is solved.
        """
        past = self.past.setdefault(id, [])
        low, high = self._calm_ranges[id]
        if low <= value <= high:  # nearly always, and this runs in every update
            latest: Word = "calm"
            past.append(latest)
            del past[: -self._rules[id].readings]
            self.doubted.discard(id)
            return latest
        rule, is_finite = self._rules[id], math.isfinite(value)
        latest = rule.word(value) if is_judged or not is_finite else "calm"
        latest = "watch" if latest == "sick" and is_finite and is_solved else latest
        past.append(latest)
        del past[: -rule.readings]
        # the mildest of the last readings counts
        word = mildest(past) if len(past) == rule.readings else "calm"
        word = word if is_finite else latest
        (self.doubted.add if latest == "sick" != word else self.doubted.discard)(id)
        return word
