"""Causes in what a loss over pairs compares, as its first gradient shows."""

from __future__ import annotations

import math

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit

#: The loss of guessing between two.
COIN = math.log(2)
#: First losses of two batches are one constant if they differ by less.
_STEADY = 0.03
#: The least number of pairs of a first update.
_FEW_PAIRS = 4
#: So many terms a pair has in some losses, each of ln 2 at first.
_TERMS = 2


def swapped_answers(view: HistoryView) -> Candidate | None:
    """Pairs whose raised answer comes second, or is the one that the model would not write.

    The first rows show both. Tools put chosen answers first; a loop that does not is sound if the
    model finds its raised answers no stranger.
    """
    first, n = view.first("answers.first"), view.first("answers.pairs")
    stranger, gap = view.first("answers.stranger"), view.first("answers.gap") or 0.0
    if first is None or n is None or not view.facts.on_preferences:
        return None
    is_strange = stranger is not None and stranger >= limit("PRF004", "stranger")
    if is_strange and gap >= limit("PRF004", "gap"):
        return suspect("PRF004/stranger", share=stranger, gap=gap, n=n, step=0)
    if first > 1 - limit("PRF004", "stranger") or gap < -limit("PRF004", "gap"):
        return None
    return suspect("PRF004/order", first=first, n=n, step=0)


def opposite_rewards(view: HistoryView) -> tuple[float, float] | None:
    """Rewards of x and -x in the row of the first update; None if they are something else.

    The policy is its reference then: log P of one answer less that of the other is left.
    """
    columns = [view.history.measures.get(kind, ()) for kind in ("chosen_reward", "rejected_reward")]
    if any(not points or points[0][0] > 1 for points in columns):
        return None
    chosen, rejected = (points[0][1] for points in columns)
    is_opposite = abs(chosen + rejected) < limit("REF001", "opposite") * abs(chosen)
    return (chosen, rejected) if is_opposite and abs(chosen) > limit("REF001", "crossed") else None


def _is_its_reference(view: HistoryView) -> bool:
    """Whether both rewards are 0 in the row of the first update: then no margin differs from 0."""
    columns = [view.history.measures.get(kind, ()) for kind in ("chosen_reward", "rejected_reward")]
    if any(not points or points[0][0] > 1 for points in columns):
        return False
    return max(abs(points[0][1]) for points in columns) < limit("REF001", "none")


def crossed_sides(view: HistoryView) -> Candidate | None:
    """Each side of the pairs has the other side's reference: one of the two was exchanged."""
    rewards = opposite_rewards(view)
    if rewards is None:
        return None
    first = view.first("answers.first")
    is_policy = first is not None and first <= 1 - limit("PRF004", "stranger")
    key = "PRF004/crossed" if is_policy else "REF001/crossed"
    return suspect(key, chosen=rewards[0], rejected=rewards[1], step=0)


def crossed_pairs(view: HistoryView) -> Candidate | None:
    """Answers that are compared with answers to other prompts, and raised with their own rivals."""
    split, n = view.first("answers.split"), view.first("answers.pairs")
    if split is None or split < limit("PRF009", "split") or not view.facts.on_preferences:
        return None
    return suspect("PRF009", share=split, n=n, step=0)


def two_units(view: HistoryView) -> Candidate | None:
    """Pairs that set the sum of one answer's log P against the mean of the other's."""
    if not view.first("answers.units") or not view.facts.on_preferences:
        return None
    return suspect("PRF010", value=1.0, step=0)


def _has_pairs(view: HistoryView) -> bool:
    """Whether rows go in pairs: a regression raises some rows and lowers others, too."""
    is_paired = view.first("answers.paired") or view.first("answers.matched")
    return view.facts.on_preferences and bool(is_paired)


def told_by_length(view: HistoryView) -> Candidate | None:
    """Pairs whose chosen answer is always the longer one, or always the shorter one.

    It is a note: pairs are made so on purpose too, and a model that tells them apart may read more
    than lengths.
    """
    longer, n = view.first("answers.longer"), view.first("answers.pairs")
    if longer is None or n is None or n < limit("PRF008", "pairs"):
        return None
    share = max(longer, 1 - longer)
    if not _has_pairs(view) or share < limit("PRF008", "share"):
        return None
    return suspect(
        "PRF008",
        share=share,
        n=n,
        side="chosen" if longer >= share else "rejected",
        loss=view.end,
        step=0,
    )


