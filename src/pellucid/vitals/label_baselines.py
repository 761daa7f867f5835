"""What the labels of a stream tell by themselves: the losses that guessing and counting reach."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.batches import IGNORED


class Baselines(NamedTuple):
    """Estimates from counts: H(label), and H(label | the one before); in nats.

    Fails:
        From few labels both come out too low, the second by far: counts of pairs are thin.
    """

    unigram: float
    bigram: float


def baselines(labels: Int[Tensor, "batch time"]) -> Baselines:
    """The entropy of the labels, and of a label whose predecessor is known.

    H_1 = -sum_i p_i log p_i,  H_2 = H(pairs) - H(first of a pair)

    Each by the plug-in estimate with (kinds - 1) / 2n added, which takes out the first term of its
    bias.

    Source:
        Miller 1955, "Note on the bias of information estimates".
    """
    labels = labels.detach().cpu().long()
    counted = labels != IGNORED
    paired = counted[:, 1:] & counted[:, :-1]
    first, second = labels[:, :-1][paired], labels[:, 1:][paired]
    high = int(labels.max()) + 1 if labels.numel() else 1
    return Baselines(
        _entropy(labels[counted]), max(0.0, _entropy(first * high + second) - _entropy(first))
    )


def _entropy(symbols: Tensor) -> float:
    if symbols.numel() == 0:
        return math.nan
    counts: Tensor = cast("Any", torch).unique(symbols, return_counts=True)[1].double()
    p = counts / counts.sum()
    return float(-(p * p.log()).sum() + (len(counts) - 1) / (2 * counts.sum()))
