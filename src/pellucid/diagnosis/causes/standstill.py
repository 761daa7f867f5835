"""Causes of too short steps: the model is, after all of its updates, still the one of the start."""

from __future__ import annotations

import math
import statistics

from pellucid.diagnosis.causes.bounds import steps_in_rates
from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.long_steps import has_adapters
from pellucid.diagnosis.causes.optimiser import heavy_decay
from pellucid.diagnosis.causes.probabilities import is_of_probabilities
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.logs.statistics import ends, noise

#: Steps before this update may be small on purpose.
_FIRST_UPDATES = 10
#: A smaller distance of two predictions in single precision may be rounding.
_ROUNDING = 3e-8
#: The first losses whose mean is compared with that of the last ones.
_FIRST = 5


def too_low(view: HistoryView) -> Candidate | None:
    """Full-size steps that hardly move the weights, and little learnt."""
    start = view.warm_up_end
    update = _usual_near_full_rate(view, start)
    effective = view.usual("update.effective_step", after=start)
    least = limit("OPT007", "update")
    learns_little = view.learnt is not None and view.learnt < limit("OPT007", "learnt")
    learns_little = learns_little or view.above_frequencies
    if update is None or update > least or not learns_little or view.updates < start + 20:
        return None
    if not view.fresh or not view.learns_tokens or (view.rose or 0) > limit("OPT005", "rise"):
        return None
    first = view.first("update.effective_step") if effective is None else effective
    if first is not None and first < limit("OPT007", "step"):
        return None
    likely = 0.9 if update < least / 2 else 0.7
    return suspect("OPT007", likely, update=update, effective=effective, rate=view.rate, step=start)


def straight_fall(view: HistoryView) -> Candidate | None:
    """Full steps along which the loss falls straight, far above the tokens' frequencies.

    To first order each step gains the same, rate times slope: the loss bends where steps are long
    enough to matter. How frequent tokens are is what a new model learns first.
    """
    losses = [loss for step, loss in view.history.losses if step > view.warm_up_end]
    n, unigram, start = len(losses) // 4, view.facts.unigram, view.start
    if not n or unigram is None or start is None or len(losses) < limit("OPT007", "straight"):
        return None
    if not view.fresh or not view.learns_tokens or not all(map(math.isfinite, losses)):
        return None
    if view.facts.betas is not None and not view.has_full_steps:
        return None  # of Adam, steps may be small for another reason
    if is_of_probabilities(view) or heavy_decay(view) is not None or _still_rises(view):
        return None
    if _lengthens(view):
        return None
    quarter_means = [statistics.fmean(losses[i * n : (i + 1) * n]) for i in range(4)]
    early, late = quarter_means[0] - quarter_means[1], quarter_means[2] - quarter_means[3]
    chance = limit("OPT007", "errors") * noise(losses) * math.sqrt(2 / n)
    part = (start - quarter_means[3]) / max(start - unigram, limit("OPT007", "learnt"))
    if not min(early, late) > chance or part > limit("OPT007", "part"):
        return None
    if late < limit("OPT007", "bend") * early:
        return None
    return suspect(
        "OPT007/straight",
        n=len(losses),
        part=part,
        slope=late / early,
        rate=view.rate,
        step=view.updates,
    )


def short_plain_steps(view: HistoryView) -> Candidate | None:
    """Steps of a trained model that follow the size of its gradients, at a rate meant for Adam.

    Adam divides by that size, which is about 1e-3 of a number's, and SGD does not. The loss falls
    beyond chance, so there is something to learn.
    """
    size = view.facts.vocab_size
    is_of_text = view.learns_tokens and size is not None and size > limit("GRD003", "classes")
    if view.fresh or view.facts.betas is not None or not is_of_text or has_adapters(view):
        return None
    strides, n_rates = _strides_at_full_rate(view), steps_in_rates(view)
    if len(strides) < limit("OPT005", "strides") or n_rates > limit("UPD008", "steps"):
        return None
    stride, fall = statistics.median(strides), _fall(view)
    if fall is None or fall < max(_least_fall(view), _chance(view)):
        return None
    if not 0 < stride < limit("OPT007", "plain"):
        return None
    return suspect(
        "OPT007/plain", stride=stride, n_rates=n_rates, rate=view.rate, step=view.updates
    )


def _lengthens(view: HistoryView) -> bool:
    """Whether texts become longer: later ones have other tokens, and more of them to learn from."""
    mark = view.history.marks.get("length")
    if mark is None or not mark.values:
        return False
    first, last = ends(tuple(enumerate(mark.values)))
    return last > limit("OPT007", "longer") * first