def answers_without_end(view: HistoryView) -> Candidate | None:
    """Texts of pairs that are cut off at one length, most of them."""
    share = view.first("answers.cut_off")
    if share is None or share <= limit("DAT019", "cut") or not view.facts.on_preferences:
        return None
    return suspect("DAT019/pairs", value=share, step=0)


def unbalanced_sides(view: HistoryView) -> Candidate | None:
    """Answers of one kind that have nearly all of the weight, in a loss of single answers."""
    balance = view.first("answers.balance")
    if balance is None or balance <= 0:
        return None
    times = max(balance, 1 / balance)
    if times <= limit("PRF011", "times"):
        return None
    side = "wanted" if balance > 1 else "unwanted"
    return suspect("PRF011", times=times, side=side, step=0)


def one_text(view: HistoryView) -> Candidate | None:
    """Pairs whose rejected answers are all one text: to avoid it says nothing of good answers."""
    share, n = view.first("answers.same_rejected"), view.first("answers.pairs")
    if share is None or n is None or not _has_pairs(view):
        return None
    if share < limit("PRF006", "same") or (view.first("answers.same_chosen") or 0.0) >= share:
        return None
    return suspect("PRF006/same", share=share, n=n, step=0)


def _least_margin(loss: float) -> float:
    """The least mean margin that a mean of -log sigmoid(margin) can have (Jensen)."""
    return -math.log(math.expm1(max(loss, 1e-9)))


def decided_pairs(view: HistoryView) -> Candidate | None:
    """Pairs that weigh differently before the first update, although no margin can differ yet."""
    uneven, weight = view.first("answers.uneven"), view.first("answers.weight")
    explained = view.first("answers.explained")
    if uneven is None or not view.facts.on_preferences or not view.first("answers.paired"):
        return None
    start = view.start or COIN
    is_off = abs(start - COIN) > limit("REF001", "coin") + _loss_by_dropout(view, uneven)
    # dropout makes pairs differ in weight, by chance, and hardly moves their mean loss
    is_ordered = explained is not None and explained >= limit("REF001", "explained")
    is_known = explained is not None and (is_off or is_ordered)
    least = limit("REF001", "shifted" if is_known else "uneven")
    if uneven <= least or _is_its_reference(view):
        return None
    is_open = limit("REF001", "decided") < start < limit("REF001", "wrong")
    # -log sigmoid(beta z) weighs all pairs together by beta at most, and IPO's square by more
    is_bounded = weight is not None and weight <= limit("REF001", "weight")
    # a square like IPO's costs the same for all pairs at first, whatever their lengths weigh
    is_constant = len(view.losses) > 1 and math.isclose(*view.losses[:2], rel_tol=_STEADY)
    # all weights are known, and no loss without a reference has them in this order
    is_foreign = explained is not None and explained < limit("REF001", "explained")
    margins = view.measure("margin")
    # a mean of -log sigmoid(z) is least where all z are equal: so small a loss has larger margins
    if margins and start < limit("REF001", "decided") and _least_margin(start) > 2 * margins[0]:
        return None  # the loss weighs its pairs itself
    if is_foreign and _weighs_itself(view, start):
        return None
    if is_foreign and is_off and not is_constant and is_bounded:
        return suspect("REF001/margins", uneven=uneven, loss=start, explained=explained, step=0)
    # chance alone, such as dropout, puts weights in no order
    if explained is not None and not is_foreign and start < limit("REF001", "wrong"):
        return suspect("UNK002/reference", uneven=uneven, explained=explained, step=0)
    if uneven <= limit("REF001", "uneven"):
        return None
    severity = "note" if is_open or is_constant or not is_bounded else "warn"
    return suspect("REF001/pairs", uneven=uneven, loss=start, step=0, severity=severity)


