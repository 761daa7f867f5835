"""`pellucid distill`: train a small model on the predictions of a large one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pellucid.cli.flags.run import add_run_flags, train_from_flags
from pellucid.cli.flags.shared import finish_parser
from pellucid.errors import ConfigError


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "distill",
        help="train a small model on the predictions of a large one",
        description="Train a student on the whole distribution that TEACHER predicts at each "
        "token, not only on the next token. The student gets the teacher's tokenizer. Set the "
        "weight of the text and the comparison with --set objective.hard_weight, "
        "objective.temperature, objective.divergence.",
    )
    parser.add_argument("teacher", metavar="TEACHER", help="a run or a Hugging Face directory")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="text, as for pellucid train")
    parser.add_argument(
        "--into",
        metavar="STUDENT",
        help="the student: a preset, or a TOML file as for --config (default: nano)",
    )
    add_run_flags(parser)
    parser.set_defaults(takes_ranks=True)
    finish_parser(parser, call, when_stopped="before the first step: there is nothing to save")


def call(arguments: argparse.Namespace) -> None:
    """Train the student; then print its results and the next commands."""
    arguments.preset = arguments.into
    if arguments.into is not None and _is_file(arguments.into):
        if arguments.config is not None:
            raise ConfigError(
                f"--into {arguments.into} and --config {arguments.config}: both describe the "
                "student; give one of them, and other settings with --set"
            )
        arguments.preset, arguments.config = None, arguments.into
    train_from_flags(
        arguments, paths=arguments.paths, objective="distill", teacher=arguments.teacher
    )


def _is_file(student: str) -> bool:
    return student.endswith(".toml") or Path(student).is_file()
