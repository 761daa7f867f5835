"""Causes in rows that come again, in one batch or in a few, and in ids that do not."""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.logs.statistics import bend
from pellucid.vitals import Mark

#: In a log with one row for so many updates, so many of the last rows are the end.
_COARSE, _LAST_ROWS = 5, 2
#: Optimisers that compare gradients of two steps, so that both have to be of the same rows.
_OF_FULL_BATCHES = ("LBFGS", "Rprop")


def _may_repeat(view: HistoryView) -> bool:
    return view.facts.optimiser not in _OF_FULL_BATCHES


def same_batch(view: HistoryView) -> Candidate | None:
    """A batch whose rows are those of the batch before, update after update.

    If they come in another order, a loader does draw anew: there are no other rows.
    """
    mark = view.often("same_rows", limit("DAT001", "share"))
    if mark is None:
        return None
    key = "DAT001/seen" if all(mark.values) else "DAT001/few"
    # drawn answers are learnt from in several passes (PPO), until others are drawn
    is_drawn_anew = view.facts.on_rewards and mark.share < 1
    is_meant = is_drawn_anew or not _may_repeat(view)
    return suspect_mark(key, mark, severity="note" if is_meant else None)


def one_batch_by_its_loss(view: HistoryView) -> Candidate | None:
    """A loss that falls at every update for long, without the noise that it had: its batch stays.

    Losses of new batches differ by their texts, also where they fall fast.
    """
    losses, least = view.losses, int(limit("DAT001", "falls"))
    start = len(losses)
    while start > 1 and losses[start - 1] < losses[start - 2]:
        start -= 1
    n = len(losses) - start
    if not _may_repeat(view):
        return None
    before, after = losses[max(0, start - least) : start], losses[start:]
    if n < least or len(before) < least:
        return None
    noise = [bend(part) for part in (before, after)]
    n_rises = sum(b > a for a, b in pairwise(before))
    if n_rises < len(before) / 4 or noise[1] > limit("DAT001", "noise") * noise[0]:
        return None
    return suspect("DAT001/falling", n=n, step=view.steps[start])


def other_vocabularies(view: HistoryView) -> Candidate | None:
    """Batches whose frequent ids are frequent in no other batch.

    A loss also falls to that of a vocabulary whose unused ids are known. Answers to one prompt make
    the halves of a batch alike, and a policy writes other words as it learns.
    """
    if view.facts.on_rewards or view.facts.on_preferences:
        return None
    mark = view.often("unlike", limit("DAT031", "share"))
    if mark is None or mark.n_seen < limit("DAT031", "batches"):
        return None
    least = limit("DAT031", "more" if mark.share == 1 else "many")
    if view.goes_well and mark.n_seen < least:
        return None
    return suspect_mark("DAT031", mark) if view.updates >= limit("DAT031", "few") else None


def few_rows(view: HistoryView) -> Candidate | None:
    """Rows that each came many times before."""
    if (candidate := _short_epoch(view)) is not None:
        return candidate
    mark, epoch = (view.history.marks.get(name) for name in ("known_rows", "epoch"))
    if mark is None or mark.n_seen < limit("UPD003", "times"):
        return None
    if view.facts.has_prompts and (epoch is None or not epoch.n_seen):
        return None  # parts of prompts may be those of many other rows
    if (candidate := _cycle(view, mark)) is not None:
        return candidate
    repetitions = statistics.median(mark.values[-5:])
    # rows came as often in the updates that were not looked at
    times = repetitions * max(1.0, mark.steps[-1] / mark.n_seeable)
    if times >= limit("DAT021", "times") and repetitions >= limit("DAT021", "seen"):
        is_meant = not _may_repeat(view) or not (view.fresh or _knows_by_heart(view))
        severity = "note" if is_meant else None
        return suspect("DAT021", times=times, step=mark.first, severity=severity)
    if not (_may_repeat(view) and _knows_by_heart(view)):
        return None
    few = limit("DAT021", "few")
    return _as_often_later(view, mark, "DAT021/heart", repetitions, few, end=view.end)


def _short_epoch(view: HistoryView) -> Candidate | None:
    """Texts so few that some updates read all of them, also where a trained model learns them.

    Classes are often learnt from a few rows.
    """
    epoch, length = (view.history.marks.get(name) for name in ("epoch", "length"))
    n_kinds = view.facts.vocab_size or 0
    is_of_text = view.learns_tokens and n_kinds > limit("GRD003", "classes")
    if epoch is None or not epoch.n_seen or not (_may_repeat(view) and is_of_text):
        return None
    if length is None or epoch.steps[-1:] != length.steps[-1:]:
        return None  # new rows came again, as from a policy that writes anew
    n_updates = epoch.values[-1]
    times = view.updates / n_updates if 0 < n_updates <= limit("DAT021", "epoch") else 0.0
    if times < limit("DAT021", "times"):
        return None
    return suspect("DAT021/epoch", epoch=n_updates, times=times, of=view.updates, step=epoch.first)


