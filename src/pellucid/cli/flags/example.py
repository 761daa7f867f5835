"""Flags of an example: a row, or the texts of one, with the loss of the run's own objective."""

from __future__ import annotations

import argparse

from pellucid.errors import ConfigError


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
    is_example = any(
        value is not None
        for value in (arguments.example, arguments.target, arguments.rejected, arguments.reward)
    )
    changes = arguments.ablate or arguments.edit
    if is_example and not (arguments.all or arguments.chapter or changes or is_question):
        arguments.chapter = "loss"


def refuse_example_on_page(arguments: argparse.Namespace) -> None:
    """Refuse the flags that a page does not have.

    Raises:
        ConfigError: one of them is there.
    """
    for name in ("rejected", "example", "reward"):
        if getattr(arguments, name) is not None:
            raise ConfigError(f"--{name} is for the terminal: a page shows plain texts")
