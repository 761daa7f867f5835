"""`pellucid diagnose`: find the causes of trouble in a run, or in the log of any training."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import TOKENS_KNOWN
from pellucid.cli.flags.shared import add_finding_flags, finish_parser
from pellucid.cli.output.printing import count_findings, print_json
from pellucid.cli.output.proof import add_prove_flags, prove_fixes
from pellucid.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from pellucid.diagnosis import Finding, History, Proof

_WIDTH = 80


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "diagnose",
        help="name what went wrong in a run or a log, and what to do",
        description="Find causes in the losses, vital signs and config of a run. Each finding "
        "gives the evidence, the likely cause, the confidence, and what to do. A healthy run has "
        "none. For logs of other tools, pellucid also lists what it cannot check. The run stays "
        "unchanged. With --prove, pellucid tries fixes on forks of the run, against the same forks "
        "without them.",
    )
    parser.add_argument(
        "run",
        metavar="RUN-OR-LOG",
        help="a run's folder; or a log: trainer_state.json or its folder, a TensorBoard folder, "
        "CSV, JSON lines, a console's lines",
    )
    parser.add_argument(
        "--vocab-size",
        type=TOKENS_KNOWN,
        metavar="N",
        help="for a log: the size of the vocabulary, to compare its losses with guessing",
    )
    add_finding_flags(parser)
    parser.add_argument(
        "--prove", action="store_true", help="try fixes on forks of the run, and print which helped"
    )
    parser.add_argument("--reward", metavar="M:F", help="the reward that the run is trained for")
    add_prove_flags(parser)
    finish_parser(parser, call, force=True, when_stopped="at once; the run is as it was")


def call(arguments: argparse.Namespace) -> ExitCode:
    """Print the findings; the exit code says whether any is severe enough."""
    from pellucid.diagnosis import declare, diagnose, has_severity, list_unknowns

    declared = declare(frozen=arguments.frozen, no_positions=arguments.no_positions)
    history, is_log = _history(arguments.run, arguments.vocab_size)
    findings = diagnose(history, declared=declared, ignore=arguments.ignore)
    if is_log and arguments.prove:
        raise ConfigError(
            f"{arguments.run} is a log: there is no run to fork. --prove needs the folder of a run"
        )
    missing = list_unknowns(history) if is_log else []
    failed = arguments.fail_on is not None and has_severity(findings, arguments.fail_on)
    if not arguments.json:
        _print(history, findings)
        _print_missing(missing)
    proof = None
    if arguments.prove and findings:
        print("", end="" if arguments.json else "\n", flush=True)
        proof = prove_fixes(arguments, arguments.run, findings)
    if arguments.json:
        print_json(
            _facts(history, findings, failed)
            | ({"unsaid": missing} if is_log else {})
            | _proven(arguments, proof)
        )
    elif proof is not None:
        print(f"\n{proof.text()}")
    return ExitCode.FINDINGS if failed else ExitCode.SUCCESS


def _proven(arguments: argparse.Namespace, proof: Proof | None) -> dict[str, Any]:
    if not arguments.prove:
        return {}
    return {"proof": None if proof is None else proof.record()}


def _history(path: str, vocab_size: int | None) -> tuple[History, bool]:
    """The history of a run, or of a log; whether it is a log."""
    from pathlib import Path

    from pellucid.diagnosis import history_of_log, history_of_run, is_log

    if vocab_size is not None and vocab_size < 2:
        raise ConfigError(f"--vocab-size must be 2 at least, was {vocab_size}")
    if is_log(path) or not (Path(path) / "config.toml").is_file():
        return history_of_log(path, vocab_size=vocab_size), True
    return history_of_run(path), False


def _facts(history: History, findings: list[Finding], failed: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "diagnosed": history.name,
        "updates": history.losses[-1][0] if history.losses else 0,
        "failed": failed,
        "findings": [asdict(finding) for finding in findings],
    }


def _print_missing(missing: list[str]) -> None:
    if missing:
        print("\nwhat pellucid cannot check in this log")
    for statement in missing:
        print(textwrap.fill(statement, _WIDTH, initial_indent="- ", subsequent_indent="  "))


def _print(history: History, findings: list[Finding]) -> None:
    rows, last = len(history.losses), history.losses[-1][0] if history.losses else 0
    extent = "nothing but its config" if history.config else "no losses"
    if rows:
        extent = f"{rows} updates" if rows >= last - 1 else f"{rows} rows up to update {last}"
    signs = f", {len(history.signs)} vital signs" if history.signs else ", no vital signs"
    print(
        textwrap.fill(f"diagnosed {history.name}: {extent}{signs}", _WIDTH, break_on_hyphens=False)
    )
    if not findings:
        print("nothing was found")
        return
    for finding in findings:
        print(f"\n{finding.text(_WIDTH)}")
        first = "" if finding.step is None else f", first seen at update {finding.step}"
        print(f"  confidence: {finding.confidence:.0%}{first}")
    print(count_findings(len(findings)))
