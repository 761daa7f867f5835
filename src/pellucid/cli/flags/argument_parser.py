"""A parser for commands that take a list of texts: flags may stand anywhere among them.

Comes in: words. Goes out: a namespace. It does not know any command.

Before Python 3.13 a list of words that a flag interrupts is over, and the words behind the flag
are not recognised. A command names its list with `set_defaults(list_of_words=...)`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """As argparse's own; words behind a flag join the list that a command names."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """The namespace, and words that are neither flags nor in a list."""
        parsed, extras = super().parse_known_args(args, namespace)
        name: str | None = getattr(parsed, "list_of_words", None)
        if name is None:
            return parsed, extras
        words = [word for word in extras if word == "-" or not word.startswith("-")]
        setattr(parsed, name, [*getattr(parsed, name), *words])
        return parsed, [word for word in extras if word not in words]
