"""Rows that end in one token, again and again, as a policy writes them that lost its entropy.

Padding ends rows too. What tells it from text is that nothing of a text comes after it.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.vitals.ledger.batch_rows import Rows

#: So many tokens before the last one are one token.
_TAIL = 8
#: The last updates of a page that count, and how many are enough.
_UPDATES, _FEWEST = 8, 4
#: So many batches show which ids are text.
_READ = 8


class StuckRows:
    """Collects the share of such rows in each batch of an open page."""

    def __init__(self) -> None:
        #: ids within the texts of the first batches, and -1 at all other places
        self._texts: list[Tensor] = []
        self._shares: list[Tensor] = []

    def add(self, batch: Rows | None) -> None:
        """Take the first rows of a batch."""
        if batch is None or batch[0].shape[1] <= _TAIL:
            return
        ids, real = batch
        real = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        inner = ids.masked_fill(~_is_inner(ids, real), -1).flatten()
        if len(self._texts) < _READ:
            self._texts.append(inner)
        is_text = torch.isin(ids[:, -1:], torch.cat([*self._texts, inner]))
        self._shares.append(is_stuck(ids, real & (is_text | (ids != ids[:, -1:]))).double().mean())

    def take_signs(self) -> dict[str, Tensor]:
        """The sign of the page's last updates, which are forgotten."""
        shares, self._shares = self._shares[-_UPDATES:], []
        is_enough = len(shares) >= _FEWEST
        return {"batch.stuck": torch.stack(shares).mean()} if is_enough else {}


def _is_inner(ids: Int[Tensor, "rows time"], real: Bool[Tensor, "rows time"]) -> Tensor:
    """Whether each token comes behind another id of its row, and before another one."""
    is_behind_start = (ids != ids[:, :1]).cumsum(1) > 0  # padding may come before a text, too
    is_before = torch.zeros_like(real)
    is_before[:, :-1] = (ids[:, :-1] != ids[:, 1:]) & real[:, 1:]
    return is_behind_start & is_before & real


def is_stuck(
    ids: Int[Tensor, "rows time"], real: Bool[Tensor, "rows time"]
) -> Bool[Tensor, " rows"]:
    """Whether a row's text ends in one token again and again, but for one that may close it.

    Args:
        ids: The rows.
        real: Whether a place is one of text.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    last = torch.where(real, places, -1).amax(1, keepdim=True)
    steps = torch.arange(1, _TAIL + 1, device=ids.device)
    tail = ids.gather(1, (last - steps).clamp_min(0))
    return (tail == tail[:, :1]).all(1) & (last[:, 0] > _TAIL)
