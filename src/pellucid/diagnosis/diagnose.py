"""`diagnose`: what is behind a history; one finding for a cause, with its symptoms as evidence.

Comes in: a history. Goes out: findings, the worst and surest first. It does not know how a cause is
recognised.

Suspects are taken in turn, the surest first. What one of them explains (the register says what:
signs and other codes) is not reported apart. Signs that stay sick and that nothing explains are a
finding of their own, which says that the cause is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from pellucid.diagnosis.causes import Course, Suspect, suspects
from pellucid.diagnosis.declared import Declared
from pellucid.diagnosis.finding import (
    SEVERITIES,
    Evidence,
    Finding,
    evidence,
    register,
    without,
)
from pellucid.diagnosis.history import History, Reading

#: So many readings in a row must be sick before a sign by itself is worth a finding.
_LASTING = 3
#: No more of the symptoms are listed as evidence of a cause.
_LISTED = 3


def diagnose(
    history: History, *, declared: Declared | None = None, ignore: Iterable[str] = ()
) -> list[Finding]:
    """What is wrong with a training, and why: the worst and surest first.

    Nothing is found in a healthy one. `declared` is what is so by design; `ignore` are codes to
    leave out.

    Raises:
        ConfigError: `ignore` names a code that there is not.
    """
    ignored = tuple(ignore)
    without([], ignored)
    course = Course(history)
    said = declared or Declared()
    probed = [each for each in history.findings if not _meant(each, said)]
    fitting = [
        each
        for each in suspects(course)
        if each.code not in ignored and not _meant(each.finding(), said)
    ]
    sick = _sick(history)
    kept = _roots(fitting, probed)
    explained = [pattern for code in _codes(kept, probed) for pattern in register()[code].explains]
    found = [_with_symptoms(each, sick) for each in kept]
    found += [each for each in probed if not _said(each.code, explained)]
    left = {id: read for id, read in sick.items() if not _said(id, explained)}
    if left and not course.goes_well and "UNK001" not in ignored and not _grave(found):
        found.append(_unknown(left, fitting))
    return sorted(without(found, ignored), key=_weight, reverse=True)


def _roots(fitting: Sequence[Suspect], probed: Sequence[Finding]) -> list[Suspect]:
    """The suspects that no surer one, and no probe, explains."""
    seen = [each for each in probed if each.severity in ("fault", "fatal")]
    kept: list[Suspect] = []
    for each in sorted(fitting, key=lambda one: (-_rank(one), -one.likely)):
        above = [one.code for one in kept] + [one.code for one in seen]
        patterns = [pattern for code in above for pattern in register()[code].explains]
        if each.code not in above and not _said(each.code, patterns):
            kept.append(each)
    return kept


def _rank(suspect: Suspect) -> int:
    """Notes cannot explain what is worse than they are."""
    severity = suspect.severity or register()[suspect.code].severity
    return 0 if severity == "note" else 1


def _codes(kept: Iterable[Suspect], probed: Iterable[Finding]) -> list[str]:
    return [each.code for each in kept] + [each.code for each in probed]


def _said(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _meant(finding: Finding, said: Declared) -> bool:
    """Whether it is as it was declared to be."""
    if finding.code in ("POS001",) and said.no_positions:
        return True
    frozen = finding.code in ("GRD001", "GRD003", "OPT001", "OPT002")
    return frozen and said.is_frozen(finding.where) and bool(finding.where)


def _sick(history: History) -> dict[str, Reading]:
    """Signs that stayed sick, each with its first sick reading."""
    found: dict[str, Reading] = {}
    for id, readings in history.signs.items():
        in_a_row = 0
        for read in readings:
            in_a_row = in_a_row + 1 if read.word == "sick" else 0
            if in_a_row == _LASTING:
                found[id] = read
                break
    return found


def _with_symptoms(suspect: Suspect, sick: dict[str, Reading]) -> Finding:
    patterns = register()[suspect.code].explains
    named = {each.sign for each in suspect.clues}
    symptoms = [
        _symptom(id, read) for id, read in sick.items() if _said(id, patterns) and id not in named
    ]
    return suspect.finding(symptoms[:_LISTED])


def _symptom(id: str, read: Reading) -> Evidence:
    at = f" in {read.where}" if read.where else ""
    return Evidence(f"{id}, update {read.step}{at}", read.value, "a calm sign", "docs/vitals.md")


def _unknown(left: dict[str, Reading], fitting: Sequence[Suspect]) -> Finding:
    """What is sick, and what it may be."""
    first = min(left, key=lambda id: left[id].step)
    names = [f"{register()[each.code].title} ({each.code})" for each in fitting[:4]]
    suspect = Suspect(
        code="UNK001",
        likely=0.5,
        what=f"Sick without a known cause: {', '.join(left)}."
        + (f" It may be: {'; '.join(names)}." if names else ""),
        clues=tuple(evidence("UNK001", id, read.value) for id, read in left.items()),
        where=left[first].where,
        step=left[first].step,
    )
    return suspect.finding()


def _grave(found: Iterable[Finding]) -> bool:
    return any(each.severity in ("fault", "fatal") for each in found)


def _weight(finding: Finding) -> tuple[int, float]:
    return SEVERITIES.index(finding.severity), finding.confidence
