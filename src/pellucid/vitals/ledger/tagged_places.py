"""Tokens with a class each, of some updates: what tokens tell of the classes, and from where.

The first batch may have too few tokens to show it.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from pellucid.batches import IGNORED
from pellucid.vitals.call.alignment import are_classes
from pellucid.vitals.call.place_classes import errors_beside, sides_of_ends, told_by_tokens
from pellucid.vitals.call.row_content import count_last
from pellucid.vitals.ledger.batch_rows import ROWS
from pellucid.vitals.taps.recorded_call import is_plain

#: Most places that are kept.
_MOST_PLACES = 8192
#: In so many rows, the special token at one end alone has a class.
_NEARLY_ALL = 0.9


class TaggedPlaces:
    """The first rows of some batches whose labels give tokens a class each."""

    def __init__(self) -> None:
        self._batches: list[tuple[Tensor, Tensor]] = []
        self._n = 0
        #: whether a page has shown that the labels are texts: later batches have the same kind
        self._are_texts = False

    def add(self, ids: Tensor | None, labels: object) -> None:
        """Take a batch.

        Args:
            ids: The ids that the model reads.
            labels: The labels of the call.
        """
        if (
            ids is None
            or not isinstance(labels, Tensor)
            or ids.ndim != 2
            or self._n >= _MOST_PLACES
            or self._are_texts
        ):
            return
        if labels.shape != ids.shape or labels.is_floating_point() or not is_plain(labels):
            return
        rows, classes = ids[:ROWS].long().clone(), labels[:ROWS].long()
        classes = classes.masked_fill(classes < 0, IGNORED)
        self._batches.append((rows, classes))
        self._n += rows.numel()

    def take_signs(self) -> dict[str, Tensor]:
        """The signs of the batches so far, which are forgotten."""
        batches, self._batches, self._n = self._batches, [], 0
        if not batches:
            return {}
        width = max(ids.shape[1] for ids, _ in batches)
        ids, classes = (
            torch.cat([pad(b[i], (0, width - b[i].shape[1]), value=v) for b in batches])
            for i, v in enumerate((0, IGNORED))
        )
        if not bool((classes != IGNORED).any()):
            return {}
        self._are_texts = not are_classes(ids, classes)
        if self._are_texts:
            return {}
        win_share = told_by_tokens(ids, classes)
        if win_share is None:
            return {}
        side = torch.cat([side_of_classes(*batch) for batch in batches]).float().mean()
        signs = {"targets.told": win_share[0], "targets.told_rows": win_share[1]}
        for sign in (-1, 1):
            if float(side * sign) > _NEARLY_ALL:
                signs["targets.beside"] = torch.tensor(errors_beside(ids, classes, sign))
        return signs


def side_of_classes(
    ids: Int[Tensor, "rows time"], classes: Int[Tensor, "rows time"]
) -> Int[Tensor, " rows"]:
    """-1 for a row if of the special tokens at its ends only the first has a class, 1 if the last.

    Else 0. Rows are filled up at their end with one id; special tokens are the same in all rows.

    Args:
        ids: The ids that the model reads.
        classes: The class of each place, `IGNORED` where nothing is paid for.
    """
    n_pads = count_last(ids)
    padding = ids[n_pads.argmax(), -1]
    is_filled = (ids[:, -1] == padding) & (n_pads.amax() > 1)
    last = torch.where(is_filled, ids.shape[1] - n_pads - 1, ids.shape[1] - 1).clamp_min(0)[:, None]
    return sides_of_ends(ids, classes, torch.zeros_like(last), last)
