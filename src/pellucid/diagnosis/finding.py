"""Findings: a fault, the evidence for it, its place, and what to do.

`codes.toml` says what each code means and when it applies; `findings.toml` has the sentences, with
names in braces for the measured values.
"""

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

#: How bad a finding is, the mildest first.
Severity = Literal["note", "warn", "fault", "fatal"]

#: From harmless to hopeless.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
Value = float | int | str | bool
#: The largest number of characters of an expectation that is printed beside its value.
_SHORT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The record of a `code`: its meaning, its threshold, and the `source` of the threshold.

    `title` is the fault in a few words, `explanation` why it matters, `threshold` when it is named,
    and `fix` what to do. `severity` is note, warn, fault or fatal. `fixes` are changes that a proof
    can try. `limits` are the numbers in the threshold, by name. `explains` lists the signs and
    codes that it causes; a pattern may end in `*`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The sentences of a finding, from `findings.toml`.

    `signs` names the measured values in the evidence; `expected` replaces the code's threshold for
    some of them. `causes` are the likely causes to choose
    from, by name; `cause` is the only one. A row of `causes` without a `place` has the place of
    its reading.
    """

    message: str
    signs: Mapping[str, str] = field(default_factory=dict[str, str])
    expected: Mapping[str, str] = field(default_factory=dict[str, str])
    place: str | None = None
    cause: str = ""
    causes: Mapping[str, str] = field(default_factory=dict[str, str])
    confidence: float = 0.95
    severity: Severity | None = None
    rivals: Sequence[str] = ()

    def evidence(self, code: str, values: Mapping[str, Any]) -> tuple[Evidence, ...]:
        """The measured values as evidence; an unknown value (None) is left out."""
        entry = read_codes()[code]
        return tuple(
            Evidence(
                sign,
                values[name],
                self.expected.get(name, entry.threshold).format(**values),
                entry.source,
            )
            for name, sign in self.signs.items()
            if values[name] is not None
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """A `sign`, its `value`, the `expected` value in words, and the `source` of the expectation."""

    sign: str
    value: float | int | str
    expected: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, or a note that is worth a look.

    `code`, such as "ATT001", and `severity` (note, warn, fault, fatal) say which; `what` is the
    fault in this training, with its `evidence`, the likeliest `cause`, the `fix`, and the page in
    `docs`. `where` names a module, a parameter, a batch or a config key. `patch` holds the `--set`
    assignments of a fix that changes the config. `step` is the update at which it showed, 0 before
    the first. `confidence` is between 0 and 1.
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
        """The finding for people: the fault, its place, why it matters, what to do; in ASCII."""
        entry = read_codes()[self.code]
        lines = [f"{self.code}  {self.severity}  {entry.title}", *_filled("", self.what, width)]
        if self.where:
            lines += _filled("where: ", self.where, width)
        for clue in self.evidence:
            value = f"{clue.value:.4g}" if isinstance(clue.value, float) else str(clue.value)
            is_short = len(clue.expected) <= _SHORT  # the page has the thresholds of all variants
            value += f"; expected {clue.expected}" if is_short else ""
            lines += _filled(f"{clue.sign}: ", value, width)
        lines += _filled("why it matters: ", entry.explanation, width)
        if self.cause and self.cause != entry.title:
            lines += _filled("likely cause: ", self.cause, width)
        lines += _filled("what to do: ", self.fix, width)
        lines += [f"  --set {assignment}" for assignment in self.patch]
        return "\n".join(lines)


def build_finding(
    code: str,
    message: str,
    *evidence: Evidence,
    where: str = "",
    cause: str = "",
    confidence: float = 0.95,
    severity: Severity | None = None,
    step: int | None = 0,
) -> Finding:
    """A finding with the severity and the fix of its code.

    Args:
        code: its code.
        message: the fault, in one sentence.
        evidence: the measured values.
        where: the module, parameter, batch or config key.
        cause: the likely cause.
        confidence: how sure it is, between 0 and 1.
        severity: another severity than the code's.
        step: the update at which it showed.
    """
    entry = read_codes()[code]
    return Finding(
        code=code,
        severity=severity or entry.severity,
        what=message,
        evidence=evidence,
        cause=cause,
        confidence=confidence,
        where=where,
        fix=entry.fix,
        step=step,
        docs=f"docs/diagnosis.md#{code.lower()}",
    )


def describe(
    key: str,
    *,
    code: str = "",
    place: str | None = None,
    cause: str = "",
    confidence: float | None = None,
    severity: Severity | None = None,
    step: int | None = 0,
    **values: Any,
) -> Finding:
    """A finding with its sentences from `findings.toml`.

    Args:
        key: its name there: the code, with a variant after a slash if the code has several.
        code: another code with the same sentences.
        place: another place than the file's.
        cause: the name of the likely cause, if the file has several.
        confidence: another confidence than the file's.
        severity: another severity than the file's or the code's.
        step: the update at which it showed.
        values: the measured values, by their names in the sentences.
    """
    words, code, values = read_words()[key], code or key.partition("/")[0], values | {"step": step}
    likely_cause = words.causes[cause] if cause else words.cause
    return build_finding(
        code,
        words.message.format(**values),
        *words.evidence(code, values),
        where=(words.place or "").format(**values) if place is None else place,
        cause=likely_cause.format(**values),
        confidence=words.confidence if confidence is None else confidence,
        severity=severity or words.severity,
        step=step,
    )


def evidence(code: str, sign: str, value: float | int | str) -> Evidence:
    """A measured value with the threshold and the source of a code.

    Args:
        code: the code whose threshold the value is compared with.
        sign: the name of the measured value.
        value: the value.
    """
    entry = read_codes()[code]
    return Evidence(sign, value, entry.threshold, entry.source)


def _read_table(name: str) -> dict[str, dict[str, Any]]:
    """A TOML file of this room, with each text on one line."""
    text = (files("pellucid.diagnosis") / name).read_text("utf-8")
    return {
        key: {
            field: " ".join(value.split()) if isinstance(value, str) else value
            for field, value in cast("dict[str, Any]", record).items()
        }
        for key, record in parse_toml(text, name).items()
    }


@cache
def read_codes() -> Mapping[str, Code]:
    """Every code, in the order of `codes.toml`."""
    return {code: Code(code=code, **record) for code, record in _read_table("codes.toml").items()}


@cache
def read_words() -> Mapping[str, Words]:
    """The sentences of every finding, by their names in `findings.toml`."""
    return {key: Words(**record) for key, record in _read_table("findings.toml").items()}


def limit(code: str, name: str) -> float:
    """A number in the threshold of a code."""
    return read_codes()[code].limits[name]


def drop_ignored(findings: Iterable[Finding], ignored: Iterable[str]) -> list[Finding]:
    """The findings whose codes are not ignored, the worst first.

    Raises:
        ConfigError: an ignored code is unknown.
    """
    ignored = tuple(ignored)
    unknown = [code for code in ignored if code not in read_codes()]
    if unknown:
        similar = dict.fromkeys(name for code in unknown for name in _similar_codes(code))
        hint = f"did you mean {', '.join(similar)}? " if similar else ""
        raise ConfigError(
            f"no finding has the code {', '.join(unknown)}; {hint}docs/diagnosis.md lists all codes"
        )
    remaining = [finding for finding in findings if finding.code not in ignored]
    return sorted(remaining, key=lambda finding: -SEVERITIES.index(finding.severity))


def _similar_codes(code: str) -> list[str]:
    """The codes that begin with it, or else those closest to it."""
    prefix = code.upper()
    longer = [name for name in read_codes() if prefix and name.startswith(prefix)]
    return longer[:6] or difflib.get_close_matches(prefix, read_codes(), n=3)


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
