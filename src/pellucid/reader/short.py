"""A value from outside, short enough for a message.

It cannot fail: a list a thousand deep and a number of a million digits have a short form too.
"""

from __future__ import annotations

import reprlib


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, 60, 60
        self.maxlist = self.maxtuple = self.maxdict = 4

    def repr_int(self, x: int, level: int) -> str:
        """A number too long to be shown has a size: Python refuses to write its digits."""
        if x.bit_length() > 200:
            return f"a whole number of about {round(x.bit_length() * 0.30103):,} digits"
        return repr(x)


_SHORT = _Short()


def short(value: object) -> str:
    """As `repr`, cut to what a message has room for."""
    text = _SHORT.repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
