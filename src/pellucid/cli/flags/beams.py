"""The flags of a beam search, and what they may not be given with."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import BEAMS, NEW_TOKENS, number
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.generation import Beams, EarlyStopping

#: What belongs to drawing token by token, and what to choosing among whole texts.
_DRAWS = (
    "greedy", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "stop"
)  # fmt: skip
_CHOOSES = ("n_best", "length_penalty", "early_stopping", "min_new_tokens")
_STOPPING: dict[str, EarlyStopping] = {"true": True, "false": False, "never": "never"}


def add_beams(parser: Any) -> None:
    """The flags, in a group of their own."""
    group = parser.add_argument_group(
        "beam search", "Look for the likeliest whole texts, in place of drawing token by token."
    )
    group.add_argument("--beams", type=BEAMS, metavar="N", help="go on with N beginnings at a time")
    group.add_argument("--n-best", type=BEAMS, metavar="N", help="give the N best texts (1)")
    group.add_argument(
        "--length-penalty",
        type=number(),
        metavar="A",
        help="score = log P / length^A, the length in tokens written, the end included (1)",
    )
    group.add_argument(
        "--early-stopping",
        choices=tuple(_STOPPING),
        help="once N texts are whole, stop (true), go on while a beginning scores better (false, "
        "the default), or while one still could (never)",
    )
    group.add_argument(
        "--min-new-tokens", type=NEW_TOKENS, metavar="N", help="no text ends before N tokens (0)"
    )


def beams_from(arguments: argparse.Namespace) -> Beams | None:
    """How to search, where that was asked for.

    Raises:
        ConfigError: flags contradict each other.
    """
    if arguments.beams is None:
        if flags := _list_flags(arguments, _CHOOSES):
            raise ConfigError(
                f"{flags} chooses among the texts that a beam search finds: give --beams too, such "
                "as --beams 4, or leave it out"
            )
        return None
    if flags := _list_flags(arguments, _DRAWS):
        raise ConfigError(
            f"{flags} is for drawing token by token, and --beams looks for the likeliest whole "
            "texts: leave one of them out"
        )
    from pellucid.generation import Beams

    chosen = {name: value for name in _CHOOSES if (value := getattr(arguments, name)) is not None}
    if arguments.early_stopping is not None:
        chosen["early_stopping"] = _STOPPING[arguments.early_stopping]
    return Beams(n_beams=arguments.beams, max_new_tokens=arguments.max_new_tokens, **chosen)


def _list_flags(arguments: argparse.Namespace, names: tuple[str, ...]) -> str:
    given_names = [name for name in names if getattr(arguments, name) not in (None, False, [])]
    return ", ".join(f"--{name.replace('_', '-')}" for name in given_names)
