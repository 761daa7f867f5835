"""What the first targets say of a training: the labels of the fixed rows, and the gradient."""

from __future__ import annotations

from collections.abc import Mapping

from pellucid.diagnosis.history.history import Points, Reading
from pellucid.vitals import WatchState, baselines

#: Of fewer labels, no frequencies are known.
_LEAST_LABELS = 128
#: A loss that differs from -log p by so many nats has other terms, or other weights.
_EQUAL_NATS = 0.25


def frequencies(watched: WatchState) -> float | None:
    """The entropy of single tokens among the labels of the fixed rows, if there are enough."""
    labels = None if watched.probe is None else watched.probe.labels
    if labels is None or labels.ndim != 2 or labels.numel() < _LEAST_LABELS:
        return None
    return baselines(labels).unigram


def is_log_p(signs: Mapping[str, tuple[Reading, ...]], losses: Points) -> bool:
    """Whether the first loss is -log p of the targets that its gradient names, if that is known."""
    nats = signs.get("targets.nats", ())
    if not nats or not losses or losses[0][0] > 1:
        return True
    return abs(losses[0][1] - nats[0].value) < _EQUAL_NATS
