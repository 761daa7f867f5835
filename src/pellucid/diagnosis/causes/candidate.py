"""A cause: a row of one comparison, or a function if it needs more.

Both take a view of a history, and give a `Candidate` if the cause fits. `codes.toml` has the
thresholds of each cause and the source of each, `findings.toml` its sentences.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import (
    Evidence,
    Finding,
    Severity,
    Value,
    build_finding,
    limit,
    read_codes,
    read_words,
)
from pellucid.vitals import Mark

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
        code: the cause, by its code.
        likely: how likely it is, between 0 and 1.
        message: the fault, in one sentence.
        clues: the evidence for it.
        place: the module, parameter or config key; empty if unknown.
        step: the update at which it first showed; None if it concerns the whole training.
        severity: another severity than the code's.
        rivals: codes that the history cannot tell from this one.
        cause: another likely cause than the code's title.
    """

    code: str
    likely: float
    message: str
    clues: tuple[Evidence, ...] = ()
    place: str = ""
    step: int | None = None
    severity: Severity | None = None
    rivals: tuple[str, ...] = ()
    cause: str = ""

    def finding(self, symptoms: Iterable[Evidence] = ()) -> Finding:
        """The finding for this cause, with its symptoms as further evidence."""
        cause = self.cause or read_codes()[self.code].title
        if self.rivals:
            rivals = "; ".join(f"{read_codes()[code].title} ({code})" for code in self.rivals)
            cause += f"; the records cannot tell this from: {rivals}"
        finding = build_finding(
            self.code,
            self.message,
            *self.clues,
            *symptoms,
            where=self.place,
            cause=cause,
            confidence=round(self.likely, 2),
            severity=self.severity,
        )
        return replace(finding, step=self.step)


def suspect(
    key: str,
    likely: float | None = None,
    *,
    code: str = "",
    place: str | None = None,
    step: int | None = None,
    severity: Severity | None = None,
    rivals: Iterable[str] | None = None,
    **values: Any,
) -> Candidate:
    """A candidate with its sentences from `findings.toml`.

    Args:
        key: its name there: the code, with a variant after a slash if the code has several.
        likely: another likelihood than the file's `confidence`.
        code: another code with the same sentences.
        place: another place than the file's.
        step: the update at which it first showed.
        severity: another severity than the file's or the code's.
        rivals: other rivals than the file's.
        values: the measured values, by their names in the sentences; None if unknown.
    """
    words, code, values = read_words()[key], code or key.partition("/")[0], values | {"step": step}
    return Candidate(
        code=code,
        likely=words.confidence if likely is None else likely,
        message=words.message.format(**values),
        clues=words.evidence(code, values),
        place=(words.place or "").format(**values) if place is None else place,
        step=step,
        severity=severity or words.severity,
        rivals=tuple(words.rivals if rivals is None else rivals),
        cause=words.cause.format(**values),
    )


def suspect_mark(key: str, mark: Mark, likely: float | None = None, **values: Any) -> Candidate:
    """A candidate that shows in a mark: its sentences may name `times`, `n`, `share` and `value`.

    Args:
        key: as in `suspect`.
        mark: what the ledger saw; `step` is the first update that showed it.
        likely: as in `suspect`.
        values: as in `suspect`, other ones or further ones.
    """
    seen: dict[str, Any] = {"times": mark.n_seen, "n": mark.n_seeable, "step": mark.first}
    seen |= {"share": mark.share, "value": mark.value}
    return suspect(key, likely, **(seen | values))


Cause = Callable[[HistoryView], Candidate | None]


def likelihood(mark: Mark) -> float:
    """Laplace's rule of succession for something that sound loops never show."""
    return min(0.98, (mark.n_seen + 1) / (mark.n_seen + 2))


def goes_badly(view: HistoryView) -> bool:
    """Whether the loss did not come down, or did not stay down: a condition of many rows."""
    return not view.goes_well


def name_cause(key: str) -> str:
    """The title of a code, and which of its causes it is: one that raises is called no more.

    Args:
        key: the key of its message, such as "LOS019/labels".
    """
    code, _, variant = key.partition("/")
    return read_codes()[code].title + (f" ({variant})" if variant else "")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A cause that shows in one number: a vital sign, or a value of the setup.

    Args:
        key: the name of its sentences in `findings.toml`; `{value}` is the number.
        number: the id of a vital sign, or a fact such as "facts.dropout".
        rule: the relation and the limit that the number has if the cause fits, such as
            ("<", "least"). The limit is a name in `codes.toml`, or a number; after "is" it is the
            value itself.
        look: which readings of a sign count: `n` in a row, the first, or the median of the last.
        n: how many readings in a row.
        condition: another condition that has to hold.
        further: further values of the sentences, by name.
        step: the update; by default the update of the reading, and 0 for a fact.
        severity_if_well: the severity while the loss comes down.
    """

    key: str
    number: str
    rule: tuple[Relation, Value]
    look: Literal["lasting", "first", "last"] = "lasting"
    n: int = 3
    condition: Callable[[HistoryView], bool] = lambda view: True
    further: Mapping[str, Callable[[HistoryView], float | str | None]] = field(
        default_factory=dict[str, Callable[[HistoryView], float | str | None]]
    )
    step: int | None = None
    severity_if_well: Severity | None = None

    @property
    def __name__(self) -> str:
        return name_cause(self.key)

    def __call__(self, view: HistoryView) -> Candidate | None:
        """The candidate if the number and the condition hold; None otherwise."""
        reading = self._reading(view)
        if reading is None or not self._exceeds_rule(reading[0]) or not self.condition(view):
            return None
        value, step, place = reading
        values: dict[str, Any] = {name: read(view) for name, read in self.further.items()}
        fixed_place = read_words()[self.key].place
        return suspect(
            self.key,
            place=place if fixed_place is None else fixed_place,
            step=step if self.step is None else self.step,
            severity=self.severity_if_well if view.goes_well else None,
            value=value,
            **values,
        )

    def _reading(self, view: HistoryView) -> tuple[Value, int, str] | None:
        """The number to compare, with its update and its place."""
        if self.number.startswith("facts."):
            fact: Value | None = getattr(view.facts, self.number.removeprefix("facts."))
            return None if fact is None else (fact, 0, "")
        if self.look == "lasting":
            reading = view.lasting(self.number, self._exceeds_rule, n=self.n)
            return None if reading is None else (reading.value, reading.step, reading.place)
        value = view.first(self.number) if self.look == "first" else view.last(self.number)
        if value is None:
            return None
        reading = view.readings(self.number)[0 if self.look == "first" else -1]
        return value, reading.step, reading.place

    def _exceeds_rule(self, value: Value) -> bool:
        relation, bound = self.rule
        if isinstance(bound, str) and relation != "is":
            bound = limit(self.key.partition("/")[0], bound)
        return _COMPARE[relation](value, bound)
