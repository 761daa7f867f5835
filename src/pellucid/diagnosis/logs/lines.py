"""Lines of a console, made whole before their numbers are read.

Terminals and tools break one row over several lines, or print names once and numbers below them.

Must not know: what the numbers say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pellucid.diagnosis.logs.columns import kind_of

#: The numbers of one row, by name.
Row = dict[str, float]

#: A number in a line, as part of a regular expression.
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?![a-z])"
#: A record with quoted names that has begun, and has not ended in its line.
_OPEN_RECORD = re.compile(r"^[^{}]*\{\s*['\"][^{}]*$")
#: A record has at most so many lines: more are not one row.
_LINES = 40
#: OLMo prints `[step=1/99,epoch=0]`, and below it an indented line for each number.
_BLOCK = re.compile(r"\[step=\d+(?:/\d+)?,\s*epoch=\d+.*\]\s*$")
_IN_BLOCK = re.compile(r"^\s+[\w /()%]+=\S+\s*$")
#: verl prints `step:1 - actor/lr:0.1 - ...`, and a terminal breaks that anywhere.
_LONG_ROW = re.compile(r"\bstep:\d+ - ")
_REST_OF_ROW = re.compile(r"^(?!.*\bstep:\d+).*[\w/@]:-?[\d.]+ - ")
_CELL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)|[\d:]+", re.I)
#: Megatron leaves the loss out of a row in which it is not above 0, and NaN is not.
_MEGATRON = re.compile(r"\bconsumed samples:")
_SKIPPED = re.compile(r"\bskipped iterations:\s*[1-9]")


def join_records(lines: Sequence[str]) -> list[str]:
    """The lines, with each record in one: `{'loss': 1.0, 'lr': 0.` and `5}` are one row."""
    joined: list[str] = []
    parts: list[str] = []
    for line in lines:
        if not parts and not _OPEN_RECORD.match(line):
            joined.append(line)
            continue
        parts.append(line)
        if "}" in line or len(parts) == _LINES:
            joined += ["".join(parts)] if "}" in line else parts
            parts = []
    return joined + parts


def join_rows(lines: Sequence[str]) -> list[str]:
    """The lines, with each row that a tool or a terminal broke in one."""
    joined: list[str] = []
    is_block = is_row = False
    for line in lines:
        if is_block and _IN_BLOCK.match(line):
            joined[-1] += " " + line.strip()
        elif is_row and _REST_OF_ROW.match(line):
            joined[-1] += line
        else:
            is_block, is_row = bool(_BLOCK.search(line)), bool(_LONG_ROW.search(line))
            joined.append(line)
    return joined


def name_numbers(lines: Sequence[str]) -> list[str]:
    """The lines, with the names of a line above them in front of bare numbers.

    Names are only taken from a line without digits, if one is the usual name of a loss.
    """
    named: list[str] = []
    names: list[str] = []
    for line in lines:
        words = [word for word in re.split(r"[,;|\s]+", line.strip(" \t*=-#|")) if word]
        if len(words) > 1 and not re.search(r"\d", line):
            kinds = [kind for kind in map(kind_of, words) if kind is not None]
            names = words if any(kind in ("loss", "held_out") for kind, _ in kinds) else []
        elif len(words) == len(names) > 1 and all(map(_CELL.fullmatch, words)):
            line = ", ".join(f"{name}={cell}" for name, cell in zip(names, words, strict=True))
        named.append(line)
    return named


def leaves_loss_out(line: str) -> bool:
    """Whether no loss is in a line of a tool that leaves it out if it is not a number."""
    has_loss = re.search(r"\blm[ _]loss\b|(?<!balancing )(?<!_)\bloss:", line) is not None
    return bool(_MEGATRON.search(line)) and not has_loss and not _SKIPPED.search(line)
