"""Vectors that a model gives for rows: whether they become alike, and whether partners are near.

Texts are compared by the cosines of their vectors. A loss without other rows to push apart is least
if all vectors are the same one.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from pellucid.vitals.taps.recorded_call import is_plain

#: Of more columns, outputs are no labels but numbers of a vector.
MOST_LABELS = 31
#: Rows of a call that are compared, and the last calls that count.
_ROWS, _LAST = 64, 8
#: Fewer rows have few others to be mistaken for.
_FEWEST, _TINY = 4, 1e-12


class RowVectors:
    """What the calls of some updates make of their rows, kept until it is asked for."""

    def __init__(self) -> None:
        #: the vectors of the call before, each of length 1
        self._last: Tensor | None = None
        #: how far apart rows were at the first call of all
        self._first_spread: Tensor | None = None
        self._spreads: list[Tensor] = []
        self._matches: list[Tensor] = []
        #: how many rows calls gave vectors for
        self._n = 0

    def add(self, output: object, rows: int) -> None:
        """Take what a call of so many rows gives, if it is a vector of each row."""
        if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != rows:
            return
        if output.shape[1] <= MOST_LABELS or not output.is_floating_point() or not is_plain(output):
            return
        self._n = rows
        if rows < _FEWEST:
            return
        units = normalize(output.detach()[:_ROWS].float(), dim=-1)
        spread = spread_of(units)
        self._first_spread = spread if self._first_spread is None else self._first_spread
        self._spreads = [*self._spreads[1 - _LAST :], spread]
        if self._last is not None and self._last.shape == units.shape:
            self._matches = [*self._matches[1 - _LAST :], share_matched(self._last, units)]
        self._last = units

    def take_signs(self) -> dict[str, Tensor]:
        """The signs of the last calls so far, which are forgotten."""
        if not self._n:
            return {}
        signs = {"targets.vectors": torch.tensor(float(self._n))}
        if self._spreads and self._first_spread is not None:
            spread = torch.stack(self._spreads).median()
            share_kept = spread / self._first_spread.clamp_min(_TINY)
            signs |= {"vectors.spread": spread, "vectors.kept": share_kept}
        if len(self._matches) > 1:
            # of two calls an update, every other one meets its partner before it
            every_other = (torch.stack(self._matches[i::2]).median() for i in range(2))
            signs["vectors.matched"] = torch.maximum(*every_other)
        self._spreads, self._matches, self._last, self._n = [], [], None, 0
        return signs


def spread_of(units: Float[Tensor, "rows columns"]) -> Float[Tensor, ""]:
    """1 less the mean cosine of two different rows.

    Args:
        units: The vectors, each of length 1.
    """
    n = len(units)
    all_pairs, of_one_row = units.sum(0).square().sum(), units.square().sum()
    return 1 - (all_pairs - of_one_row) / (n * (n - 1))


def share_matched(
    first: Float[Tensor, "rows columns"], second: Float[Tensor, "rows columns"]
) -> Float[Tensor, ""]:
    """The share of rows whose nearest row in another call stands at the same place.

    Args:
        first: The vectors of one call, each of length 1.
        second: Those of the other.
    """
    nearest = (first @ second.T).argmax(1)
    return (nearest == torch.arange(len(first), device=first.device)).float().mean()
