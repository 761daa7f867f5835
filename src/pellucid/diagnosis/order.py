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
    ranked = sorted(
        findings,
        key=lambda finding: (SEVERITIES.index(finding.severity), finding.confidence),
        reverse=True,
    )
    ordered: list[Finding] = []
    while ranked:
        first, cause_codes = ranked[0], set[str]()
        while (cause := _cause_of(first, ranked)) is not None and cause.code not in cause_codes:
            cause_codes.add(cause.code)
            first = cause
        ranked.remove(first)
        ordered.append(first)
    return ordered


def _cause_of(effect: Finding, findings: Sequence[Finding]) -> Finding | None:
    """The first alarm that explains a finding and is as sure, and that it does not explain.

    None of a fatal finding: that is what ended the training.
    """

    def explains(cause: Finding, effect: Finding) -> bool:
        return matches_any(effect.code, read_codes()[cause.code].explains)

    if effect.severity == "fatal":
        return None
    sure = [f for f in findings if f.severity != "note" and f.confidence >= effect.confidence]
    return next((f for f in sure if explains(f, effect) and not explains(effect, f)), None)
