"""Numbers as people read them: short, and of a fixed width in columns."""

from __future__ import annotations

import math


def short(value: float) -> str:
    """1234 -> 1.23k, 3.4e6 -> 3.4M: three digits."""
    return _scaled(value, ("", "k", "M", "G", "T", "P"))


def size(n_bytes: float | None) -> str:
    """1.23 GB; a dash if it is not known."""
    return "–" if n_bytes is None else _scaled(n_bytes, (" B", " kB", " MB", " GB", " TB", " PB"))


def energy(joules: float) -> str:
    """3.6 kJ (1 Wh)."""
    scaled = _scaled(joules, (" J", " kJ", " MJ", " GJ", " TJ", " PJ"))
    return f"{scaled} ({short(joules / 3600)} Wh)"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        # 999.5 would round to 1000, which is one of the next unit
        if abs(value) < 999.5 or not math.isfinite(value):
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}{units[-1]}"


def duration(seconds: float) -> str:
    """2m10s."""
    if not math.isfinite(seconds):
        return "–"
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{remainder:02d}s" if minutes else f"{remainder}s"
