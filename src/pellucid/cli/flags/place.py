"""The flags that select a token, a layer, a head and a weight."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING

from pellucid.cli.flags.numbers import integer

if TYPE_CHECKING:
    from pellucid.explain.chapter_types import Place


def add_place_flags(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    for name, default, meaning in (
        ("layer", 0, "the layer"),
        ("head", 0, "the head"),
        ("token", -1, "the token that looks; the last"),
        ("other", 0, "the token it looks at; the first"),
        ("feature", 0, "the feature that receipts are of"),
    ):
        text = f"{meaning}, counted from 0 (-1 is the last)"
        parser.add_argument(f"--{name}", type=integer(), default=default, metavar="N", help=text)
    parser.add_argument(
        "--weight",
        metavar="NAME",
        default="",
        help="the weight that is nudged and updated, such as feed_forward.up.weight of the layer, "
        "or token_embedding.weight",
    )
    for name in ("row", "column"):
        text = f"its {name}, counted from 0"
        parser.add_argument(f"--{name}", type=integer(), default=0, metavar="N", help=text)
    parser.add_argument(
        "--stack",
        choices=("decoder", "encoder"),
        default="decoder",
        help="of an encoder-decoder: which stack",
    )
    parser.add_argument(
        "--cross", action="store_true", help="of an encoder-decoder: its looks at the encoder"
    )


def place_of(arguments: argparse.Namespace) -> Place:
    """The place that the flags of `pellucid explain` name."""
    from pellucid.explain.chapter_types import Place

    return Place(**{field.name: getattr(arguments, field.name) for field in fields(Place)})
