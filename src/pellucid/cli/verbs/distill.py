"""`pellucid distill`: a small model learns what a large one expects."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pellucid.cli.flags.run import add_run_flags, train_as_said
from pellucid.cli.output.streams import add_json
from pellucid.errors import ConfigError


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "distill",
        help="train a small model on what a large one expects",
        description="Train a model to expect, at each token of a text, what TEACHER expects: all "
        "of its distribution and not only the token that came. The student has the teacher's "
        "tokenizer. How much the text itself counts, and how the two are compared: --set "
        "objective.hard_weight, objective.temperature, objective.divergence.",
    )
    parser.add_argument("teacher", metavar="TEACHER", help="a run or a Hugging Face directory")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="text, as for pellucid train")
    parser.add_argument(
        "--into",
        metavar="STUDENT",
        help="what the student is: a preset, or a TOML file as for --config (default: nano)",
    )
    add_run_flags(parser)
    add_json(parser)
    parser.set_defaults(call=call, when_stopped="before the first step: there is nothing to save")


def call(arguments: argparse.Namespace) -> None:
    """Train the student; then say what came of it and what can be done with it."""
    arguments.preset = arguments.into
    if arguments.into is not None and _is_file(arguments.into):
        if arguments.config is not None:
            raise ConfigError(
                f"--into {arguments.into} and --config {arguments.config}: both are files that say "
                "what the student is; give one of them, with what differs as --set"
            )
        arguments.preset, arguments.config = None, arguments.into
    train_as_said(arguments, paths=arguments.paths, objective="distill", teacher=arguments.teacher)


def _is_file(student: str) -> bool:
    return student.endswith(".toml") or Path(student).is_file()
