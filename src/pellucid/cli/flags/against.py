"""The flags of `pellucid explain` that name something to compare with."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.explain import Trace
    from pellucid.runs import Run


def add_comparing_flags(parser: argparse.ArgumentParser) -> None:
    """`--against` and `--against-text`."""
    parser.add_argument(
        "--against",
        metavar="RUN",
        help="compare with another run, one of its checkpoints, or a Hugging Face directory",
    )
    parser.add_argument(
        "--against-text", metavar="TEXT", help="compare with another sentence, here or --against"
    )


def compare_is_meant(arguments: argparse.Namespace) -> bool:
    """Whether the command compares.

    Raises:
        ConfigError: the chapter does not compare.
    """
    compares = arguments.against is not None or arguments.against_text is not None
    if compares and arguments.chapter not in (None, "compare"):
        flag = "--against" if arguments.against is not None else "--against-text"
        raise ConfigError(
            f"{flag} is for the chapter compare, not for --chapter {arguments.chapter}: leave one "
            "of them out"
        )
    return compares


def other_trace(arguments: argparse.Namespace, run: Run) -> Trace | None:
    """The trace to compare with; None if the flags name none."""
    if arguments.against is None and arguments.against_text is None:
        return None
    from pellucid import runs
    from pellucid.cli.flags.token_ids import trace_request

    other_run = run if arguments.against is None else runs.load(arguments.against)
    text = arguments.sentence if arguments.against_text is None else arguments.against_text
    return trace_request(arguments, other_run, text, target=arguments.target)
