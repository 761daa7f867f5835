"""`pellucid doctor`: what this machine can do, what slows it, and what to install."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import align_values, print_result

if TYPE_CHECKING:
    from pellucid.machine import Machine


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "doctor",
        help="what this machine can do, and what slows it",
        description="Look at the processor, memory, disk, compiler, GPU and installed packages, "
        "measure matrix products in float32 and bfloat16 for a moment, and say what slows "
        "pellucid here and what helps. Put the output into a bug report: it names no file and no "
        "person.",
    )
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Print the facts, then the advice."""
    from pellucid.machine import examine

    machine = examine()
    facts = {"facts": dict(machine.rows), "advice": [asdict(advice) for advice in machine.advice]}
    print_result(arguments, facts, _lines(machine))


def _lines(machine: Machine) -> Iterator[str]:
    yield from align_values(machine.rows)
    yield ""
    for advice in machine.advice:
        yield f"! {advice.problem}: {advice.remedy}"
    if not machine.advice:
        yield "nothing slows pellucid here"
