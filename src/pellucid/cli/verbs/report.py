"""`pellucid report`: a run as one HTML file."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "report",
        help="write a run as one HTML file",
        description="Curves, samples over time, configuration and environment of a run, finished "
        "or not, as one HTML file that needs no network and runs no script.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument("--out", metavar="FILE", help="the file (default: report.html in the run)")
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Write the report; print its place and size."""
    from pellucid.display.numbers import size
    from pellucid.report import write_report

    report = write_report(arguments.run, arguments.out)
    facts = {
        "file": str(report.file),
        "bytes": report.n_bytes,
        "step": report.step,
        "events": report.events,
    }
    text = f"{report.file}: {size(report.n_bytes)}, one file, up to step {report.step:,}"
    print_result(arguments, facts, [text])
