"""What the first targets say of a training: the labels of the fixed rows, and the gradient."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.diagnosis.history.history import Points, Reading
from pellucid.vitals import WatchState, baselines

#: Of fewer labels, neither frequencies nor shares are known.
_LEAST_LABELS = 128
#: A loss that differs from -log p by so many nats has other terms, or other weights.
_EQUAL_NATS = 0.25


def _labels(watched: WatchState) -> Tensor | None:
    labels = None if watched.probe is None else watched.probe.labels
    is_known = labels is not None and labels.ndim == 2 and labels.numel() >= _LEAST_LABELS
    return labels if is_known else None


def frequencies(watched: WatchState) -> float | None:
    """The entropy of single tokens among the labels of the fixed rows, if there are enough."""
    labels = _labels(watched)
    return None if labels is None else baselines(labels).unigram


def paid_share(watched: WatchState) -> float | None:
    """The share of the fixed rows' places that have a label, if there are enough."""
    labels = _labels(watched)
    return None if labels is None else float((labels != IGNORED).double().mean())


def is_log_p(signs: Mapping[str, tuple[Reading, ...]], losses: Points) -> bool:
    """Whether the first loss is -log p of the targets that its gradient names, if that is known."""
    nats = signs.get("targets.nats", ())
    if not nats or not losses or losses[0][0] > 1:
        return True
    return abs(losses[0][1] - nats[0].value) < _EQUAL_NATS
