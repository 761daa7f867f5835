"""Flags that many commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.cli.flags.numbers import NEW_TOKENS


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the model that a command uses."""
    parser.add_argument(
        "run", metavar="RUN", help="a run, one of its checkpoints, or a Hugging Face directory"
    )


def finish_parser(
    parser: argparse.ArgumentParser,
    call: Callable[[argparse.Namespace], object],
    *,
    device: bool = False,
    force: bool = False,
    **defaults: str | bool,
) -> None:
    """Add the last flags of a command, and the function that carries it out.

    Args:
        parser: the parser of the command.
        call: the function.
        device: whether you can choose the device.
        force: whether the command checks its memory first.
        **defaults: values without a flag.
    """
    if device:
        add_device(parser)
    if force:
        add_force(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(call=call, parser=parser, **defaults)


def add_force(parser: Any) -> None:
    """Add the flag of every command that checks its memory first."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="continue even if the command may need more memory than is free",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the device of the model."""
    parser.add_argument("--device", default="cpu", metavar="D", help="cpu (default), cuda")


def add_new_tokens(parser: argparse.ArgumentParser) -> None:
    """Add the length of a text that the model writes."""
    parser.add_argument(
        "--max-new-tokens", type=NEW_TOKENS, default=200, metavar="N", help="write N tokens at most"
    )


def add_settings(parser: Any, *, example: str) -> None:
    """Add `--set`, with an example of a setting."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help=f"any value of the config, such as {example}",
    )


def add_corpus(parser: Any, *, nargs: str) -> None:
    """Add text files, and the column of a table that holds the text."""
    parser.add_argument("paths", nargs=nargs, metavar="PATH", help="files, folders, patterns, or -")
    parser.add_argument("--field", metavar="F", help="the field of a table that holds the text")


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Add the format to which the model's matrices are rounded."""
    parser.add_argument(
        "--weights",
        choices=("float32", "bfloat16", "float16", "int8", "int4", "stored"),
        default="float32",
        help="round the model's matrices to this format: fewer bits generate faster (float32: no "
        "rounding; stored: as in the files of a published model, without a copy)",
    )
    parser.add_argument(
        "--calibrate",
        action="append",
        metavar="PATH",
        help="with --weights int4: round so that what the model computes from this text, a file or "
        "folder, changes least; may be repeated",
    )


def add_finding_flags(parser: Any) -> None:
    """Add which findings set the exit code, and which are left out or intended."""
    parser.add_argument(
        "--fail-on",
        choices=("warn", "fault", "fatal"),
        metavar="SEVERITY",
        help="exit with code 4 if any finding is at least this severe: warn, fault or fatal",
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="CODE", help="leave out this code"
    )
    parser.add_argument(
        "--frozen", action="append", default=[], metavar="NAME", help="weights meant not to change"
    )
    parser.add_argument(
        "--no-positions", action="store_true", help="the model has no positions by design"
    )


def list_given(arguments: argparse.Namespace, names: Sequence[str]) -> str:
    """The flags among `names` that were used, for a message; empty if none was."""
    used = [name for name in names if getattr(arguments, name) not in (None, False, [])]
    return ", ".join(f"--{name.replace('_', '-')}" for name in used)
