"""Text as people read it: ASCII for signs that an output cannot encode, singulars and plurals.

The command line gives `ERRORS` to its streams. What is printed from Python goes through
`printable`, because the stream belongs to the caller there.

Must not know: the display.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable

#: The `errors` of a stream that writes ASCII for the signs that it cannot encode.
ERRORS = "pellucid.ascii"
_ASCII = {
    "×": "x", "·": "*", "–": "-", "…": "...", "→": "->", "←": "<-", "−": "-", "±": "+-",
    "≈": "~", "≤": "<=", "≥": ">=", "≠": "!=", "∞": "inf", "✓": "ok", "●": "*", "Σ": "sum",
    "√": "sqrt", "‖": "||", "²": "^2", "ᵀ": "^T", "ᵗ": "^t", "₁": "_1", "₂": "_2", "β": "beta",
    "π": "pi", "θ": "theta", "μ": "mu", "σ": "sigma", "φ": "phi", "─": "-", "│": "|", "├": "|",
    "└": "`", "█": "#", "▓": "#", "▒": "+", "░": ".",
}  # fmt: skip


def join_counts(counts: Iterable[int], unit: str, *, joint: str = " + ") -> str:
    """Counts of one unit, such as the layers of each stack of a model.

    >>> join_counts([2, 3], "layer")
    '2 + 3 layers'
    """
    all_counts = list(counts)
    return f"{joint.join(map(str, all_counts))} {plural(sum(all_counts), unit)}"


def printable(text: str) -> str:
    """The text as standard output can encode it.

    >>> "2 × 3 → 6 ≠ 漢".encode("ascii", ERRORS)
    b'2 x 3 -> 6 != ?'
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, ERRORS).decode(encoding)


def plural(n: int, unit: str) -> str:
    """The unit of `n` things, in English.

    Args:
        n: How many.
        unit: Its singular, with a plural that ends in s.

    >>> f"1 {plural(1, 'layer')} of 2 {plural(2, 'layer')}"
    '1 layer of 2 layers'
    """
    return unit if n == 1 else f"{unit}s"


def _spell(error: UnicodeError) -> tuple[str, int]:
    """What stands for the part of a text that cannot be encoded, and where the text continues."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(_ASCII.get(letter, "?") for letter in unknown), error.end


codecs.register_error(ERRORS, _spell)
