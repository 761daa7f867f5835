"""How well it learns: by heart, not any more, not yet, not at all.

Comes in: the course of a training. Goes out: suspects. They do not know one another.
"""

from __future__ import annotations

from itertools import pairwise

from pellucid.diagnosis.causes.candidate import Candidate
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def by_heart(course: HistoryView) -> Candidate | None:
    """Held-out loss that rises from its lowest while the training loss goes on falling."""
    held = course.history.held_out
    if len(held) < 3 or course.fall is None:
        return None
    step, best = min(held, key=lambda point: point[1])
    rise = held[-1][1] - best
    if rise < limit("FIT001", "rise") or held[-2][1] < best or course.fall < 0:
        return None
    much = rise > limit("FIT001", "much")
    return Candidate(
        code="FIT001",
        likely=0.9 if much else 0.7,
        what=f"The held-out loss was lowest ({best:.3g}) at update {step}, and is {rise:.2g} "
        "higher now; the training loss went on falling.",
        clues=clue("FIT001", "held-out loss above its lowest", rise),
        where="held-out text",
        step=step,
        severity=None if much else "note",
    )


def stopped_falling(course: HistoryView) -> Candidate | None:
    """A flat end of a training that otherwise goes well: more cannot be said."""
    fall, updates = course.fall, limit("FIT002", "updates")
    rates = course.history.rates
    decayed = bool(rates) and rates[-1][1] < 0.5 * (course.rate or 0)
    if fall is None or course.updates < updates or not course.goes_well or decayed:
        return None
    if abs(fall) > limit("FIT002", "flat"):
        return None
    return Candidate(
        code="FIT002",
        likely=0.4,
        what=f"The loss is {course.end or 0:.3g} and has stood still for a third of the way.",
        clues=clue("FIT002", "fall of the last third", fall),
        step=course.updates,
    )


def still_falling(course: HistoryView) -> Candidate | None:
    """A loss on its way down when training ended."""
    n = len(course.losses) // 10
    if n < 10 or course.updates < limit("FIT003", "updates") or not course.goes_well:
        return None
    falls = (sum(course.losses[-2 * n : -n]) - sum(course.losses[-n:])) / n
    if falls < limit("FIT003", "falling"):
        return None
    return Candidate(
        code="FIT003",
        likely=0.6,
        what=f"Over the last tenth the loss fell by {falls:.2g}.",
        clues=clue("FIT003", "fall of the last tenth", falls),
        step=course.updates,
    )


def nothing_learnt(course: HistoryView) -> Candidate | None:
    """A loss that is where it began after many updates."""
    learnt = course.learnt
    if learnt is None or learnt > limit("FIT004", "learnt") or course.facts.pretrained:
        return None
    guessing, start = course.guessing, course.start
    if guessing is None or (start is not None and start < guessing - 1):
        return None  # it was trained before, as far as is known, and may know such text
    if course.updates - course.settled < limit("FIT004", "updates"):
        return None
    if course.facts.objective in ("DPO", "PolicyGradient"):
        return None
    return Candidate(
        code="FIT004",
        likely=0.35,
        what=f"After {course.updates} updates the loss is {course.end or 0:.4g}; it began at "
        f"{course.start or 0:.4g}.",
        clues=clue("FIT004", "fall of the loss", learnt),
        step=course.updates,
    )


def stopped_stepping(course: HistoryView) -> Candidate | None:
    """Losses that go on long after the last update that was looked at, of looks that were many."""
    looks = sorted({read.step for reads in course.history.signs.values() for read in reads})
    if len(looks) < 3 or not course.steps or course.history.stopped is not None:
        return None
    widest = max(later - earlier for earlier, later in pairwise(looks))
    silent = course.steps[-1] - looks[-1]
    if silent < max(limit("OPT017", "updates"), limit("OPT017", "looks") * widest):
        return None
    return Candidate(
        code="OPT017",
        likely=0.8,
        what=f"The last update that was seen is {looks[-1]}, and losses go on to "
        f"{course.steps[-1]}: the optimiser no longer steps, or it is no longer watched.",
        clues=clue("OPT017", "losses since the last update", silent),
        where="the training loop",
        step=looks[-1],
        severity="fault",
    )


def solved(course: HistoryView) -> Candidate | None:
    """A loss near 0, or a teacher that is met: nothing is left from which to learn."""
    end, apart = course.end, course.last("teacher.kl")
    if end is None or course.facts.objective in ("DPO", "PolicyGradient"):
        return None
    met = apart is not None and apart < limit("FIT005", "loss")
    near_zero = 0 <= end < limit("FIT005", "loss")  # a cross-entropy below 0 is another fault
    if course.updates < limit("FIT005", "updates") or not (met or near_zero):
        return None
    held = course.history.held_out[-1][1] if course.history.held_out else None
    by_heart = held is not None and held > end + limit("FIT005", "apart")
    beside = "" if held is None else f"; on held-out text it is {held:.3g}"
    return Candidate(
        code="FIT005",
        likely=0.6,
        what=f"The loss is {end:.3g} at update {course.updates}{beside}."
        + (f" The teacher is {apart:.2g} nats a token away." if met else ""),
        clues=clue("FIT005", "loss", end),
        step=course.updates,
        severity="warn" if by_heart else None,
    )


CAUSES = (by_heart, stopped_falling, still_falling, nothing_learnt, stopped_stepping, solved)
