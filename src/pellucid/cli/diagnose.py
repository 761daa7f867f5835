"""`pellucid diagnose`: what is wrong with a run, and why, from what was recorded of it."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, Any

from pellucid.cli.output import add_json, print_json
from pellucid.cli.prove import add_prove_flags, proof_lines, prove_as_said
from pellucid.errors import ExitCode

if TYPE_CHECKING:
    from pellucid.diagnosis import Finding, History, Proof

_WIDTH = 80


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "diagnose",
        help="name what went wrong in a run, and what to do",
        description="Finds causes in what was recorded of a run: its losses, its vital signs, its "
        "config. Each finding says what was seen, the likely cause, how sure that is, and what to "
        "do. Nothing is found in a healthy run. Nothing is changed. With --prove, fixes are tried "
        "on forks of the run, against the same forks without them.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument(
        "--fail-on",
        choices=("warn", "fault", "fatal"),
        metavar="SEVERITY",
        help="exit code 4 where anything is found that is at least so severe: warn, fault or fatal",
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="CODE", help="a code to leave out"
    )
    parser.add_argument(
        "--frozen", action="append", default=[], metavar="NAME", help="weights that are not to move"
    )
    parser.add_argument(
        "--no-positions", action="store_true", help="the model has no positions by design"
    )
    parser.add_argument(
        "--prove", action="store_true", help="try fixes on forks of the run, and say what helped"
    )
    parser.add_argument("--reward", metavar="M:F", help="the reward that it is trained for")
    add_prove_flags(parser)
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> ExitCode:
    """Print the findings; the exit code says whether there are any that count."""
    from pellucid.diagnosis import declare, diagnose, history_of_run, reaches

    said = declare(frozen=arguments.frozen, no_positions=arguments.no_positions)
    history = history_of_run(arguments.run)
    findings = diagnose(history, declared=said, ignore=arguments.ignore)
    failed = arguments.fail_on is not None and reaches(findings, arguments.fail_on)
    if not arguments.json:
        _print(history, findings)
    proof = None
    if arguments.prove and findings:
        print("", end="" if arguments.json else "\n", flush=True)
        proof = prove_as_said(arguments, arguments.run, findings)
    if arguments.json:
        print_json(_facts(history, findings, failed) | _proven(arguments, proof))
    elif proof is not None:
        print("\n" + "\n".join(proof_lines(proof)))
    return ExitCode.FINDINGS if failed else ExitCode.DONE


def _proven(arguments: argparse.Namespace, proof: Proof | None) -> dict[str, Any]:
    if not arguments.prove:
        return {}
    return {"proof": None if proof is None else proof.record()}


def _facts(history: History, findings: list[Finding], failed: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "diagnosed": history.name,
        "updates": history.losses[-1][0] if history.losses else 0,
        "failed": failed,
        "findings": [asdict(each) for each in findings],
    }


def _print(history: History, findings: list[Finding]) -> None:
    seen = f"{len(history.losses)} updates" if history.losses else "nothing but its config"
    signs = f", {len(history.signs)} vital signs" if history.signs else ", no vital signs"
    print(textwrap.fill(f"diagnosed {history.name}: {seen}{signs}", _WIDTH))
    if not findings:
        print("nothing was found")
        return
    for each in findings:
        print(f"\n{each.text(_WIDTH)}")
        at = "" if each.step is None else f", first seen at update {each.step}"
        print(f"  confidence: {each.confidence:.0%}{at}")
    count = f"{len(findings)} findings" if len(findings) > 1 else "1 finding"
    print(f"\n{count}; to leave one out: --ignore CODE; all codes: docs/diagnosis.md")
