"""A text that comes through a pipe.

Comes in: standard input. Goes out: its text, or a refusal by name. It does not know what for.
"""

from __future__ import annotations

import sys

from pellucid.errors import TextError
from pellucid.reader import LARGE, refuse_open_device


def piped(name: str) -> str:
    """The text on standard input, without the line end that `echo` puts behind it.

    Raises:
        TextError: it is a device with no end, it is not in the encoding that standard input is read
            in, or there is more of it than is held in memory.
    """
    if sys.stdin is None:
        return ""
    refuse_open_device(sys.stdin, f"the {name} on standard input", refusal=TextError)
    try:
        text = sys.stdin.read(LARGE + 1)
    except UnicodeDecodeError as error:
        raise TextError(
            f"the {name} on standard input is not {error.encoding.upper()} (byte "
            f"0x{error.object[error.start]:02x} at offset {error.start}): convert it first"
        ) from None
    if len(text) > LARGE:
        raise TextError(
            f"the {name} on standard input is longer than {LARGE:,} characters: expected one that "
            "is held in memory; give less of it"
        )
    return text.rstrip("\n")
