"""`pellucid distill`: a small model learns what a large one expects."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.output import add_json
from pellucid.cli.train import add_run_flags, train_as_said


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "distill",
        help="train a small model on what a large one expects",
        description="Train a model to expect, at each token of a text, what TEACHER expects: all "
        "of its distribution and not only the token that came. The student has the teacher's "
        "tokenizer.",
    )
    parser.add_argument("teacher", metavar="TEACHER", help="a run or a Hugging Face directory")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="text, as for pellucid train")
    parser.add_argument(
        "--into", dest="preset", metavar="NAME", help="the student's preset (default: nano)"
    )
    add_run_flags(parser)
    add_json(parser)
    parser.set_defaults(
        call=call, when_stopped="at once; nothing was saved since the last checkpoint"
    )


def call(arguments: argparse.Namespace) -> None:
    """Train the student; then say what came of it and what can be done with it."""
    train_as_said(
        arguments, paths=arguments.paths, objective="distillation", teacher=arguments.teacher
    )
