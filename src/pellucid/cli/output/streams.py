"""How commands speak: text for people, JSON for programs, errors in one paragraph.

Comes in: results. Goes out: lines on standard output and standard error. It does not know what they
mean.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from typing import Any

from pellucid.errors import Interrupted, PellucidError
from pellucid.json_text import json_text


def add_run(parser: argparse.ArgumentParser) -> None:
    """The model that a command uses."""
    parser.add_argument(
        "run", metavar="RUN", help="a run, one of its checkpoints, or a Hugging Face directory"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """The flag that every command has."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_force(parser: Any) -> None:
    """The flag of every command that asks for memory by what it is given."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="go on even if more memory is expected to be needed than is free",
    )


def add_weights(parser: argparse.ArgumentParser) -> None:
    """What the matrices of the model are rounded to."""
    parser.add_argument(
        "--weights",
        choices=("float32", "bfloat16", "int8"),
        default="float32",
        help="round the matrices of the model to these: fewer bits write faster (float32: as they "
        "are)",
    )


def print_json(result: Any) -> None:
    """One JSON document on standard output."""
    spells_all = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json_text(result, indent=2, ensure_ascii=not spells_all))


def say_error(error: PellucidError, *, as_json: bool = False) -> None:
    """One paragraph on standard error; as JSON on standard output where JSON was asked for."""
    if as_json:
        print_json({"error": type(error).__name__, "message": str(error)})
    head = "stopped: " if isinstance(error, Interrupted) else "error: "
    text = str(error) if str(error).startswith("stopped") else f"{head}{error}"
    width = min(96, shutil.get_terminal_size().columns) if sys.stderr.isatty() else 96
    text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr)
