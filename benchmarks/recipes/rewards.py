"""Rewards that you can check yourself: `--reward benchmarks.recipes.rewards:short`."""

from __future__ import annotations


def short(row: dict[str, object], answer: str) -> float:
    """1 for a sentence that is finished and has at most six words, else 0."""
    del row
    return float(answer.rstrip().endswith(".") and len(answer.split()) <= 6)
