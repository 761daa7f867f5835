"""How well the model learns: by heart, no longer, not yet, or not at all."""

from __future__ import annotations

from itertools import pairwise

from pellucid.diagnosis.causes.candidate import Candidate, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.reference import has_teacher
from pellucid.diagnosis.finding import limit


def by_heart(view: HistoryView) -> Candidate | None:
    """A held-out loss that rises from its lowest while the training loss keeps falling."""
    points = view.history.held_out
    if len(points) < 3 or view.fall is None:
        return None
    step, best = min(points, key=lambda point: point[1])
    rise = points[-1][1] - best
    if rise < limit("FIT001", "rise") or points[-2][1] < best or view.fall < 0:
        return None
    is_large = rise > limit("FIT001", "much")
    return suspect(
        "FIT001",
        0.9 if is_large else 0.7,
        best=best,
        rise=rise,
        step=step,
        severity=None if is_large else "note",
    )


def stopped_falling(view: HistoryView) -> Candidate | None:
    """A flat end of a training that otherwise goes well; its cause is unknown."""
    fall, rates = view.fall, view.history.rates
    has_decayed = bool(rates) and rates[-1][1] < 0.5 * (view.rate or 0)
    is_short = view.updates < limit("FIT002", "updates")
    if fall is None or is_short or not view.goes_well or has_decayed or view.facts.on_rewards:
        return None
    if abs(fall) > limit("FIT002", "flat"):
        return None
    side = "below" if fall >= 0 else "above"
    return suspect(
        "FIT002", end=view.end or 0, fall=fall, change=abs(fall), side=side, step=view.updates
    )


def still_falling(view: HistoryView) -> Candidate | None:
    """A loss that was still falling when training ended."""
    n = len(view.losses) // 10
    if n < 10 or view.updates < limit("FIT003", "updates") or not view.goes_well:
        return None
    if view.facts.on_rewards:
        return None
    fall = (sum(view.losses[-2 * n : -n]) - sum(view.losses[-n:])) / n
    if fall < limit("FIT003", "falling"):
        return None
    return suspect("FIT003", fall=fall, step=view.updates)


def nothing_learnt(view: HistoryView) -> Candidate | None:
    """A loss that stays at its start for many updates."""
    learnt = view.learnt
    if learnt is None or learnt > limit("FIT004", "learnt") or view.facts.pretrained:
        return None
    guessing, start = view.guessing, view.start
    is_of_text = not view.readings("targets.classes")  # a new head knows no classes
    if guessing is None or (start is not None and start < guessing - 1):
        return None  # a trained model may know such text already
    if is_of_text and view.has_trained_norms:
        return None  # of another kind of text it may know a part
    if view.comes_down:
        return None
    if view.updates - view.warm_up_end < limit("FIT004", "updates"):
        return None
    if view.facts.on_preferences or view.facts.on_rewards:
        return None
    began = "" if start is None else f"; it began at {start:.4g}"
    return suspect("FIT004", end=view.end or 0, start=began, learnt=learnt, step=view.updates)


def stopped_stepping(view: HistoryView) -> Candidate | None:
    """Losses long after the last update with a reading, in a history with many readings."""
    read_steps = sorted({read.step for reads in view.history.signs.values() for read in reads})
    if len(read_steps) < 3 or not view.steps or view.history.stopped is not None:
        return None
    if view.history.marks:
        return None  # a ledger counts updates itself: under a budget readings may be far apart
    widest = max(next_step - step for step, next_step in pairwise(read_steps))
    last, last_step = read_steps[-1], view.steps[-1]
    if last_step - last < max(limit("OPT017", "updates"), limit("OPT017", "looks") * widest):
        return None
    return suspect("OPT017", last_step=last_step, silent=last_step - last, step=last)


def solved(view: HistoryView) -> Candidate | None:
    """A loss near 0, or a student that equals its teacher: nothing remains to learn."""
    end, distance = view.end, view.last("teacher.kl")
    if end is None or view.facts.on_preferences or view.facts.on_rewards:
        return None
    equals_teacher = distance is not None and distance < limit("FIT005", "loss")
    probe, start = view.first("loss.probe"), view.start
    held_out = view.history.held_out[-1][1] if view.history.held_out else None
    knows_by_heart = held_out is not None and held_out > end + limit("FIT005", "apart")
    # a cross-entropy below 0 is another fault, and a loss of another unit may begin near 0, as a
    # divergence from a teacher does, whatever the student knows
    least = limit("FIT005", "loss") * (1.0 if knows_by_heart else min(1.0, start or 1.0))
    near_zero = 0 <= end < least and not has_teacher(view)
    near_zero &= not view.readings("targets.variance")  # numbers have a unit of their own
    if view.updates < limit("FIT005", "updates") or not (equals_teacher or near_zero):
        return None
    is_part = probe is not None and start is not None and start < limit("FIT005", "part") * probe
    if is_part and not (knows_by_heart or equals_teacher):
        return None  # a loss that is divided is near 0 from the start
    return suspect(
        "FIT005",
        end=end,
        held_out="" if held_out is None else f"; on held-out text it is {held_out:.3g}",
        teacher=f" The teacher is {distance:.2g} nats per token away." if equals_teacher else "",
        step=view.updates,
        severity="warn" if knows_by_heart else None,
    )


CAUSES = (by_heart, stopped_falling, still_falling, nothing_learnt, stopped_stepping, solved)
