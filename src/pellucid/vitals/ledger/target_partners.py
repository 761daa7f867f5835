"""Whether the targets of an encoder-decoder belong to the texts that its encoder reads.

Most often the longer of two texts has the longer target, or a target repeats something of its own
text. If neither is truer of a row's own target than of another row's, rows were mixed up.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.vitals.call.row_content import count_last
from pellucid.vitals.ledger.batch_rows import ROWS, Rows, kinds_of_tokens
from pellucid.vitals.taps.recorded_call import is_plain


class TargetPartners:
    """Compares the rows of some updates with the row before each in its batch."""

    def __init__(self) -> None:
        #: wins and numbers of lengths, then of words
        self._counts: list[Tensor] = []
        #: a number of each target
        self._targets: list[Tensor] = []

    def add(self, rows: Rows | None, labels: object) -> None:
        """Take a batch, unless its labels have the shape of its ids: then they may be tags.

        Args:
            rows: What the encoder reads, as `first_rows` gives it.
            labels: The labels (rows, places) of the call; negative where nothing is paid for.
        """
        if rows is None or not isinstance(labels, Tensor) or labels.is_floating_point():
            return
        ids, mask = rows
        if labels.ndim != 2 or labels.shape[1] == ids.shape[1] or not is_plain(labels):
            return
        targets = labels[:ROWS].long()
        if len(ids) < 2 or len(targets) != len(ids):
            return
        is_paid, real = targets >= 0, is_text(ids) if mask is None else mask
        self._counts.append(compare_rows(ids, real, targets.clamp_min(0), is_paid))
        places = torch.arange(targets.shape[1], device=targets.device) + 1
        self._targets.append(((targets + 1) * is_paid * places.square()).sum(1))

    def take_signs(self) -> dict[str, Tensor]:
        """The signs of the batches so far, which are forgotten."""
        if not self._counts:
            return {}
        wins, n = torch.stack(self._counts).sum(0).view(2, 2).unbind(1)
        targets = torch.cat(self._targets)
        shares = wins / n.clamp_min(1)
        n_different = 1 + targets.sort().values.diff().ne(0).sum()
        self._counts, self._targets = [], []
        return {
            "targets.longer": shares[0],
            "targets.longer_rows": n[0],
            "targets.partner": shares[1],
            "targets.partner_rows": n[1],
            "targets.different": n_different / len(targets),
        }


def compare_rows(
    ids: Int[Tensor, "rows length"],
    real: Bool[Tensor, "rows length"],
    targets: Int[Tensor, "rows places"],
    is_paid: Bool[Tensor, "rows places"],
) -> Tensor:
    """How often the longer text has the longer target, of how many rows; then the same of words.

    Words win if a text shares more kinds of tokens with its own target than with the one before;
    half of the ties count. Of two equal lengths none is the longer.

    Args:
        ids: What the encoder reads.
        real: Whether these are tokens.
        targets: The tokens that the decoder is to write.
        is_paid: Whether these are targets.
    """
    longer, longer_target = (
        (n - n.roll(1)).sign()[1:] for n in (real.long().sum(1), is_paid.long().sum(1))
    )
    agreement = longer * longer_target
    kinds, target_kinds = kinds_of_tokens(ids, real), kinds_of_tokens(targets, is_paid)
    n_own, n_before = ((kinds * x).sum(1)[1:] for x in (target_kinds, target_kinds.roll(1, 0)))
    wins = (n_own > n_before).sum() + (n_own == n_before).sum() / 2
    counts = ((agreement > 0).sum(), (agreement != 0).sum(), wins, len(n_own))
    return torch.stack([torch.as_tensor(x, device=ids.device).float() for x in counts])


def is_text(ids: Int[Tensor, "rows length"]) -> Bool[Tensor, "rows length"]:
    """Whether a place comes before the padding that fills the shorter rows up at their end."""
    n_pads = count_last(ids)
    padding = ids[n_pads.argmax(), -1]
    is_filled = (ids[:, -1] == padding) & (n_pads.amax() > 1)
    lengths = torch.where(is_filled, ids.shape[1] - n_pads, ids.shape[1])
    return torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