def _still_rises(view: HistoryView) -> bool:
    """Whether the rate rises in the last half of the training: a warm-up that goes on bends later.

    Then the loss falls ever faster, whatever the full rate will be.
    """
    rates = [rate for _, rate in view.history.rates]
    return bool(rates) and rates[-1] > rates[len(rates) // 2]


def _usual_near_full_rate(view: HistoryView, start: int) -> float | None:
    """The median update, of the weights' size, where the rate is half of its highest or more.

    The foot of a cosine says nothing of its peak: of a schedule with restarts, half of the looks
    fall on rates that are meant to be small. If no look fell near the peak, each step that the
    ledger saw is set against the rate of its own update. First steps may be small on purpose, as
    RAdam's, which has too few gradients yet (Liu et al. 2020, 1908.03265).

    Args:
        view: The history.
        start: The first update past warm-up.
    """
    rates = dict(view.history.rates)
    highest = max(rates.values(), default=0.0)
    near = [
        reading.value
        for reading in view.readings("update.ratio")
        if reading.step >= max(start, _FIRST_UPDATES)
        and rates.get(reading.step, highest) >= highest / 2
    ]
    if near:
        return statistics.median(near)
    scaled = _strides_at_full_rate(view, _FIRST_UPDATES)
    return statistics.median(scaled) if len(scaled) >= limit("OPT005", "strides") else None


def _strides_at_full_rate(view: HistoryView, first: int = 1) -> list[float]:
    """The steps that the ledger saw, from an update on, as they would be at the highest rate."""
    mark, rates = view.history.marks.get("stride"), dict(view.history.rates)
    highest = max(rates.values(), default=0.0)
    strides = zip(mark.steps, mark.values, strict=False) if mark else ()
    return [
        stride * highest / rates[step]
        for step, stride in strides
        if step >= first and rates.get(step)
    ]


def motionless_model(view: HistoryView) -> Candidate | None:
    """Updates that together cannot have changed the model; on texts, if the loss did not fall.

    The steps' lengths add up at most. A loss of few rows falls a little by chance: then the weights
    have to be all the stiller.
    """
    mark, distance = view.history.marks.get("stride"), view.distance
    if mark is None or distance is None or view.updates < limit("OPT007", "updates"):
        return None
    is_tuned = view.facts.on_rewards or view.facts.on_preferences
    if len(mark.values) < limit("OPT007", "updates"):
        # of few steps, those of a warm-up, the largest one counts for all
        strides = [*mark.values] if is_tuned else _strides_at_full_rate(view)
        if len(strides) < limit("OPT005", "few"):
            return None
        distance = distance if is_tuned else max(strides) * view.updates
    fall = None if is_tuned else _fall(view)
    if is_tuned:
        least = limit("OPT007", "moved")
    elif fall is None or fall >= max(_least_fall(view), _chance(view)):
        return None
    else:
        # a trained model is tuned with smaller steps than a new one is trained with
        name = "faint" if fall >= _least_fall(view) else "way" if view.fresh else "still"
        least = limit("OPT007", name)
    if distance < least:
        return suspect("OPT007/still", n=view.updates, moved=distance, rate=view.rate)
    bound = _farthest(view, distance)
    # a policy may gain with the small steps of Adam: its rewards tell
    is_judged = not is_tuned or (view.facts.on_rewards and view.facts.betas is None)
    if bound is None or not is_judged:
        return None
    if bound > limit("OPT007", "distance" if is_tuned else "unchanged"):
        return None
    return suspect("OPT007/policy", n=view.updates, bound=bound, rate=view.rate)


def short_of_reach(view: HistoryView) -> Candidate | None:
    """Steps of Adam that all together cannot lower the loss by much, however well they are aimed.

    To first order a step lowers the loss by its product with the gradient: at most the rate times
    the sum of the gradient's magnitudes, which is at most its length times the root of their count.
    Where adapters or a head learn alone, they are few.
    """
    rates, sizes = (
        [value for _, value in points] for points in (view.history.rates, view.history.grad_norms)
    )
    n_trained = view.facts.n_trained or 0
    is_known = n_trained > 0 and all(map(math.isfinite, [*view.losses, *sizes, *rates]))
    if not is_known or view.facts.betas is None or view.history.ranks is not None:
        return None
    first, fall = _first_loss(view), _fall(view)
    if not view.learns_tokens or len(sizes) < limit("OPT007", "norms"):
        return None
    if fall is None or fall >= max(_least_fall(view), _chance(view)):
        return None
    n_left = max(0, (view.facts.total_steps or 0) - view.updates)
    sum_of_rates = statistics.fmean(rates) * view.updates + max(rates) * n_left
    # the length of a step, in rates, is above 1 if an optimiser makes it longer than Adam's
    reach = sum_of_rates * max(1.0, steps_in_rates(view)) * max(sizes) * math.sqrt(n_trained)
    if reach > limit("OPT007", "reach") * first:
        return None
    n = view.updates + n_left
    return suspect("OPT007/reach", n=n, reach=reach, first=first, rate=view.rate, step=view.updates)


def _farthest(view: HistoryView, distance: float) -> float | None:
    """How far all updates can have moved the predictions, in nats; None if unknown.

    The roots of their KLs add up at most: to second order KL is half of a squared length. One
    measured KL gives all of them, because for small steps its root grows with the step, whose size
    the ledger sees.
    """
    mark = view.history.marks["stride"]
    strides = dict(zip(mark.steps, mark.values, strict=True))
    per_stride = [
        math.sqrt(max(_ROUNDING, reading.value)) / strides[reading.step]
        for reading in view.readings("update.kl_forward")
        if strides.get(reading.step)
    ]
    return (max(per_stride) * distance) ** 2 if per_stride else None


def _fall(view: HistoryView) -> float | None:
    """How far the loss fell, at the full rate and past the warm-up; None if that is unknown."""
    if view.end is None or view.updates < limit("OPT007", "long") or not view.history.rates:
        return None
    is_warm = view.warm_up_end < view.updates / 2
    return _first_loss(view) - view.end if is_warm and _first_loss(view) >= 0 else None


def _least_fall(view: HistoryView) -> float:
    return limit("OPT007", "fall") * min(1.0, _first_loss(view))


def _first_loss(view: HistoryView) -> float:
    return statistics.fmean(view.losses[:_FIRST] or [0.0])


def _chance(view: HistoryView) -> float:
    """How far the mean of the last losses is below that of the first ones by chance, at most."""
    n_last = max(_FIRST, len(view.losses) // 10)
    return limit("OPT007", "errors") * noise(view.losses) * math.sqrt(1 / _FIRST + 1 / n_last)


CAUSES: tuple[Cause, ...] = (
    too_low,
    straight_fall,
    short_plain_steps,
    motionless_model,
    short_of_reach,
)
