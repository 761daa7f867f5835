"""The order of findings: what explains another one comes before it."""

from __future__ import annotations

from pellucid.diagnosis import Finding
from pellucid.diagnosis.finding import Severity, build_finding
from pellucid.diagnosis.order import in_order


def finding(code: str, severity: Severity, confidence: float) -> Finding:
    return build_finding(code, "A sentence.", severity=severity, confidence=confidence)


def order(*findings: Finding) -> list[str]:
    return [finding.code for finding in in_order(findings)]


def test_the_worst_and_surest_come_first() -> None:
    note, warning = finding("DAT008", "note", 0.99), finding("DAT021", "warn", 0.9)
    sure, unsure = finding("ARC010", "fault", 0.9), finding("OPT016", "fault", 0.5)
    assert order(note, unsure, warning, sure) == ["ARC010", "OPT016", "DAT021", "DAT008"]


def test_an_alarm_comes_before_what_it_explains_as_surely() -> None:
    steps, decay = finding("OPT005", "fault", 0.5), finding("OPT010", "warn", 0.5)
    between = finding("DAT021", "warn", 0.9)
    assert order(steps, between, decay) == ["OPT010", "OPT005", "DAT021"]
    doubtful = finding("OPT010", "warn", 0.4)
    assert order(steps, doubtful) == ["OPT005", "OPT010"]


def test_what_ended_the_training_stays_first() -> None:
    end, cause = finding("NUM008", "fatal", 0.5), finding("NUM004", "warn", 0.9)
    assert order(cause, end) == ["NUM008", "NUM004"]


def test_a_note_explains_no_alarm() -> None:
    steps, decay = finding("OPT005", "fault", 0.5), finding("OPT010", "note", 0.5)
    assert order(steps, decay) == ["OPT005", "OPT010"]
