"""Vectors that a model gives for rows: whether they become alike, and whether partners are near.

Texts are compared by the cosines of their vectors. A loss without other rows to push apart is least
if all vectors are the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from pellucid.vitals.ledger.batch_rows import Rows, kinds_of_tokens
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
        #: the rows of the update's first call, until its second call came
        self._texts: Rows | None = None
        self._is_paired = False
        #: how often partners had more in common than other rows, of how many
        self._partner_wins: list[Tensor] = []

    def add(
        self, output: object, rows: int, texts_of: Callable[[], Rows | None] = lambda: None
    ) -> None:
        """Take what a call of so many rows gives, if it is a vector of each row, or two of them.

        Args:
            output: What it returned; of more vectors than two, the first two are partners.
            rows: How many rows it had.
            texts_of: Gives the first of them, if they are known.
        """
        vectors = _vectors_in(output, rows)
        for values in vectors:
            self._add(values)
        texts = texts_of() if len(vectors) == 1 and not self._is_paired else None
        if texts is None:
            return
        self._is_paired = self._texts is not None
        if self._texts is not None:
            self._partner_wins.append(told_by_partners(self._texts, texts))
        self._texts = texts

    def end_update(self) -> None:
        """Partners are of one update: its first two calls."""
        self._texts, self._is_paired = None, False

    def _add(self, vectors: Tensor) -> None:
        rows = self._n = len(vectors)
        if rows < _FEWEST:
            return
        units = normalize(vectors.detach()[:_ROWS].float(), dim=-1)
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
        if self._partner_wins:
            wins, n = torch.stack(self._partner_wins).sum(0).unbind()
            signs |= {"vectors.told": wins / n.clamp_min(1), "vectors.told_rows": n}
        self._spreads, self._matches, self._last, self._n = [], [], None, 0
        self._partner_wins = []
        return signs


def _vectors_in(output: object, rows: int) -> list[Tensor]:
    """The vectors of so many rows that a call gives: a table, or the first two of several."""
    if not isinstance(output, tuple):
        return [output] if isinstance(output, Tensor) and _are_vectors(output, rows) else []
    values = cast("tuple[object, ...]", output)
    tables = [v for v in values if isinstance(v, Tensor) and _are_vectors(v, rows)]
    return tables[:2] if len(tables) > 1 else []


def _are_vectors(values: Tensor, rows: int) -> bool:
    """Whether these are numbers of a vector for each of so many rows."""
    is_table = values.ndim == 2 and len(values) == rows and values.shape[1] > MOST_LABELS
    return is_table and values.is_floating_point() and is_plain(values)


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


def told_by_partners(first: Rows, second: Rows) -> Float[Tensor, " 2"]:
    """How often a row has more kinds of tokens in common with its partner than with the next one.

    Half of the ties count. And of how many rows: none if the two calls have other numbers of rows,
    or the same texts.

    Args:
        first: The rows of one call, as `first_rows` gives them.
        second: The rows of the other call.
    """
    kinds, other_kinds = (kinds_of_tokens(*rows) for rows in (first, second))
    if len(kinds) != len(other_kinds) or len(kinds) < _FEWEST:
        return torch.zeros(2, device=kinds.device)
    shared, by_chance = ((kinds * x).sum(1) for x in (other_kinds, other_kinds.roll(1, 0)))
    n = len(kinds) * (kinds != other_kinds).any().float()
    wins = (shared > by_chance).float().sum() + (shared == by_chance).float().sum() / 2
    return torch.stack([wins * (n > 0), n])
