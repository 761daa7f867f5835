"""The losses that counting labels reaches: without context, and with one token of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.batches import IGNORED


class Baselines(NamedTuple):
    """Estimates from counts: H(label), and H(label | the label before it), in nats.

    Attributes:
        unigram: H(label), in nats.
        bigram: H(label | the label before it), in nats.

    Fails:
        With few labels both are too low, the second by far, because counts of pairs are thin.
    """

    unigram: float
    bigram: float


def baselines(labels: Int[Tensor, "batch time"]) -> Baselines:
    """The entropy of the labels, and of a label if its predecessor is known.

    H_1 = -sum_i p_i log p_i,  H_2 = H(pairs) - H(first of a pair)

    Each is the plug-in estimate plus (kinds - 1) / 2n, which removes the first term of its bias.

    Source:
        Miller 1955, "Note on the bias of information estimates".
    """
    labels = labels.detach().cpu().long()
    is_target = labels != IGNORED
    is_pair = is_target[:, 1:] & is_target[:, :-1]
    first, second = labels[:, :-1][is_pair], labels[:, 1:][is_pair]
    n_labels = int(labels.max()) + 1 if labels.numel() else 1
    return Baselines(
        _entropy(labels[is_target]), max(0.0, _entropy(first * n_labels + second) - _entropy(first))
    )


def _entropy(symbols: Tensor) -> float:
    if symbols.numel() == 0:
        return math.nan
    counts: Tensor = cast("Any", torch).unique(symbols, return_counts=True)[1].double()
    p = counts / counts.sum()
    return float(-(p * p.log()).sum() + (len(counts) - 1) / (2 * counts.sum()))
