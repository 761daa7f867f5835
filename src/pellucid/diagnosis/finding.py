"""Findings: what is wrong, how that is known, where, and what to do."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast, get_args

from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.reader import parse_toml

Severity = Literal["note", "warn", "fault", "fatal"]

#: From harmless to hopeless; what is later is worse.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What the register says of a code: words for people, a threshold and where it comes from.

    `limits` are the numbers in the threshold that the code is judged by, by their names. `explains`
    are signs and codes that it brings about; a pattern may end in `*`.
    """

    code: str
    title: str
    severity: Severity
    explanation: str
    threshold: str
    source: str
    fix: str
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    fixes: Sequence[str] = ()
    explains: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sign, the value it had, what was expected, and who says so."""

    sign: str
    value: float | int | str
    expected: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth a look.

    `where` names a module, a parameter, a batch or a config key. `patch` holds `--set` assignments
    that apply as they stand, where the fix is one of config. `step` is the update it was seen at,
    0 before the first. `confidence` is between 0 and 1.
    """

    code: str
    severity: Severity
    what: str
    evidence: tuple[Evidence, ...]
    cause: str
    confidence: float
    where: str
    fix: str
    patch: tuple[str, ...] = ()
    step: int | None = 0
    docs: str = ""

    def to_json(self) -> str:
        """The finding as one JSON object."""
        return json_text(asdict(self), ensure_ascii=False)

    def text(self, width: int = 80) -> str:
        """The finding for people: what, where, why it matters, what to do; plain letters only."""
        entry = read_codes()[self.code]
        lines = [f"{self.code}  {self.severity}  {entry.title}", *_filled("", self.what, width)]
        if self.where:
            lines += _filled("where: ", self.where, width)
        for clue in self.evidence:
            reading = f"{_number(clue.value)}; expected {clue.expected}"
            lines += _filled(f"{clue.sign}: ", reading, width)
        lines += _filled("why it matters: ", entry.explanation, width)
        if self.cause:
            lines += _filled("likely cause: ", self.cause, width)
        lines += _filled("what to do: ", self.fix, width)
        lines += [f"  --set {assignment}" for assignment in self.patch]
        return "\n".join(lines)


def build_finding(
    code: str,
    what: str,
    *evidence: Evidence,
    where: str = "",
    cause: str = "",
    confidence: float = 0.95,
    severity: Severity | None = None,
    step: int | None = 0,
) -> Finding:
    """A finding with the register's words for its code.

    Args:
        code: its code.
        what: what is wrong, in one sentence.
        evidence: what was measured.
        where: the module, parameter, batch or config key.
        cause: the likely cause.
        confidence: how sure that is, between 0 and 1.
        severity: another severity than the register's.
        step: the update it was seen at.
    """
    entry = read_codes()[code]
    return Finding(
        code=code,
        severity=severity or entry.severity,
        what=what,
        evidence=evidence,
        cause=cause,
        confidence=confidence,
        where=where,
        fix=entry.fix,
        step=step,
        docs=f"docs/diagnosis.md#{code.lower()}",
    )


def evidence(code: str, sign: str, value: float | int | str) -> Evidence:
    """A measured value with the register's threshold and source for a code.

    Args:
        code: the code whose threshold is expected.
        sign: the name of the measured value.
        value: the value.
    """
    entry = read_codes()[code]
    return Evidence(sign, value, entry.threshold, entry.source)


@cache
def read_codes() -> Mapping[str, Code]:
    """Every code there is, in the order of the register."""
    text = (files(__package__ or "pellucid.diagnosis") / "codes.toml").read_text("utf-8")
    table = cast("dict[str, dict[str, Any]]", parse_toml(text, "codes.toml"))
    return {code: Code(code=code, **_joined(words)) for code, words in table.items()}


def limit(code: str, name: str) -> float:
    """A number that the register judges a code by."""
    return read_codes()[code].limits[name]


def _joined(words: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a code on one line each, and its limits as they are."""
    return {
        key: " ".join(value.split()) if isinstance(value, str) else value
        for key, value in words.items()
    }


def drop_ignored(findings: Iterable[Finding], ignored: Iterable[str]) -> list[Finding]:
    """The findings whose codes are not ignored, the worst first.

    Raises:
        ConfigError: an ignored code is none there is.
    """
    ignored = tuple(ignored)
    unknown = [code for code in ignored if code not in read_codes()]
    if unknown:
        near = dict.fromkeys(candidate for code in unknown for candidate in _alike(code))
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ConfigError(
            f"no finding has the code {', '.join(unknown)}; {hint}docs/diagnosis.md "
            "lists all there are"
        )
    remaining = [finding for finding in findings if finding.code not in ignored]
    return sorted(remaining, key=lambda finding: -SEVERITIES.index(finding.severity))


def _alike(code: str) -> list[str]:
    """Codes that may have been meant: it is their beginning, or nearly what they are."""
    prefix = code.upper()
    begun = [candidate for candidate in read_codes() if prefix and candidate.startswith(prefix)]
    return begun[:6] or difflib.get_close_matches(prefix, read_codes(), n=3)


def has_severity(findings: Sequence[Finding], severity: Severity) -> bool:
    """Whether any finding is at least as severe."""
    least = SEVERITIES.index(severity)
    return any(SEVERITIES.index(finding.severity) >= least for finding in findings)


def _filled(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        head + text,
        width,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _number(value: float | int | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
