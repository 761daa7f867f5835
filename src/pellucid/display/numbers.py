"""Numbers as people read them, in a fixed width where they stand in a column.

Comes in: numbers with a unit in their name. Goes out: short texts. It does not know what they mean.
"""

from __future__ import annotations

import math


def short(value: float) -> str:
    """1234 -> 1.2k, 3.4e6 -> 3.4M."""
    for limit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}" if abs(value) < 999 * limit else f"{value:.2g}"
    return f"{value:.3g}"


def size(n_bytes: float | None) -> str:
    """1.2 GB; a dash where it is not known."""
    if n_bytes is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def duration(seconds: float) -> str:
    """2m10s."""
    if not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
