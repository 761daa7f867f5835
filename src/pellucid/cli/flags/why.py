"""The flags of `pellucid explain` that ask why the model says a word."""

from __future__ import annotations

import argparse

from pellucid.errors import ConfigError


def add_why_flags(parser: argparse.ArgumentParser) -> None:
    """`--why`, `--rather-than`, `--contrast`, `--over-training` and `--name-heads`."""
    parser.add_argument(
        "--why",
        nargs="?",
        const="",
        metavar="WORD",
        help="why the model says a word after --token rather than another one: what each part "
        "adds, what happens without it, and whose information came by which heads (the likeliest "
        "word and its runner-up)",
    )
    parser.add_argument(
        "--rather-than", metavar="WORD", help="with --why: the word to compare with"
    )
    parser.add_argument(
        "--contrast",
        metavar="TEXT",
        help="with --why: a sentence of as many tokens to patch parts from (the same tokens, "
        "shuffled)",
    )
    parser.add_argument(
        "--over-training",
        action="store_true",
        help="with --why: the difference and its largest parts at each checkpoint of the run",
    )
    parser.add_argument(
        "--name-heads",
        action="store_true",
        help="name the heads of the run by what they do over its held-out text, whatever SENTENCE "
        "says: previous token, first token, induction, duplicate, same class",
    )


def why_is_asked(arguments: argparse.Namespace) -> bool:
    """Whether the command asks why.

    Raises:
        ConfigError: a flag of it is there without it, or with a chapter.
    """
    for flag in ("rather_than", "contrast", "over_training"):
        if getattr(arguments, flag) not in (None, False) and arguments.why is None:
            raise ConfigError(f"--{flag.replace('_', '-')} belongs to --why: add --why")
    if arguments.over_training and (arguments.contrast or arguments.ablate or arguments.edit):
        raise ConfigError(
            "--over-training reads each checkpoint as it is: leave --contrast, --ablate and --edit "
            "out"
        )
    if arguments.why is None:
        return False
    if arguments.all or arguments.chapter is not None:
        raise ConfigError("--why is a chapter of its own: leave --chapter and --all out")
    return True
