"""`pellucid check`: what is wrong with a model, before any time is spent on training it."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, Any

from pellucid.cli.output.findings import add_finding_flags
from pellucid.cli.output.streams import add_force, add_json, print_json
from pellucid.errors import ExitCode

if TYPE_CHECKING:
    from pellucid.diagnosis import Checked

_WIDTH = 80


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "check",
        help="find what is wrong with a model, in seconds, before training",
        description="Asks a model yes-or-no questions: does it see the future, does every weight "
        "learn, are labels where they belong? Each finding says what it is, why it matters and "
        "what to do. Nothing is changed.",
    )
    parser.add_argument(
        "what",
        metavar="MODEL-OR-CONFIG",
        help="a run, a Hugging Face directory, a preset's name, or a config file",
    )
    parser.add_argument(
        "text",
        metavar="DATA",
        nargs="?",
        help="what it learns from: a text file, or a file of rows",
    )
    add_finding_flags(parser)
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> ExitCode:
    """Print the findings; the exit code says whether there are any that count."""
    from pellucid.diagnosis import check_named, declare, has_severity

    declared = declare(frozen=arguments.frozen, no_positions=arguments.no_positions)
    checked = check_named(
        arguments.what, arguments.text, declared=declared, ignore=arguments.ignore
    )
    failed = arguments.fail_on is not None and has_severity(checked.findings, arguments.fail_on)
    if arguments.json:
        print_json(_facts(checked, failed))
    else:
        _print(checked)
    return ExitCode.FINDINGS if failed else ExitCode.SUCCESS


def _facts(checked: Checked, failed: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "checked": checked.what,
        "failed": failed,
        "findings": [asdict(finding) for finding in checked.findings],
    }


def _print(checked: Checked) -> None:
    print(textwrap.fill(f"checked {checked.what}", _WIDTH, break_on_hyphens=False))
    if not checked.findings:
        print("nothing was found")
        return
    for finding in checked.findings:
        print(f"\n{finding.text(_WIDTH)}")
    counts = [f"{len(checked.findings)} findings"] if len(checked.findings) > 1 else ["1 finding"]
    print(f"\n{counts[0]}; to leave one out: --ignore CODE; all codes: docs/diagnosis.md")
