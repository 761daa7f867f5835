"""Causes: those that one comparison gives away are rows, the others are functions.

Both take a view of a history. Both give a `Candidate` if the cause fits, and None if it does not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import (
    Evidence,
    Finding,
    Severity,
    build_finding,
    limit,
    read_codes,
)
from pellucid.diagnosis.history.history import Reading

Value = float | int | str | bool
Relation = Literal["<", "<=", ">", ">=", "is"]

_COMPARE: Mapping[Relation, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": operator.eq,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A cause that fits a history.

    Args:
        code: the cause, by its code in the register.
        likely: how likely it is, between 0 and 1.
        what: what is wrong, in one sentence.
        clues: the evidence for it.
        where: the module, parameter or config key; empty if not known.
        step: the update it was first seen at; None if it concerns the whole training.
        severity: another severity than the register's.
        rivals: codes that the history cannot tell from this one.
    """

    code: str
    likely: float
    what: str
    clues: tuple[Evidence, ...] = ()
    where: str = ""
    step: int | None = None
    severity: Severity | None = None
    rivals: tuple[str, ...] = ()

    def finding(self, symptoms: Iterable[Evidence] = ()) -> Finding:
        """The finding for this cause, with its symptoms as further evidence."""
        cause = read_codes()[self.code].title
        if self.rivals:
            rivals = "; ".join(f"{read_codes()[code].title} ({code})" for code in self.rivals)
            cause += f"; the records cannot tell this from: {rivals}"
        finding = build_finding(
            self.code,
            self.what,
            *self.clues,
            *symptoms,
            where=self.where,
            cause=cause,
            confidence=round(self.likely, 2),
            severity=self.severity,
        )
        return replace(finding, step=self.step)


Cause = Callable[[HistoryView], Candidate | None]


def _always(view: HistoryView) -> bool:
    del view
    return True


def goes_badly(view: HistoryView) -> bool:
    """Whether the loss did not come down, or did not stay down: a condition of many rows."""
    return not view.goes_well


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A cause that shows in one number: a vital sign, or a value of the setup.

    The register has the threshold, its source, the words and the fixes for `code`.

    Args:
        code: the cause.
        number: the id of a vital sign, or a function that reads a value from the history.
        rule: what the number is if the cause fits, such as ("<", "least"). The limit is a name in
            the register, or a number; after "is" it is the value itself.
        likely: how likely the cause then is.
        what: what is wrong; `{value}` and `{step}` stand for the reading.
        look: which readings of a sign count: `n` in a row, the first, or the median of the last.
        n: how many readings in a row.
        condition: what else has to hold.
        label: what the evidence calls the number; by default the id of the sign.
        shown: the value that the evidence shows, if not the number.
        also: further evidence, by label.
        where: the place; by default the place of the reading.
        step: the update; by default the update of the reading.
        severity: another severity than the register's.
        severity_if_well: the severity while the loss comes down.
        rivals: codes that the history cannot tell from this one.
    """

    code: str
    number: str | Callable[[HistoryView], Value | None]
    rule: tuple[Relation, Value]
    likely: float
    what: str
    look: Literal["lasting", "first", "last"] = "lasting"
    n: int = 3
    condition: Callable[[HistoryView], bool] = _always
    label: str = ""
    shown: float | str | None = None
    also: Mapping[str, Callable[[HistoryView], float | str | None]] = field(
        default_factory=dict[str, Callable[[HistoryView], float | str | None]]
    )
    where: str | None = None
    step: int | None = None
    severity: Severity | None = None
    severity_if_well: Severity | None = None
    rivals: tuple[str, ...] = ()

    @property
    def __name__(self) -> str:
        return read_codes()[self.code].title

    def __call__(self, view: HistoryView) -> Candidate | None:
        """The candidate if the number and the condition hold; None otherwise."""
        reading = self._reading(view)
        if reading is None or not self.condition(view):
            return None
        value, step, where = reading
        shown = value if self.shown is None else self.shown
        label = self.label or str(self.number)
        clues = clue(self.code, label, shown)
        for name, read in self.also.items():
            clues += clue(self.code, name, read(view))
        well = self.severity_if_well if view.goes_well else None
        return Candidate(
            code=self.code,
            likely=self.likely,
            what=self.what.format(value=value, step=step),
            clues=clues,
            where=where if self.where is None else self.where,
            step=step if self.step is None else self.step,
            severity=self.severity or well,
            rivals=self.rivals,
        )

    def _reading(self, view: HistoryView) -> tuple[Value, int | None, str] | None:
        """The number for which the rule holds, with its update and place."""
        if not isinstance(self.number, str):
            value = self.number(view)
            return None if value is None or not self._exceeds_rule(value) else (value, None, "")
        reading = self._of_sign(view, self.number)
        return None if reading is None else (reading.value, reading.step, reading.where)

    def _of_sign(self, view: HistoryView, sign: str) -> Reading | None:
        if self.look == "lasting":
            return view.lasting(sign, self._exceeds_rule, n=self.n)
        value = view.first(sign) if self.look == "first" else view.last(sign)
        if value is None or not self._exceeds_rule(value):
            return None
        reading = view.readings(sign)[0 if self.look == "first" else -1]
        return reading._replace(value=value)

    def _exceeds_rule(self, value: Value) -> bool:
        relation, bound = self.rule
        if isinstance(bound, str) and relation != "is":
            bound = limit(self.code, bound)
        return _COMPARE[relation](value, bound)
