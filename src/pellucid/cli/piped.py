"""A text that comes through a pipe.

Comes in: standard input. Goes out: its text, or a refusal by name. It does not know what for.
"""

from __future__ import annotations

import sys

from pellucid.errors import TextError


def piped(name: str) -> str:
    """The text on standard input, without the line end that `echo` puts behind it.

    Raises:
        TextError: it is not in the encoding that standard input is read in.
    """
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise TextError(
            f"the {name} on standard input is not {error.encoding.upper()} (byte "
            f"0x{error.object[error.start]:02x} at offset {error.start}): convert it first"
        ) from None
