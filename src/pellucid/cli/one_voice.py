"""A command on many ranks, which torchrun starts: rank 0 prints, all end with one refusal."""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, redirect_stdout

from pellucid.errors import ConfigError
from pellucid.parallel import count_ranks, leads, refused_together


@contextmanager
def one_voice(arguments: argparse.Namespace) -> Generator[None]:
    """Within it, all ranks end with the first refusal, and one of them prints.

    Args:
        arguments: of the command; only those that train take many ranks.

    Raises:
        ConfigError: the command runs in one process.
    """
    with refused_together(), nullcontext() if leads() else _silence():
        if count_ranks() > 1 and not getattr(arguments, "takes_ranks", False):
            raise ConfigError(
                f"pellucid {arguments.command} runs in one process, and WORLD_SIZE is "
                f"{count_ranks()}: start it without torchrun"
            )
        yield


@contextmanager
def _silence() -> Generator[None]:
    """Print nothing but an error that no other rank prints."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield
