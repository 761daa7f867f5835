"""`diagnose`: name the causes behind a history; each cause is one finding with its symptoms.

pellucid takes the candidates in turn, the surest first. `codes.toml` says which signs and codes a
cause explains: these become its evidence and no findings of their own. If signs stay sick and no
cause explains them, one finding says that the cause is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from pellucid import config
from pellucid.diagnosis.causes import Candidate, HistoryView, find_candidates
from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import (
    Evidence,
    Finding,
    Severity,
    build_finding,
    drop_ignored,
    evidence,
    read_codes,
)
from pellucid.diagnosis.fixes.propose import propose_fixes
from pellucid.diagnosis.history.history import History, Reading
from pellucid.diagnosis.not_examined import ProbeRunner
from pellucid.diagnosis.order import in_order, matches_any
from pellucid.errors import ConfigError

#: So many readings in a row must be sick before a sign without a cause is worth a finding.
_LASTING = 3
#: A cause counts from this likelihood on; a training can go badly after so many updates.
_LIKELY, _LONG = 0.8, 50
#: Faults that make other probes fail too, such as random outputs: they take their turn first.
_FIRST = (
    "DAT014",
    "RND001",
    "NUM001",
    "OPT014",
    "UPD004",
    "ATT002",
    "ATT001",
    "POS003",  # a model that finds packed texts by their positions then reads each token alone
    "ATT011",  # a token whose neighbours are hidden is read alone
    "ATT005",
    "DAT024",  # an id at a bound is one that stands for many, too
    "OPT003",
    "RNK008",
    "RNK009",
    "RNK001",
)
#: Effects of many causes: they take their turn last.
_GENERAL = (
    "INI001",
    "LRN001",
    "DAT009",
    "FIT00[1-4]",
    "ARC01[1-3]",
    "UPD008",
    "OPT012",
    "OPT007",
    "PRF001",
    "RLH012",
)
#: Says what would tell a fault from a sound training, where nothing else is wrong.
_UNDECIDED = "UNK002"
#: Signs that compare a loss with the loss of guessing tokens.
_OF_TOKENS = ("loss.value", "loss.learnt", "loss.below_bigram", "loss.context")
#: Even what is sure has some doubt, when it is held against another cause.
_DOUBT = 0.01
#: A cause lists at most so many symptoms as evidence.
_MOST_SYMPTOMS = 3
#: The odds of a first cause that watching a loop has named are so many times as good as its
#: likelihood says. Fitted on the tuning split of `benchmarks.diagnosis.elsewhere`, by likelihood:
#: 45 answers, 44 right, with a mean likelihood of 0.9; rounded down from 5.4.
_ODDS, _SUREST = 5, 0.99


def diagnose(
    history: History, *, declared: Expectations | None = None, ignore: Iterable[str] = ()
) -> list[Finding]:
    """Find the causes of a training's faults: the worst and surest first, causes before effects.

    A healthy training has none. If a cause raises, a note says so, and the others still run.

    Args:
        history: the training, from `history_of_run`, `history_of_watch` or `history_of_log`.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.

    Raises:
        ConfigError: `ignore` names an unknown code, or there is no history.
    """
    if not isinstance(cast("Any", history), History):
        raise ConfigError(
            f"diagnose got {type(history).__name__}, and needs a history: pass "
            "history_of_run(path), history_of_log(path) or history_of_watch(watch)"
        )
    ignored = tuple(ignore)
    drop_ignored([], ignored)
    view = HistoryView(history)
    by_design = declared or Expectations()
    probed = [
        RankedFinding(finding.code, finding.severity, finding.confidence, finding)
        for finding in (_warn_of_frozen(finding, view) for finding in history.findings)
    ]
    runner = ProbeRunner()
    fitting = [_rank(candidate, view) for candidate in find_candidates(view, runner)]
    candidates = [
        candidate
        for candidate in (*probed, *fitting)
        if candidate.code not in ignored and not _is_intended(candidate.finding, by_design)
    ]
    sick = _find_sick(view)
    roots = _find_roots(candidates)
    # a log has fewer numbers than a watched loop, and the factor was not fitted on logs
    factor = _ODDS if history.signs else 1
    believed = _share_belief(roots, fitting, factor)
    findings = [_with_symptoms(root.finding, sick) for root in believed]
    explained = [pattern for root in roots for pattern in read_codes()[root.code].explains]
    unexplained = {id: read for id, read in sick.items() if not matches_any(id, explained)}
    is_grave = any(f.severity in ("fault", "fatal") or f.code == "UNK001" for f in findings)
    if unexplained and not view.goes_well and "UNK001" not in ignored and not is_grave:
        findings.append(
            _unknown(unexplained, [candidate for candidate in fitting if candidate not in roots])
        )
    if any(finding.severity != "note" for finding in findings):
        findings = [finding for finding in findings if finding.code != _UNDECIDED]
    findings = [runner(_add_patch, finding, history.config) or finding for finding in findings]
    findings += [finding for finding in runner.unseen if finding.code not in ignored]
    return in_order(findings)


class RankedFinding(NamedTuple):
    """A finding of a probe, or of a cause that fits, before the roots are known."""

    code: str
    severity: Severity
    likely: float
    finding: Finding


def _rank(candidate: Candidate, view: HistoryView) -> RankedFinding:
    """The candidate's finding; if the training goes badly, a likely cause becomes a fault."""
    finding = candidate.finding()
    worse = candidate.severity is None and candidate.likely >= _LIKELY and not view.goes_well
    if finding.severity == "warn" and worse and view.updates >= _LONG:
        finding = replace(finding, severity="fault")
    return RankedFinding(candidate.code, finding.severity, candidate.likely, finding)


