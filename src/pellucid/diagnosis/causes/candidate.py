"""A suspect: a cause that fits a history, and how well.

Comes in: a code and what speaks for it. Goes out: a frozen value, and the finding it becomes. It
does not know the other suspects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import Evidence, Finding, Severity, found, register


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A cause that fits. `rivals` are codes that what was seen cannot tell from this one.

    `likely` is between 0 and 1. `hint` goes before the register's words of what to do.
    """

    code: str
    likely: float
    what: str
    clues: tuple[Evidence, ...] = ()
    where: str = ""
    step: int | None = None
    severity: Severity | None = None
    rivals: tuple[str, ...] = ()

    def finding(self, more: Iterable[Evidence] = ()) -> Finding:
        """As a finding, with what it explains as further evidence."""
        entry = register()[self.code]
        words = entry.title
        if self.rivals:
            rivals = "; ".join(f"{register()[code].title} ({code})" for code in self.rivals)
            words += f"; what was recorded cannot tell this from: {rivals}"
        finding = found(
            self.code,
            self.what,
            *self.clues,
            *more,
            where=self.where,
            cause=words,
            confidence=round(self.likely, 2),
            severity=self.severity,
        )
        return replace(finding, step=self.step)


Cause = Callable[[HistoryView], Candidate | None]