def _loss_by_dropout(view: HistoryView, uneven: float) -> float:
    """How far dropout alone may move the mean of -log sigmoid(z) from ln 2, for margins of chance.

    Near 0 a weight is 1 - z / 2 of the mean one, so z deviates by twice what weights do, and the
    loss moves by half the mean of z, in 3 standard errors, and an eighth of its variance.
    """
    deviation, n = 2 * uneven, view.first("answers.pairs") or _FEW_PAIRS
    if not view.facts.dropout:
        return 0.0
    return limit("PRF004", "errors") * deviation / math.sqrt(n) / 2 + deviation**2 / 8


def _weighs_itself(view: HistoryView, start: float) -> bool:
    """Whether weights of the loop's own, times -log sigmoid(0), explain the first loss.

    Pairs of margin 0 with weights w have a loss of ln 2 mean(w), and the gradient raises answers
    by beta mean(w) / 2 in all. So both give beta, which is a round number as people choose it.
    """
    weight = view.first("answers.weight")
    if not weight or start <= 0:
        return False
    beta = 2 * COIN * weight / start
    half_digit = 10 ** math.floor(math.log10(beta)) / 2
    rounded = round(beta / half_digit) * half_digit  # 0.1 or 0.25, and not 0.076
    return math.isclose(beta, rounded, rel_tol=limit("REF001", "round"))


def turned_pairs(view: HistoryView) -> Candidate | None:
    """A loss that begins at -ln 2 and falls: two answers that are still equal cost ln 2.

    If the gradient weighs rows in pairs, as that loss does, any fall is enough.
    """
    early = view.losses[:3]
    if len(early) < 3 or view.end is None or view.steps[0] > 2:
        return None
    if view.first("answers.paired") and not view.facts.maximizes:
        # dropout moves the first losses of a few pairs
        is_near_coin = abs(sum(early) / 3 + COIN) < limit("LOS009", "paired")
        fall = 0.0
    else:
        is_near_coin = all(abs(x + COIN) < limit("LOS009", "coin") for x in early[:2])
        fall = limit("LOS009", "fall")
    if not is_near_coin or view.end >= early[0] - fall:
        return None
    return suspect("LOS009/pairs", first=early[0], last=view.end, step=view.steps[0])


def summed_pairs(view: HistoryView) -> Candidate | None:
    """A first loss that is a multiple of ln 2, with a margin of 0."""
    margins = view.measure("margin")
    if not margins or not view.losses or abs(margins[0]) > limit("PRF001", "margin"):
        return None
    first, margin = view.losses[0], margins[0]
    # -log sigmoid(z) is ln 2 - z / 2 near 0; the square of IPO begins at 1 / (2 beta)^2, which is
    # 0.2% off a multiple of ln 2 for some betas, and falls otherwise
    ratio = first / (COIN - margin / 2)
    parts, tolerance = round(ratio), limit("LOS007", "coin") + abs(margin) / 8
    if not 2 <= parts <= limit("LOS007", "parts") or abs(ratio / parts - 1) > tolerance:
        return None
    added = view.history.marks.get("parts")
    if parts == _TERMS and (added is None or added.value != parts):
        return None  # a loss of two terms, one for each answer (NCA, EXO), begins so too
    # any large number is near a multiple
    if parts > limit("LOS007", "many") and abs(ratio - parts) > limit("LOS007", "off"):
        return None
    return suspect("LOS007/pairs", first=first, parts=parts, ratio=ratio, step=0)


def one_partner(view: HistoryView) -> Candidate | None:
    """Texts that are all pulled to the same place of their batch, in every update looked at."""
    share, row = view.last("vectors.led"), view.last("vectors.leader")
    if share is None or row is None or share <= limit("LOS003", "led"):
        return None
    return suspect("LOS003/leader", value=share, row=row, step=view.updates)


CAUSES: tuple[Cause, ...] = (
    swapped_answers,
    crossed_sides,
    crossed_pairs,
    two_units,
    unbalanced_sides,
    told_by_length,
    answers_without_end,
    one_text,
    decided_pairs,
    turned_pairs,
    summed_pairs,
    one_partner,
)
