"""How well it learns: by heart, not any more, not yet, not at all."""

from __future__ import annotations

from itertools import pairwise

from pellucid.diagnosis.causes.candidate import Candidate
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def by_heart(view: HistoryView) -> Candidate | None:
    """Held-out loss that rises from its lowest while the training loss goes on falling."""
    held = view.history.held_out
    if len(held) < 3 or view.fall is None:
        return None
    step, best = min(held, key=lambda point: point[1])
    rise = held[-1][1] - best
    if rise < limit("FIT001", "rise") or held[-2][1] < best or view.fall < 0:
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


def stopped_falling(view: HistoryView) -> Candidate | None:
    """A flat end of a training that otherwise goes well: more cannot be said."""
    fall, updates = view.fall, limit("FIT002", "updates")
    rates = view.history.rates
    decayed = bool(rates) and rates[-1][1] < 0.5 * (view.rate or 0)
    if fall is None or view.updates < updates or not view.goes_well or decayed:
        return None
    if abs(fall) > limit("FIT002", "flat"):
        return None
    return Candidate(
        code="FIT002",
        likely=0.4,
        what=f"The loss is {view.end or 0:.3g} and has stood still for a third of the way.",
        clues=clue("FIT002", "fall of the last third", fall),
        step=view.updates,
    )


def still_falling(view: HistoryView) -> Candidate | None:
    """A loss on its way down when training ended."""
    n = len(view.losses) // 10
    if n < 10 or view.updates < limit("FIT003", "updates") or not view.goes_well:
        return None
    falls = (sum(view.losses[-2 * n : -n]) - sum(view.losses[-n:])) / n
    if falls < limit("FIT003", "falling"):
        return None
    return Candidate(
        code="FIT003",
        likely=0.6,
        what=f"Over the last tenth the loss fell by {falls:.2g}.",
        clues=clue("FIT003", "fall of the last tenth", falls),
        step=view.updates,
    )


def nothing_learnt(view: HistoryView) -> Candidate | None:
    """A loss that is where it began after many updates."""
    learnt = view.learnt
    if learnt is None or learnt > limit("FIT004", "learnt") or view.facts.pretrained:
        return None
    guessing, start = view.guessing, view.start
    if guessing is None or (start is not None and start < guessing - 1):
        return None  # it was trained before, as far as is known, and may know such text
    if view.updates - view.warm_up_end < limit("FIT004", "updates"):
        return None
    if view.facts.objective in ("DPO", "PolicyGradient"):
        return None
    return Candidate(
        code="FIT004",
        likely=0.35,
        what=f"After {view.updates} updates the loss is {view.end or 0:.4g}; it began at "
        f"{view.start or 0:.4g}.",
        clues=clue("FIT004", "fall of the loss", learnt),
        step=view.updates,
    )


def stopped_stepping(view: HistoryView) -> Candidate | None:
    """Losses that go on long after the last update that was looked at, of looks that were many."""
    read_steps = sorted({read.step for reads in view.history.signs.values() for read in reads})
    if len(read_steps) < 3 or not view.steps or view.history.stopped is not None:
        return None
    widest = max(next_step - step for step, next_step in pairwise(read_steps))
    silent = view.steps[-1] - read_steps[-1]
    if silent < max(limit("OPT017", "updates"), limit("OPT017", "looks") * widest):
        return None
    return Candidate(
        code="OPT017",
        likely=0.8,
        what=f"The last update that was seen is {read_steps[-1]}, and losses go on to "
        f"{view.steps[-1]}: the optimiser no longer steps, or it is no longer watched.",
        clues=clue("OPT017", "losses since the last update", silent),
        where="the training loop",
        step=read_steps[-1],
        severity="fault",
    )


def solved(view: HistoryView) -> Candidate | None:
    """A loss near 0, or a teacher that is met: nothing is left from which to learn."""
    end, distance = view.end, view.last("teacher.kl")
    if end is None or view.facts.objective in ("DPO", "PolicyGradient"):
        return None
    met = distance is not None and distance < limit("FIT005", "loss")
    near_zero = 0 <= end < limit("FIT005", "loss")  # a cross-entropy below 0 is another fault
    if view.updates < limit("FIT005", "updates") or not (met or near_zero):
        return None
    held = view.history.held_out[-1][1] if view.history.held_out else None
    by_heart = held is not None and held > end + limit("FIT005", "apart")
    beside = "" if held is None else f"; on held-out text it is {held:.3g}"
    return Candidate(
        code="FIT005",
        likely=0.6,
        what=f"The loss is {end:.3g} at update {view.updates}{beside}."
        + (f" The teacher is {distance:.2g} nats a token away." if met else ""),
        clues=clue("FIT005", "loss", end),
        step=view.updates,
        severity="warn" if by_heart else None,
    )


CAUSES = (by_heart, stopped_falling, still_falling, nothing_learnt, stopped_stepping, solved)
