"""What the first targets say of a training: the labels of the fixed rows, and the gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from pellucid.diagnosis.history.history import Facts, Points, Reading
from pellucid.vitals import WatchState, baselines

#: Of fewer labels, no frequencies are known.
_LEAST_LABELS = 128
#: A loss that differs from -log p by so many nats has other terms, or other weights.
_EQUAL_NATS = 0.25
#: So many first losses of a preference loss are not negative; one near ln 2 is a coin's.
_EARLY, _NEAR_A_COIN = 8, 0.1
#: Of both answers of all pairs, half are made less likely.
_HALF = 0.02


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


def of_gradient(facts: Facts, signs: Mapping[str, tuple[Reading, ...]], losses: Points) -> Facts:
    """The facts, with the objective that the first update's gradient shows.

    Cross-entropy makes no target less likely. A loss that does so compares answers: in pairs of one
    weight if it is a preference loss, which is never negative, else by their rewards.

    Args:
        facts: what is known otherwise.
        signs: the signs of the training.
        losses: its losses.
    """
    if facts.objective is not None:
        return facts
    is_own, lowers, is_paired, is_matched = (
        bool(signs.get(f"answers.{name}", ()) and signs[f"answers.{name}"][0].value)
        for name in ("own", "lowered", "paired", "matched")
    )
    if not is_own and not lowers:
        return facts
    early = [value for _, value in losses[:_EARLY]]
    is_coin = bool(early) and abs(early[0] - math.log(2)) < _NEAR_A_COIN
    lowered = signs["answers.lowered"][0].value if lowers else 0.0
    # a mean over an answer's tokens gives its two answers other weights, and a loss of pairs with
    # further terms, or without a reference, costs more than 0 whatever it weighs
    is_of_pairs = is_coin or (is_matched and min(early, default=0.0) > _NEAR_A_COIN)
    is_half = is_of_pairs and not is_own and abs(lowered - 0.5) < _HALF
    is_compared = is_paired or is_half
    on_pairs = is_compared and min(early, default=0.0) >= 0 and (is_coin or not is_own)
    # one number of each row writes no answers: what is not of pairs is a regression
    is_of_scores = lowers and not signs.get("answers.uneven", ())
    if is_of_scores and not is_own and not on_pairs:
        return facts
    objective = "preferences" if on_pairs else "rewards"
    return replace(facts, objective=objective, pretrained=True)
