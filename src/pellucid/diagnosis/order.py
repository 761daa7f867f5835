"""The order of findings: the worst and surest first, and before each what explains it as surely."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from pellucid.diagnosis.finding import SEVERITIES, Finding, read_codes


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits a name, of a code or of a sign."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """The worst and surest findings first, and before each the alarms that explain it as surely."""
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
    """The first alarm that explains a finding and is as sure, and that it does not explain."""

    def explains(cause: Finding, effect: Finding) -> bool:
        return matches_any(effect.code, read_codes()[cause.code].explains)

    sure = [f for f in findings if f.severity != "note" and f.confidence >= effect.confidence]
    return next((f for f in sure if explains(f, effect) and not explains(effect, f)), None)