def _warn_of_frozen(finding: Finding, view: HistoryView) -> Finding:
    """The finding, as a warning if weights are frozen in a training from scratch."""
    is_measured = view.start is not None and view.guessing is not None
    if finding.code == "GRD003" and is_measured and view.fresh:
        return replace(finding, severity="warn")
    return finding


def _find_roots(candidates: Sequence[RankedFinding]) -> list[RankedFinding]:
    """The candidates that no surer one explains."""
    roots: list[RankedFinding] = []
    for candidate in sorted(candidates, key=_turn):
        codes = [root.code for root in roots]
        patterns = [pattern for code in codes for pattern in read_codes()[code].explains]
        if candidate.code not in codes and not matches_any(candidate.code, patterns):
            roots.append(candidate)
    return roots


def _share_belief(
    roots: Sequence[RankedFinding], fitting: Sequence[RankedFinding], factor: float
) -> list[RankedFinding]:
    """The roots, with the confidence that each has if one fault is behind all.

    A likelihood p has odds p / (1 - p) against no fault; with one fault at most, they share the
    sum of all odds and 1. Notes, and what a probe read off the state, compete with none.

    Args:
        roots: The candidates that no surer one explains.
        fitting: The candidates that are no finding of a probe.
        factor: The odds are so many times as good as the likelihoods say.
    """
    rivals = [root for root in roots if root in fitting and root.severity != "note"]
    odds = [factor * root.likely / max(1 - root.likely, _DOUBT) for root in rivals]
    if len(rivals) < 2 and factor == 1:
        return list(roots)
    shares = {root.code: odd / (1 + sum(odds)) for root, odd in zip(rivals, odds, strict=True)}
    return [
        root._replace(
            finding=replace(root.finding, confidence=round(min(shares[root.code], _SUREST), 2))
        )
        if root.code in shares
        else root
        for root in roots
    ]


def _turn(candidate: RankedFinding) -> tuple[bool, bool, int, float]:
    """The key of the order: notes come last, then general effects, then less likely causes."""
    turn = _FIRST.index(candidate.code) if candidate.code in _FIRST else len(_FIRST)
    return (
        candidate.severity == "note",
        matches_any(candidate.code, _GENERAL),
        turn,
        -candidate.likely,
    )


def _is_intended(finding: Finding, by_design: Expectations) -> bool:
    """Whether you declared that you intend it."""
    if finding.code == "POS001" and by_design.no_positions:
        return True
    if finding.code == "GRD003" and by_design.frozen and finding.where == "requires_grad":
        return True
    is_of_frozen = finding.code in ("GRD001", "GRD003", "OPT001", "OPT002")
    return is_of_frozen and by_design.is_frozen(finding.where) and bool(finding.where)


def _find_sick(view: HistoryView) -> dict[str, Reading]:
    """Signs that stayed sick, each with the reading that completes the first sick row."""
    sick: dict[str, Reading] = {}
    silent = ("loss.value", "loss.learnt") if view.comes_down else ()
    if view.facts.on_preferences or view.facts.on_rewards:
        # squares of margins, as IPO's, differ as much from batch to batch
        silent = _OF_TOKENS if view.coin is not None else (*_OF_TOKENS, "loss.rise")
    for id, readings in view.history.signs.items():
        if id in silent:
            continue
        words = [reading.word for reading in readings]
        for i in range(_LASTING, len(words) + 1):
            if words[i - _LASTING : i] == ["sick"] * _LASTING:
                sick[id] = readings[i - 1]
                break
    return sick


def _with_symptoms(finding: Finding, sick: dict[str, Reading]) -> Finding:
    """The finding, with the sick signs that it explains as evidence."""
    patterns = read_codes()[finding.code].explains
    known_signs = {clue.sign for clue in finding.evidence}
    symptoms = [
        Evidence(
            f"{id}, update {reading.step}" + (f" in {reading.place}" if reading.place else ""),
            reading.value,
            "a calm sign",
            "docs/vitals.md",
        )
        for id, reading in sick.items()
        if matches_any(id, patterns) and id not in known_signs
    ]
    return replace(finding, evidence=(*finding.evidence, *symptoms[:_MOST_SYMPTOMS]))


def _add_patch(finding: Finding, run: config.Run | None) -> Finding:
    """The finding, with the `--set` assignments of its first fix if there is a config."""
    first = [] if run is None else propose_fixes(finding, run)[:1]
    return replace(finding, patch=first[0].assignments) if first else finding


def _unknown(unexplained: dict[str, Reading], fitting: Sequence[RankedFinding]) -> Finding:
    """A finding with the sick signs, and the causes that they may have."""
    first = min(unexplained.values(), key=lambda reading: reading.step)
    names = [f"{read_codes()[rival.code].title} ({rival.code})" for rival in fitting[:4]]
    return build_finding(
        "UNK001",
        f"Sick without a known cause: {', '.join(unexplained)}."
        + (f" It may be: {'; '.join(names)}." if names else ""),
        *(evidence("UNK001", id, reading.value) for id, reading in unexplained.items()),
        where=first.place,
        cause=read_codes()["UNK001"].title,
        confidence=0.5,
        step=first.step,
    )
