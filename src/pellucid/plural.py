"""The form of a unit after a number, in English: 1 layer, 2 layers.

Must not know: the texts of the page, which have their forms in the catalogue.
"""

from __future__ import annotations


def plural(n: int, unit: str) -> str:
    """The unit of `n` things.

    Args:
        n: How many.
        unit: Its singular, with a plural that ends in s.

    >>> f"1 {plural(1, 'layer')} of 2 {plural(2, 'layer')}"
    '1 layer of 2 layers'
    """
    return unit if n == 1 else f"{unit}s"
