"""`diagnose`: what is behind a history; one finding for a cause, with its symptoms as evidence.

Suspects are taken in turn, the surest first. What one of them explains (the register says what:
signs and other codes) is not reported apart. Signs that stay sick and that nothing explains are a
finding of their own, which says that the cause is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from pellucid import config
from pellucid.diagnosis.causes import Candidate, HistoryView, find_candidates
from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import (
    SEVERITIES,
    Evidence,
    Finding,
    Severity,
    drop_ignored,
    evidence,
    read_codes,
)
from pellucid.diagnosis.fixes.propose import propose_fixes
from pellucid.diagnosis.history.history import History, Reading
from pellucid.diagnosis.not_examined import ProbeRunner

#: So many readings in a row must be sick before a sign by itself is worth a finding.
_LASTING = 3
#: So likely a cause is taken for one, and after so many updates a training can go badly.
_LIKELY, _LONG = 0.8, 50
#: What looks like much else to probes: to random outputs, every question has a wrong answer.
_FIRST = ("RND001", "NUM001", "ATT002", "ATT001", "ATT005")
#: What many causes bring about: they take their turn last.
_GENERAL = (
    "INI001",
    "LRN001",
    "DAT009",
    "FIT001",
    "FIT002",
    "FIT003",
    "FIT004",
    "ARC011",
    "ARC012",
    "ARC013",
)
#: No more of the symptoms are listed as evidence of a cause.
_LISTED = 3


def diagnose(
    history: History, *, declared: Expectations | None = None, ignore: Iterable[str] = ()
) -> list[Finding]:
    """The causes of what went wrong in a training, the worst and surest first.

    A healthy training has none. A cause that raises becomes a note, and the others still run.

    Args:
        history: the training, from `history_of_run`, `history_of_watch` or `history_of_log`.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.

    Raises:
        ConfigError: `ignore` names a code that there is not.
    """
    ignored = tuple(ignore)
    drop_ignored([], ignored)
    view = HistoryView(history)
    by_design = declared or Expectations()
    probed = [
        RankedFinding(finding.code, finding.severity, finding.confidence, finding)
        for finding in (_in_earnest(finding, view) for finding in history.findings)
    ]
    runner = ProbeRunner()
    fitting = [_of(candidate, view) for candidate in find_candidates(view, runner)]
    all_of_them = [
        candidate
        for candidate in (*probed, *fitting)
        if candidate.code not in ignored and not _meant(candidate.finding, by_design)
    ]
    sick = _sick(history)
    roots = _roots(all_of_them)
    findings = [_with_symptoms(root.finding, sick) for root in roots]
    explained = [pattern for root in roots for pattern in read_codes()[root.code].explains]
    unexplained = {id: read for id, read in sick.items() if not _matches_any(id, explained)}
    if unexplained and not view.goes_well and "UNK001" not in ignored and not _grave(findings):
        findings.append(
            _unknown(unexplained, [candidate for candidate in fitting if candidate not in roots])
        )
    findings = [runner(_with_patch, finding, history.config) or finding for finding in findings]
    findings += [finding for finding in runner.unseen if finding.code not in ignored]
    return sorted(findings, key=_weight, reverse=True)


class RankedFinding(NamedTuple):
    """A finding in waiting: of a probe, or of a cause that fits."""

    code: str
    severity: Severity
    likely: float
    finding: Finding


def _of(candidate: Candidate, view: HistoryView) -> RankedFinding:
    """A likely cause that is a warning by itself is a fault where the training goes badly."""
    finding = candidate.finding()
    worse = candidate.severity is None and candidate.likely >= _LIKELY and not view.goes_well
    if finding.severity == "warn" and worse and view.updates >= _LONG:
        finding = replace(finding, severity="fault")
    return RankedFinding(candidate.code, finding.severity, candidate.likely, finding)


def _in_earnest(finding: Finding, view: HistoryView) -> Finding:
    """Frozen weights are meant where a model goes on learning; from scratch they are a mistake."""
    is_measured = view.start is not None and view.guessing is not None
    if finding.code == "GRD003" and is_measured and view.fresh:
        return replace(finding, severity="warn")
    return finding


def _roots(candidates: Sequence[RankedFinding]) -> list[RankedFinding]:
    """Those that no surer one explains."""
    roots: list[RankedFinding] = []
    for candidate in sorted(candidates, key=_turn):
        codes = [root.code for root in roots]
        patterns = [pattern for code in codes for pattern in read_codes()[code].explains]
        if candidate.code not in codes and not _matches_any(candidate.code, patterns):
            roots.append(candidate)
    return roots


def _turn(candidate: RankedFinding) -> tuple[bool, bool, int, float]:
    """The surest first; notes explain nothing that is worse, and what many bring about is last."""
    turn = _FIRST.index(candidate.code) if candidate.code in _FIRST else len(_FIRST)
    return candidate.severity == "note", candidate.code in _GENERAL, turn, -candidate.likely


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _meant(finding: Finding, by_design: Expectations) -> bool:
    """Whether it is as it was declared to be."""
    if finding.code in ("POS001",) and by_design.no_positions:
        return True
    frozen = finding.code in ("GRD001", "GRD003", "OPT001", "OPT002")
    return frozen and by_design.is_frozen(finding.where) and bool(finding.where)


def _sick(history: History) -> dict[str, Reading]:
    """Signs that stayed sick, each with its first sick reading."""
    first_sick: dict[str, Reading] = {}
    for id, readings in history.signs.items():
        in_a_row = 0
        for read in readings:
            in_a_row = in_a_row + 1 if read.word == "sick" else 0
            if in_a_row == _LASTING:
                first_sick[id] = read
                break
    return first_sick


def _with_symptoms(finding: Finding, sick: dict[str, Reading]) -> Finding:
    """A finding with what it brings about as evidence."""
    patterns = read_codes()[finding.code].explains
    named = {clue.sign for clue in finding.evidence}
    symptoms = [
        _symptom(id, read)
        for id, read in sick.items()
        if _matches_any(id, patterns) and id not in named
    ]
    return replace(finding, evidence=(*finding.evidence, *symptoms[:_LISTED]))


def _symptom(id: str, read: Reading) -> Evidence:
    at = f" in {read.where}" if read.where else ""
    return Evidence(f"{id}, update {read.step}{at}", read.value, "a calm sign", "docs/vitals.md")


def _with_patch(finding: Finding, run: config.Run | None) -> Finding:
    """A finding with what is to be set against it first, where there is a config to set it in."""
    first = [] if run is None else propose_fixes(finding, run)[:1]
    return replace(finding, patch=first[0].assignments) if first else finding


def _unknown(unexplained: dict[str, Reading], fitting: Sequence[RankedFinding]) -> Finding:
    """What is sick, and what it may be."""
    first = min(unexplained, key=lambda id: unexplained[id].step)
    names = [f"{read_codes()[rival.code].title} ({rival.code})" for rival in fitting[:4]]
    candidate = Candidate(
        code="UNK001",
        likely=0.5,
        what=f"Sick without a known cause: {', '.join(unexplained)}."
        + (f" It may be: {'; '.join(names)}." if names else ""),
        clues=tuple(evidence("UNK001", id, read.value) for id, read in unexplained.items()),
        where=unexplained[first].where,
        step=unexplained[first].step,
    )
    return candidate.finding()


def _grave(findings: Iterable[Finding]) -> bool:
    return any(finding.severity in ("fault", "fatal") for finding in findings)


def _weight(finding: Finding) -> tuple[int, float]:
    return SEVERITIES.index(finding.severity), finding.confidence
