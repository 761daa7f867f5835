"""What steps that are too long do to the loss."""

from __future__ import annotations

import math
import statistics

from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.logs.statistics import bend

#: A loss that stays high says nothing of a shorter training.
_LONG = 30
#: So many updates before a rise of the loss, and after it, are compared; the first ones before.
_WINDOWS, _FIRST = (5, 10), 2


def effects_on_loss(view: HistoryView) -> dict[str, tuple[float, str]]:
    """What the loss shows of steps that are too long: a number and what it says, by name."""
    effects = (
        (
            "above",
            _rise_at_speed(view),
            "the loss of ten updates was {:.2g} nats above that of updates before",
        ),
        ("above", _above_guessing(view), "the loss ended {:.2g} nats above that of guessing"),
        ("above", _above_start(view), "the loss stayed {:.2g} nats above that of the first batch"),
        (
            "way",
            _way_to_guessing(view),
            "the pairs are guessed, after steps that add up to {:.0%} of the weights",
        ),
    )
    return {name: (value, text.format(value)) for name, value, text in effects if value is not None}


def _above_start(view: HistoryView) -> float | None:
    """How far the loss of a trained model stayed above its first one; None if it is no sign.

    Its steps have gone a long way, and no ten updates in a row were as good as the first batch.
    """
    start, best, distance = view.start, view.best, view.distance
    if start is None or best is None or distance is None or view.steps[0] > 1:
        return None
    is_of_text = view.learns_tokens and view.guessing is not None and was_trained(view)
    if not is_of_text or distance < limit("OPT005", "way") or view.updates < _LONG:
        return None
    return best - start if best - start > limit("OPT005", "rise") else None


def _above_guessing(view: HistoryView) -> float | None:
    """How far the loss of a new model ended above guessing, and its start; None if it is no sign.

    Small steps down a mean over texts do not lead there.
    """
    start, end, guessing = view.start, view.end, view.guessing
    if start is None or end is None or guessing is None or not view.learns_tokens:
        return None
    excess = end - max(start, guessing)
    is_far = view.updates >= _LONG and excess > limit("OPT005", "rise")
    return excess if view.fresh and is_far else None


def _way_to_guessing(view: HistoryView) -> float | None:
    """How far all steps moved a trained model whose pairs are still guessed; None if it is no sign.

    Its columns say what the loss of a few pairs would not: a margin that has grown is no guess.
    """
    coin, end, distance = view.coin, view.end, view.distance
    if coin is None or end is None or distance is None or not was_trained(view):
        return None
    if _tells_pairs_apart(view) or abs((view.start or coin) - coin) > limit("REF001", "coin"):
        return None  # or it is another loss, such as KTO's: that of guessing is not ln 2
    is_guess = end > coin - limit("PRF001", "margin") and view.updates >= _LONG
    return distance if is_guess and distance > limit("OPT005", "way") else None


def _tells_pairs_apart(view: HistoryView) -> bool:
    """Whether the columns of pairs say that chosen answers win."""
    margin, accuracy = view.late("margin"), view.late("accuracy")
    if margin is None or margin < limit("OPT005", "margin"):
        return False
    return accuracy is not None and accuracy >= limit("OPT005", "wins")


def _rise_at_speed(view: HistoryView) -> float | None:
    """How far the loss of a trained model rose while its steps were long; None if by chance."""
    is_of_text = view.learns_tokens and view.guessing is not None and not view.fresh
    losses, (before, after) = view.losses, _WINDOWS
    # the loss has to rise, too: so a few steps are enough
    fast = limit("OPT005", "adapted" if has_adapters(view) else "fast")
    if not is_of_text or usual_stride(view, "few") < fast:
        return None
    lowest, largest = math.inf, 0.0
    # a high rate tears what was learnt at once: a warm-up has two updates before that, or more
    for i in range(_FIRST, len(losses) - after + 1):
        lowest = min(lowest, statistics.fmean(losses[max(0, i - before) : i]))
        largest = max(largest, statistics.fmean(losses[i : i + after]) - lowest)
    error = 1.4826 * bend(losses) / math.sqrt(6) * math.sqrt(1 / _FIRST + 1 / after)
    return largest if largest > max(limit("OPT005", "rise"), 3 * error) else None


def was_trained(view: HistoryView) -> bool:
    """Whether the first model was trained: one that learns from rewards or from pairs always is."""
    is_post_training = view.facts.on_rewards or view.facts.on_preferences
    return (bool(is_post_training) or not view.fresh) and not has_adapters(view)


def has_adapters(view: HistoryView) -> bool:
    """Whether most weights are frozen, or were at first and are freed one after the other.

    Half of an adapter begins at 0 and moves by far more, and so does a new head.
    """
    shares = (view.facts.frozen, view.facts.frozen_at_first)
    return max(share or 0.0 for share in shares) > limit("OPT005", "adapters")


def usual_stride(view: HistoryView, least: str = "strides") -> float:
    """The median step, of the weights' size, as the ledger saw it; 0 if it saw few of them.

    Args:
        view: The history.
        least: The limit that says how many are enough.
    """
    mark = view.history.marks.get("stride")
    return 0.0 if mark is None or mark.n_seen < limit("OPT005", least) else mark.value
