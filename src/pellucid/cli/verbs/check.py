"""`pellucid check`: find mistakes in a model before you spend time on training it."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import add_finding_flags, finish_parser
from pellucid.cli.flags.token_ids import add_ids, read_texts
from pellucid.cli.output.printing import count_findings, print_result
from pellucid.errors import ExitCode

if TYPE_CHECKING:
    from pellucid.diagnosis import Checked

_WIDTH = 80


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "check",
        help="find mistakes in a model in seconds, before training",
        description="Test a model: does it see the future, does every weight learn, are labels in "
        "the right place? Each finding names the problem, why it matters and what to do. The model "
        "stays unchanged.",
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
        help="its training data: a text file, or a file of rows",
    )
    add_ids(parser, "DATA holds token ids, a text a line: for a model without a tokenizer")
    add_finding_flags(parser)
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> ExitCode:
    """Print the findings; the exit code says whether any is severe enough."""
    from pellucid.diagnosis import check_named, declare, has_severity

    declared = declare(frozen=arguments.frozen, no_positions=arguments.no_positions)
    ids = read_texts([arguments.text] if arguments.text else []) if arguments.ids else None
    checked = check_named(
        arguments.what, arguments.text, ids=ids, declared=declared, ignore=arguments.ignore
    )
    failed = arguments.fail_on is not None and has_severity(checked.findings, arguments.fail_on)
    print_result(arguments, _facts(checked, failed), _format(checked))
    return ExitCode.FINDINGS if failed else ExitCode.SUCCESS


def _facts(checked: Checked, failed: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "checked": checked.target,
        "failed": failed,
        "findings": [asdict(finding) for finding in checked.findings],
    }


def _format(checked: Checked) -> list[str]:
    lines = [textwrap.fill(f"checked {checked.target}", _WIDTH, break_on_hyphens=False)]
    if not checked.findings:
        return [*lines, "nothing was found"]
    lines += [f"\n{finding.text(_WIDTH)}" for finding in checked.findings]
    return [*lines, count_findings(len(checked.findings))]
