"""Flags of an example: a row, or the texts of one, with the loss of the run's own objective."""

from __future__ import annotations

import argparse

from pellucid.errors import ConfigError

_FLAGS = ("example", "target", "rejected", "reward")


def add_example_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of an example beside `--target`."""
    parser.add_argument(
        "--rejected", metavar="TEXT", help="the answer that is not preferred, of a DPO run"
    )
    parser.add_argument(
        "--example", metavar="FILE", help="a JSON file with one row as the run is trained on"
    )
    parser.add_argument(
        "--reward", metavar="NAME", help="what judges the answers of a policy gradient"
    )


def choose_chapter(arguments: argparse.Namespace, *, is_question: bool) -> None:
    """An example without a chapter opens at its loss."""
    changes = arguments.ablate or arguments.edit
    if is_example(arguments) and not (arguments.all or arguments.chapter or changes or is_question):
        arguments.chapter = "loss"


def is_example(arguments: argparse.Namespace) -> bool:
    """Whether the text is an example of the run's objective, and not a plain text."""
    return any(getattr(arguments, name) is not None for name in _FLAGS)


def refuse_example_on_server(arguments: argparse.Namespace) -> None:
    """Refuse the flags that a served page does not have: it reads other texts as well.

    Raises:
        ConfigError: one of them is there.
    """
    for name in _FLAGS:
        if getattr(arguments, name) is not None:
            raise ConfigError(
                f"--{name} is of one example, and a served page reads plain texts: write the "
                "example's page with --html FILE"
            )
