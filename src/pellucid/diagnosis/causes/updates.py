"""Causes in the loop, as the ledger of updates saw them: each mark is one that sound loops lack.

A mark counts the updates that showed something, of those that could have. Laplace's rule makes this
a likelihood: a few sightings under a tight budget weigh less than many.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from pellucid.diagnosis.causes.bounds import severity_of_factors
from pellucid.diagnosis.causes.candidate import (
    Candidate,
    Cause,
    likelihood,
    name_cause,
    suspect,
    suspect_mark,
)
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit
from pellucid.vitals import Mark, MarkName


@dataclass(frozen=True, slots=True)
class Sighting:
    """A cause that shows in a mark that sound loops lack, seen in a share of the updates.

    Args:
        key: the name of its sentences in `findings.toml`. They may name the updates that showed the
            mark (`times`) of those that could (`n`), their `share`, its median `value`, and of many
            `ranks` their number and the `weights` that it was seen in.
        mark: the mark's name; the least share is `share` in `codes.toml`.
    """

    key: str
    mark: MarkName

    @property
    def __name__(self) -> str:
        return name_cause(self.key)

    def __call__(self, view: HistoryView) -> Candidate | None:
        """The candidate if the mark was seen often enough; None otherwise."""
        mark = view.often(self.mark, limit(self.key.partition("/")[0], "share"))
        if mark is None:
            return None
        ranks = view.history.ranks
        return suspect_mark(
            self.key,
            mark,
            likelihood(mark),
            ranks=None if ranks is None else ranks.size,
            weights=view.weights_with(self.mark),
        )


def put_back(view: HistoryView) -> Candidate | None:
    """Weights that are those after an earlier update, bit for bit: all witnesses, or one."""
    mark = view.history.marks.get("restored", Mark())
    lost = {reading.step: reading.value for reading in view.readings("update.returned")}
    values, steps = [*lost.values()] or mark.values, [*lost] or mark.steps
    if not (times := max(mark.n_seen, len(lost))):
        return None
    rises = [_rise_at(view, step) > limit("UPD010", "rise") for step in steps]
    is_no_chance = times >= limit("UPD001", "times") or (bool(rises) and all(rises))
    is_start = bool(mark.steps) and mark.value == mark.steps[-1] - 1  # all updates are lost
    is_no_chance = is_no_chance or (is_start and not view.goes_well)
    return suspect(
        "UPD001",
        likelihood(Mark(n_seen=times)) if is_no_chance else 0.6,
        times=times,
        lost=statistics.median(values or [0.0]),
        step=min(steps, default=mark.first),
        severity=None if is_no_chance else "note",
    )


def written_over(view: HistoryView) -> Candidate | None:
    """Weights that something else than the optimiser moves, and not back."""
    mark = view.often("overwritten", limit("UPD010", "share"))
    if mark is not None and mark.value > limit("UPD010", "size"):
        return Sighting("UPD010", "overwritten")(view)
    mark, restored = (view.history.marks.get(name) for name in ("overwritten", "restored"))
    sizes = {reading.step: reading.value for reading in view.readings("update.written")}
    sizes |= {} if mark is None else dict(zip(mark.steps, mark.values, strict=True))
    far = sorted(step for step, size in sizes.items() if size > limit("UPD010", "jump"))
    rises = [rise for step in far if (rise := _rise_at(view, step)) > limit("UPD010", "rise")]
    if len(rises) < limit("UPD010", "times") or len(rises) < len(far) / 2:
        return None
    if restored is not None and restored.n_seen:
        return None  # these are earlier weights
    is_same = any(reading.value == 1 for reading in view.readings("update.written_again"))
    return suspect(
        "UPD001/again" if is_same else "UPD010/anew",
        0.97 if is_same else (len(rises) + 1) / (len(rises) + 2),  # bits are no chance
        times=len(far),
        value=max(sizes.values()),
        rise=statistics.median(rises),
        step=far[0],
    )


def pulled_to_start(view: HistoryView) -> Candidate | None:
    """Weights that are pulled to the first ones between updates.

    A pull by a share s leaves them the way of 1 / s updates at most. Of a trained model this may be
    meant: it keeps what it knew.
    """
    mark = view.often("pulled", limit("UPD010", "share"))
    if mark is None or mark.value * view.updates < limit("UPD010", "pulls"):
        return None
    severity = None if view.fresh or not view.goes_well else "note"
    likely, n_kept = likelihood(mark), 1 / mark.value
    return suspect_mark("UPD010/start", mark, likely, n_kept=n_kept, severity=severity)


def mostly_reverted(view: HistoryView) -> Candidate | None:
    """Steps that are put back for the most part; a mask of pruned weights does so by design."""
    mark = view.often("reverted", limit("UPD010", "share"))
    if mark is None or view.goes_well or view.updates < limit("UPD010", "long"):
        return None
    if view.often("undone", limit("UPD001", "share")) is not None:
        return None
    return suspect_mark("UPD010/reverted", mark, likelihood(mark))


def _rise_at(view: HistoryView, step: int) -> float:
    """How far the loss of an update, or of the next, is above those of the five before."""
    losses = dict(view.history.losses)
    before = [losses[s] for s in range(step - 5, step) if s in losses]
    after = [losses[s] for s in (step, step + 1) if s in losses]
    return max(after) - max(before) if len(before) > 2 and after else 0.0


def blank(view: HistoryView) -> Candidate | None:
    """Updates whose gradients are there, and all exactly 0; rewards without spread make such.

    So does a loss with a margin, once the margin is kept: then the loss is 0 too.
    """
    if view.facts.on_rewards or view.facts.on_preferences or view.first("answers.equal") == 1:
        return None  # answers to one prompt that are all one text cancel each other
    mark, losses = view.history.marks.get("blank"), dict(view.history.losses)
    steps = [] if mark is None else mark.steps
    if steps and view.start and all(losses.get(step) == 0 for step in steps):
        return None
    return Sighting("GRD002/updates", "blank")(view)


def swapped(view: HistoryView) -> Candidate | None:
    """Steps with those of an earlier update, or with others in a training that learns little.

    Of many ranks, each one's own gradients are no more than a part of the mean.
    """
    stale = view.often("stale", limit("UPD011", "stale"))
    if stale is not None and stale.n_seen >= limit("UPD011", "seen"):
        return suspect_mark("UPD011/stale", stale, likelihood(stale))
    mark = view.often("swapped", limit("UPD011", "share"))
    if mark is None or view.goes_well or view.history.ranks is not None:
        return None
    if mark.n_seen < limit("UPD011", "times") or abs(mark.value) > limit("UPD011", "cosine"):
        return None
    return Sighting("UPD011", "swapped")(view)


def no_movement(view: HistoryView) -> Candidate | None:
    """Steps that have gradients and a rate, and change nothing."""
    mark = view.often("unmoved", limit("UPD002", "share"))
    if mark is None:
        return None
    return suspect(
        "OPT002/history",
        likelihood(mark),
        clause="No matrix moves",
        ratio=0.0,
        place="every matrix",
        step=mark.first,
        severity="fatal",
    )


def coupled_decay(view: HistoryView) -> Candidate | None:
    """Weight decay in the gradient of Adam, as large as the gradient itself."""
    mark = view.often("pull", 0.5)
    if mark is None or mark.value < limit("UPD006", "pull"):
        return None
    # each step of Adam is as large as the rate, and nearly all of it may be decay
    drift, share = view.history.marks.get("drift"), mark.value / math.hypot(1, mark.value)
    way = 0.0 if drift is None else share * drift.value * view.updates
    harms = way > limit("UPD006", "way") or (view.rose or 0.0) > limit("UPD006", "rose")
    is_strong = mark.value > limit("UPD006", "strong") and harms
    return suspect(
        "UPD006",
        0.96 if is_strong else 0.8,
        pull=mark.value,
        way=way,
        decay=view.facts.weight_decay,
        step=mark.first,
        severity=None if is_strong else "note",
    )


def at_rest(view: HistoryView) -> Candidate | None:
    """A model with dropout that is trained in evaluation mode."""
    mark, dropout = view.often("resting", limit("UPD007", "share")), view.facts.dropout
    if mark is None or not dropout:
        return None
    # Hugging Face's trained models come in evaluation mode, and many fine-tune them like that; a
    # new module is in training mode until somebody calls eval()
    is_new = view.fresh and view.first("weights.trained") is not None
    first_calls = [
        r[0].step for id, r in view.history.signs.items() if id.startswith("call.") and r
    ]
    was_training = not view.facts.rests and min(first_calls, default=mark.first) < mark.first
    began_later = was_training or mark.first > limit("UPD007", "start")
    return suspect(
        "UPD007",
        likelihood(mark),
        dropout=dropout,
        step=mark.first,
        severity=None if began_later or is_new else "note",
    )


def lost_moments(view: HistoryView) -> Candidate | None:
    """An optimiser that remembers fewer updates than at the update before."""
    mark = view.history.marks.get("reset")
    if mark is None or not mark.n_seen:
        return None
    return suspect(
        "OPT015/seen",
        times=mark.n_seen,
        age=mark.value,
        step=mark.first,
        severity="note" if view.goes_well and mark.n_seen == 1 else None,
    )


def parts_not_divided(view: HistoryView) -> Candidate | None:
    """Parts of an update that add up to more than the gradient of a mean."""
    parts, outputs = view.history.marks.get("parts"), view.history.marks.get("outputs")
    # a loss that is lost at once leaves few gradients that are numbers
    least = 1 if view.history.stopped is not None else limit("UPD003", "times")
    if parts is None or outputs is None or outputs.n_seen < least:
        return None
    # each mean cross-entropy has at most 2 at the logits, and one of no tokens has no such bound
    is_of_tokens = view.start is not None and view.start > limit("LOS007", "nats")
    n, most = parts.value, limit("LOS007", "bound")
    weight = view.first("targets.weight")
    if weight is not None and weight * n < limit("LOS007", "divided"):
        return None  # each part is divided: another term of the loss adds the rest
    discarded = view.history.marks.get("discarded")
    if discarded is not None and discarded.n_seen:
        return None  # the parts do not add up
    if view.facts.on_preferences or view.facts.on_rewards:
        return None  # a sum over tokens, and a second term, weigh more
    if view.facts.optimiser == "LBFGS":
        return None  # it asks for the same loss several times in a step
    if n < 2 or not is_of_tokens or not most < outputs.value <= most * n:
        return None
    severity = severity_of_factors(view)
    return suspect(
        "LOS007/parts", total=outputs.value, parts=n, step=outputs.first, severity=severity
    )


def thrown_away(view: HistoryView) -> Candidate | None:
    """Backward passes whose gradients are cleared before a step uses them."""
    mark = view.history.marks.get("discarded")
    if mark is None or mark.share < limit("UPD009", "share"):
        return None
    in_all = round(sum(mark.values))
    # gradients of several losses may be cleared one by one, and a step use all of them
    marks = filter(None, map(view.history.marks.get, ("swapped", "stale")))
    least = limit("UPD009", "others" if any(step_mark.n_seen for step_mark in marks) else "each")
    if mark.n_seen < 2 or mark.value < least or in_all < limit("UPD009", "all"):
        return None
    return suspect("UPD009", times=in_all, each=mark.value, n=mark.n_seen, step=mark.first)


CAUSES: tuple[Cause, ...] = (
    put_back,
    Sighting("UPD001/undone", "undone"),
    Sighting("UPD002", "bare"),
    Sighting("UPD003", "repeated"),
    written_over,
    pulled_to_start,
    mostly_reverted,
    blank,
    swapped,
    no_movement,
    Sighting("NUM001/rounded", "rounded"),
    coupled_decay,
    at_rest,
    lost_moments,
    parts_not_divided,
    thrown_away,
)
