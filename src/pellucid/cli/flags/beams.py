"""The flags of a beam search, and the flags that contradict them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import BEAMS, NEW_TOKENS, number
from pellucid.cli.flags.shared import list_given
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.generation import Beams, EarlyStopping

#: Flags for sampling token by token, and flags for choosing among whole texts.
_SAMPLING_FLAGS = (
    "greedy", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "stop",
    "guesses", "draft"
)  # fmt: skip
_SEARCH_FLAGS = ("n_best", "length_penalty", "early_stopping", "min_new_tokens")
_STOPPING: dict[str, EarlyStopping] = {"true": True, "false": False, "never": "never"}


def add_beams(parser: Any) -> None:
    """Add the flags, in their own group."""
    group = parser.add_argument_group(
        "beam search", "Search for the likeliest whole texts instead of sampling token by token."
    )
    group.add_argument("--beams", type=BEAMS, metavar="N", help="keep the N best texts per step")
    group.add_argument("--n-best", type=BEAMS, metavar="N", help="print the N best texts (1)")
    group.add_argument(
        "--length-penalty",
        type=number(),
        metavar="A",
        help="score = log P / length^A; the length counts generated tokens and the end token (1)",
    )
    group.add_argument(
        "--early-stopping",
        choices=tuple(_STOPPING),
        help="when N texts are complete: stop (true), continue while a beginning scores better "
        "(false, the default), or while one could still score better (never)",
    )
    group.add_argument(
        "--min-new-tokens", type=NEW_TOKENS, metavar="N", help="generate at least N tokens (0)"
    )


def beams_from(arguments: argparse.Namespace) -> Beams | None:
    """The beam search that the flags describe; None without `--beams`.

    Raises:
        ConfigError: flags contradict each other.
    """
    if arguments.beams is None:
        if flags := list_given(arguments, _SEARCH_FLAGS):
            raise ConfigError(
                f"{flags} chooses among the texts of a beam search: give --beams too, such as "
                "--beams 4, or leave it out"
            )
        return None
    if flags := list_given(arguments, _SAMPLING_FLAGS):
        raise ConfigError(
            f"{flags} is for sampling token by token, and --beams searches for the likeliest "
            "whole texts: leave one of them out"
        )
    from pellucid.generation import Beams

    settings = {
        name: value for name in _SEARCH_FLAGS if (value := getattr(arguments, name)) is not None
    }
    if arguments.early_stopping is not None:
        settings["early_stopping"] = _STOPPING[arguments.early_stopping]
    return Beams(n_beams=arguments.beams, max_new_tokens=arguments.max_new_tokens, **settings)
