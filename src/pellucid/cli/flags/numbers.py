"""Numbers on the command line: finite, and within a range with a reason."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from pellucid.reader import short

#: Of numbers that nothing else bounds: more than any run, text or model has.
_LIMIT = 10**15


def integer(
    minimum: int = -_LIMIT, maximum: int = _LIMIT, reason: str = ""
) -> Callable[[str], int]:
    """A parser of whole numbers; its messages end with `reason`."""

    def read(word: str) -> int:
        try:
            value = int(word)
        except ValueError:
            raise _refused(f"a whole number, was {short(word)}") from None
        _refuse_outside(value, minimum, maximum, reason)
        return value

    return read


def number(
    minimum: float = -_LIMIT, maximum: float = _LIMIT, reason: str = ""
) -> Callable[[str], float]:
    """A parser of finite numbers; its messages end with `reason`."""

    def read(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            raise _refused(f"a number, was {short(word)}") from None
        if not math.isfinite(value):
            raise _refused(f"a finite number, was {short(word)}")
        _refuse_outside(value, minimum, maximum, reason)
        return value

    return read


def _refuse_outside(value: float, minimum: float, maximum: float, reason: str) -> None:
    if not minimum <= value <= maximum:
        bound = f"at least {minimum:,}" if value < minimum else f"at most {maximum:,}"
        ending = f": {reason}" if reason else ""
        raise _refused(f"{bound}, was {short(value)}{ending}")


def _refused(expected: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"expected {expected}")


#: Parsers of flags.
BEAMS = integer(
    maximum=1024, reason="each is a text of its own, generated together with the others"
)
NEW_TOKENS = integer(maximum=2**20, reason="no model reads that far back")
TEMPERATURE = number(maximum=1000, reason="every token is about as likely from there on")
TOKENS_KNOWN = integer(maximum=2**22, reason="the largest vocabularies have a million tokens")
ROWS = integer(1, 1024, "each takes a cache for the whole context")
QUEUE = integer(0, 10**6, "no client waits so long")
PORT = integer(0, 65535, "ports are numbered so")
RANK = integer(maximum=2**16, reason="a rank is less than the width of the model")
SEED = integer(maximum=2**63 - 1, reason="a seed has 63 bits")
MINUTES = number(maximum=10**7, reason="that is nineteen years")
EPOCHS = number(maximum=10**6, reason="a text is learnt by heart long before")
STEPS = integer(maximum=10**10, reason="no run lasts that long")
STEPS_VERIFIED = integer(2, 10**10, "one comes before the stop and one after it")
KILLS = integer(1, 1000, "each is a training of its own")
TRAININGS = integer(maximum=1000, reason="each is a training of its own")
