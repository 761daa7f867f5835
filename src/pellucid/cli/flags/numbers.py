"""Numbers on the command line: finite, and within a range that says why.

Comes in: a word. Goes out: a number, or words for argparse, which names the flag. It does not know
what the number is for; what depends on a model or on data is refused where those are known.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from pellucid.reader import short

#: Of numbers that nothing else bounds: more than any run, text or model has.
_FAR = 10**15


def whole(least: int = -_FAR, most: int = _FAR, why: str = "") -> Callable[[str], int]:
    """What reads a whole number of a flag; `why` stands behind a refusal of its range."""

    def read(word: str) -> int:
        try:
            value = int(word)
        except ValueError:
            raise _refused(f"a whole number, was {short(word)}") from None
        _refuse_outside(value, least, most, why)
        return value

    return read


def number(least: float = -_FAR, most: float = _FAR, why: str = "") -> Callable[[str], float]:
    """What reads a number of a flag; NaN and infinity are none."""

    def read(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            raise _refused(f"a number, was {short(word)}") from None
        if not math.isfinite(value):
            raise _refused(f"a finite number, was {short(word)}")
        _refuse_outside(value, least, most, why)
        return value

    return read


def _refuse_outside(value: float, minimum: float, maximum: float, why: str) -> None:
    if not minimum <= value <= maximum:
        bound = f"at least {minimum:,}" if value < minimum else f"at most {maximum:,}"
        reason = f": {why}" if why else ""
        raise _refused(f"{bound}, was {short(value)}{reason}")


def _refused(expected: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"expected {expected}")


#: By flag: what reads its number.
BEAMS = whole(most=1024, why="each is a text of its own, written beside the others")
NEW_TOKENS = whole(most=2**20, why="no model reads that far back")
TEMPERATURE = number(most=1000, why="every token is about as likely from there on")
TOKENS_KNOWN = whole(most=2**22, why="the largest vocabularies have a million tokens")
PORT = whole(0, 65535, "ports are numbered so")
RANK = whole(most=2**16, why="a rank is less than the width of the model")
SEED = whole(most=2**63 - 1, why="a seed has 63 bits")
MINUTES = number(most=10**7, why="that is nineteen years")
EPOCHS = number(most=10**6, why="a text is learnt by heart long before")
STEPS = whole(most=10**10, why="no run lasts that long")
STEPS_VERIFIED = whole(2, 10**10, "one comes before the stop and one after it")
KILLS = whole(1, 1000, "each is a training of its own")
TRAININGS = whole(most=1000, why="each is a training of its own")
