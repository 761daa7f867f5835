"""One id that stands for many words: it follows itself as often as chance says.

A frequent word, or a comma, hardly ever follows itself, and in a run of spaces each does. What a
tokenizer does not know comes anywhere: at the places after one such token, another one is as likely
as elsewhere.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.vitals.ledger.batch_rows import Rows

#: Ids are counted modulo a number. Fewer kinds are letters, of which some double by chance.
_KINDS, _FEWEST_KINDS = 4096, 256
#: So many of the next places are read, of the most frequent ids.
_LAGS, _FREQUENT = 3, 6
#: Of fewer places nothing is said. Chance leads to at least so many pairs, and they are between so
#: many times as many.
_FEWEST_PLACES, _FEWEST_PAIRS, _LEAST, _MOST = 1024, 8, 0.5, 2.0
#: The other frequent ids follow themselves less often than such a share of what chance says.
_OTHERS = 0.3


class UnknownTokens:
    """Counts ids, and how often each comes again soon after itself."""

    def __init__(self) -> None:
        #: (1 + lags, kinds): how often each id came, and how often again so many places later; and
        #: (1 + lags,) pairs of places at each distance, with the places themselves at distance 0
        self._counts: tuple[Tensor, Tensor] | None = None
        #: places so far, and whether some came since the last sign
        self._n_places, self._has_more = 0, False

    def add(self, rows: Rows | None) -> None:
        """Count a batch."""
        if rows is None or rows[0].shape[1] <= _LAGS:
            return
        ids, real = rows
        kinds = ids % _KINDS
        is_real = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        counts = torch.zeros((1 + _LAGS, _KINDS), device=ids.device)
        n_pairs = torch.zeros(1 + _LAGS, device=ids.device)
        for lag in range(1 + _LAGS):
            end = ids.shape[1] - lag
            is_pair = is_real[:, :end] & is_real[:, lag:]
            is_same = is_pair & (ids[:, :end] == ids[:, lag:])
            counts[lag].index_add_(0, kinds[:, :end].flatten(), is_same.flatten().float())
            n_pairs[lag] = is_pair.sum()
        self._n_places, self._has_more = self._n_places + ids.numel(), True
        earlier = self._counts
        self._counts = (
            (counts, n_pairs) if earlier is None else (earlier[0] + counts, earlier[1] + n_pairs)
        )

    def take_signs(self) -> dict[str, Tensor]:
        """The sign of all batches so far, which stay counted; none without new ones."""
        if self._counts is None or not self._has_more or self._n_places < _FEWEST_PLACES:
            return {}
        self._has_more = False
        return {"batch.unknown": unknown_share(*self._counts)}


def unknown_share(
    counts: Float[Tensor, "distances kinds"], n_pairs: Float[Tensor, " distances"]
) -> Float[Tensor, ""]:
    """The share of the most frequent id that follows itself by chance; 0 if none, or others, do.

    Args:
        counts: For each id, how often it came, and how often again so many places later.
        n_pairs: How many pairs of places there are at each distance.
    """
    n, top = counts[0].topk(_FREQUENT)
    share = n / n_pairs[0].clamp_min(1)
    # of n_pairs pairs, share squared are twice the same id by chance
    expected = share.square()[None] * n_pairs[1:, None]
    ratio = counts[1:, top] / expected.clamp_min(1e-30)
    is_by_chance = ((ratio > _LEAST) & (ratio < _MOST)).all(0) & (expected > _FEWEST_PAIRS).all(0)
    others = ratio[0].masked_fill(is_by_chance, torch.nan).nanmedian()
    is_text = ((counts[0] > 0).sum() >= _FEWEST_KINDS) & (others < _OTHERS)
    return torch.where(is_by_chance & is_text, share, 0.0).amax()