def _as_often_later(
    view: HistoryView,
    mark: Mark,
    key: str,
    repetitions: float,
    least: float,
    **further: Any,
) -> Candidate | None:
    """Rows that came again, if they come as often in all updates as in those that were looked at.

    Args:
        view: The history.
        mark: Of rows that are known.
        key: Of the finding.
        repetitions: How often a row had come before.
        least: As many are needed.
        further: Other values of the finding.
    """
    times = repetitions * view.updates / mark.n_seeable
    if times < limit("DAT021", "times") or repetitions < least:
        return None
    return suspect(
        key,
        repetitions=repetitions,
        times=times,
        n=mark.n_seeable,
        of=view.updates,
        step=mark.first,
        **further,
    )


def _knows_by_heart(view: HistoryView) -> bool:
    """Whether a loss over tokens began high, and ended lower than any text allows."""
    start, end = view.start, view.end
    if not view.learns_tokens or start is None or end is None:
        return False
    return start > limit("DAT021", "unknown") and end < limit("DAT021", "heart")


def _cycle(view: HistoryView, mark: Mark) -> Candidate | None:
    """Batches that come again in turn: all rows of the last ones had come equally often."""
    period = mark.first - 1
    latest = mark.values[-max(int(limit("DAT021", "turns")), period) :]
    is_whole = all(value >= 1 and value == round(value) for value in latest)
    is_in_turn = mark.n_seen >= limit("DAT021", "turns") and mark.n_seen >= period > 1
    # where each batch is used twice in a row, every second one is new
    is_in_turn = is_in_turn and mark.n_seen >= mark.n_seeable - period
    times = view.updates / max(1, period)
    if not (is_whole and is_in_turn) or times < limit("DAT021", "times"):
        return None
    severity = None if view.fresh or _knows_by_heart(view) else "note"
    return suspect("DAT021/cycle", n=period, times=times, step=mark.first, severity=severity)


def few_pairs(view: HistoryView) -> Candidate | None:
    """Pairs of answers that came again and again while the ledger looked."""
    mark = view.history.marks.get("known_rows")
    if mark is None or mark.n_seen < limit("UPD003", "times") or not view.facts.on_preferences:
        return None
    repetitions, heart = statistics.median(mark.values[-3:]), limit("DAT021", "heart")
    is_known = (view.end is not None and view.end < heart) or _ends_below(view, heart)
    least = limit("DAT021", "few" if is_known else "pairs")
    candidate = _as_often_later(view, mark, "DAT021/pairs", repetitions, least)
    return candidate if candidate is None or is_known else replace(candidate, severity="note")


def _ends_below(view: HistoryView, most: float) -> bool:
    """Whether the last losses are below a number, in a log with one row for many updates.

    Its last five rows may be all of the training.
    """
    rows = list(zip(view.steps, view.losses, strict=True))[-_LAST_ROWS:]
    is_coarse = len(rows) == _LAST_ROWS and rows[-1][0] - rows[-2][0] >= _COARSE
    return is_coarse and max(loss for _, loss in rows) < most


def has_one_length(view: HistoryView) -> bool:
    """Whether rows stay as long, as far as was seen: batches of equally long texts do not."""
    mark = view.history.marks.get("length")
    is_equal = [a == b for a, b in pairwise(mark.values)] if mark is not None else []
    return not is_equal or statistics.fmean(is_equal) > limit("DAT015", "same")


def copied_rows(view: HistoryView) -> Candidate | None:
    """Batches that are one row again and again; or a first batch with many copies, a note."""
    mark = view.often("copies", limit("DAT002", "often"))
    is_policy = view.facts.on_rewards or view.facts.on_preferences
    if mark is not None and mark.value >= limit("DAT002", "all") and not is_policy:
        return suspect_mark("DAT002/always", mark)
    repeated = None if is_policy else view.often("one_row", limit("DAT002", "one"))
    is_long = repeated is not None and repeated.n_seen >= limit("DAT002", "updates")
    # a batch that is one row is another fault
    if repeated is not None and is_long and repeated.value < limit("DAT002", "all"):
        return suspect_mark("DAT002/one", repeated, severity="warn")
    return Comparison("DAT002/call", "batch.copies", (">=", "half"), n=1)(view)


CAUSES: tuple[Cause, ...] = (
    copied_rows,
    same_batch,
    one_batch_by_its_loss,
    other_vocabularies,
    few_rows,
    few_pairs,
    Comparison(
        "DAT001/history",
        "batch.repeats",
        (">=", 2),
        n=1,
        further={"loss": lambda view: view.end},
        condition=_may_repeat,
    ),
)
