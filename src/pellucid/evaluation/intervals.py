"""How exact a held-out loss is: its standard error, from the losses of many parts of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence


def standard_error(sums: Sequence[float], counts: Sequence[int]) -> float | None:
    """sqrt(K / (K - 1) sum_k (s_k - m n_k)^2) / N, m = sum s_k / N: of a mean over K parts.

    Parts are what varies independently: windows of a text, or batches of examples. None for fewer
    than two of them.

    Args:
        sums: the sum s_k of the losses of each part.
        counts: its number n_k of terms.

    Source:
        Cochran 1977, "Sampling Techniques", eq. 6.4 (the variance of a ratio estimate).
    """
    n_parts, total = len(sums), sum(counts)
    if n_parts < 2:
        return None
    mean = math.fsum(sums) / total
    squares = math.fsum((s - mean * n) ** 2 for s, n in zip(sums, counts, strict=True))
    return math.sqrt(n_parts / (n_parts - 1) * squares) / total
