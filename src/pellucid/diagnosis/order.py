"""The order of findings: the worst and surest first, and before each the alarms that explain it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from pellucid.diagnosis.finding import SEVERITIES, Finding, read_codes


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits a name, of a code or of a sign."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """The worst and surest findings first, and before each the alarms that explain it."""
    rest = sorted(
        findings,
        key=lambda finding: (SEVERITIES.index(finding.severity), finding.confidence),
        reverse=True,
    )
    ordered: list[Finding] = []
    while rest:
        first, passed = rest[0], set[str]()
        while (cause := _cause_of(first, rest)) is not None and cause.code not in passed:
            passed.add(cause.code)
            first = cause
        rest.remove(first)
        ordered.append(first)
    return ordered


def _cause_of(effect: Finding, findings: Sequence[Finding]) -> Finding | None:
    """The first alarm that explains a finding, and that the finding does not explain."""

    def explains(cause: Finding, effect: Finding) -> bool:
        return matches_any(effect.code, read_codes()[cause.code].explains)

    return next(
        (
            cause
            for cause in findings
            if cause.severity != "note" and explains(cause, effect) and not explains(effect, cause)
        ),
        None,
    )
