"""A loss of rows that stays where guessing is, and whether counting words does better.

Words that tell nothing of the labels, in a training that learns nothing either, are the trace of
labels that belong to other rows, or of inputs that lost what the labels are about.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, NamedTuple

from pellucid.diagnosis.causes.bounds import steps_in_rates
from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.long_steps import usual_stride
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.logs.statistics import noise

#: A sign of the ledger is of so many updates, as many as a page of it holds.
_PAGE = 32


class WordMatch(NamedTuple):
    """How often words spoke for a row's own class, of how many pairs, in standard errors from half.

    Attributes:
        share: of the pairs.
        n: pairs.
        errors: how many standard errors the share is above a half.
    """

    share: float
    n: float
    errors: float


def count_matches(view: HistoryView, id: str = "targets.told") -> WordMatch:
    """What words tell of the labels, or of partners, in all updates that were looked at.

    Args:
        view: The history.
        id: The sign with the shares; another one has the numbers of pairs.
    """
    pairs = {reading.step: reading.value for reading in view.readings(f"{id}_rows")}
    wins = sum(reading.value * pairs.get(reading.step, 0.0) for reading in view.readings(id))
    n = sum(pairs.values())
    if n <= 0:
        return WordMatch(0.5, 0.0, 0.0)
    return WordMatch(wins / n, n, (2 * wins - n) / math.sqrt(n))


def _is_unrelated(match: WordMatch) -> bool:
    """Whether counting words is no better than guessing."""
    return match.n >= limit("DAT009", "pairs") and match.errors < limit("DAT009", "errors")


def _reads_two_texts(view: HistoryView) -> bool:
    """Whether a row is two texts: what one is to the other, words alone need not tell."""
    return (view.last("targets.two_texts") or 0.0) > limit("DAT009", "two_texts")


def _moves(view: HistoryView) -> float | None:
    """How far an update moves weights; None if it is next to nothing, or the training is short.

    The ledger's steps are of all numbers of some weights, among them gains of 1 and words that did
    not come: they are a tenth of the middle matrix's. Such small steps may also be slow ones.
    """
    update, least = view.usual("update.ratio", after=view.warm_up_end), limit("DAT009", "update")
    if not update:
        update, least = usual_stride(view), limit("DAT009", "stride")
    # of many pairs, words tell sooner
    is_sure = count_matches(view).n >= limit("DAT009", "many")
    n_updates = limit("DAT009", "few" if is_sure else "updates")
    is_long = view.updates - view.warm_up_end >= n_updates
    if not is_long or update <= least:
        return None
    return update if view.quarters and all(map(math.isfinite, view.losses)) else None


def at_chance(view: HistoryView) -> Candidate | None:
    """A loss of classes that stays where guessing is, although weights move."""
    classes, entropy = view.readings("targets.classes"), view.last("targets.entropy")
    update, end = _moves(view), view.end
    if update is None or end is None or not (classes or entropy):
        return None
    guessing = math.log(max(1.0, classes[0].value)) if classes else entropy or 0.0
    if entropy:
        guessing = min(guessing, entropy)
    learnt = guessing - min(*view.quarters, end)
    # a loss with other terms, or of two passes, is not that of guessing
    surplus = max(*view.quarters, end) - guessing
    if learnt > limit("DAT009", "chance") or surplus > limit("DAT009", "terms"):
        return None
    match = count_matches(view)
    is_long = view.updates - view.warm_up_end >= limit("DAT009", "long")
    values: dict[str, Any] = {"end": end, "guessing": guessing, "below": learnt, "update": update}
    values |= {"told": match.share, "n": match.n, "step": view.updates}
    if _is_unrelated(match):
        return suspect("UNK002/two" if _reads_two_texts(view) else "DAT009/told", **values)
    if match.errors > limit("DAT009", "sure"):
        share = view.facts.untrained or 0.0
        if share >= limit("GRD003", "share"):
            # a probe of a body that was trained would tell what words tell
            return suspect("GRD003/told", share=share, severity="fault", **values)
        return suspect("FIT004/told", **values) if update > limit("DAT009", "update") else None
    if not classes or _reads_two_texts(view):
        return None
    # a task that is hard begins like this, too
    key = "DAT009/classes" if is_long else "UNK002/classes"
    return suspect(key, classes=classes[0].value, **values)


def slow_classes(view: HistoryView) -> Candidate | None:
    """Plain descent along which the loss of classes that words tell falls straight, and slowly.

    To first order each step gains the same: a loss bends where steps are long enough to matter.
    """
    match, entropy = count_matches(view), view.last("targets.entropy")
    n, is_plain = len(view.losses) // 4, view.facts.betas is None
    is_plain = is_plain and view.facts.momentum is not None
    if not is_plain or not entropy or steps_in_rates(view) > limit("UPD008", "steps"):
        return None
    if match.n < limit("DAT009", "pairs") or match.share < limit("OPT007", "told"):
        return None
    if 4 * n < limit("OPT007", "straight"):
        return None
    first, second, third, last = view.quarters
    part, slope = 1 - last / entropy, (third - last) / max(first - second, 1e-30)
    chance = limit("OPT007", "errors") * noise(view.losses) * math.sqrt(2 / n)
    is_straight = first - last > chance and slope >= limit("OPT007", "bend")
    if not is_straight or first < second or part > limit("OPT007", "part"):
        return None
    values: dict[str, Any] = {"told": match.share, "n": match.n, "part": part, "slope": slope}
    return suspect("OPT007/classes", rate=view.rate, step=view.updates, **values)


def at_mean(view: HistoryView) -> Candidate | None:
    """A squared error that stays at the variance of its targets, although weights move."""
    errors, variances = view.readings("targets.square"), view.readings("targets.variance")
    update, end = _moves(view), view.end
    if update is None or end is None or not errors or not variances:
        return None
    last = errors[-1]
    loss = _loss_of_page(view, last.step)
    if loss is None or abs(loss / max(last.value, 1e-30) - 1) > limit("DAT009", "equal"):
        return None  # the loss is no mean squared error
    share = last.value / max(variances[-1].value, 1e-30)
    # means of so few losses differ by chance
    n = min(_PAGE, max(5, len(view.losses) // 10))
    chance = limit("DAT009", "errors") * noise(view.losses) / math.sqrt(n)
    is_flat = min(*view.quarters, end) > limit("DAT009", "constant") * last.value - chance
    match = count_matches(view)
    if share < limit("DAT009", "constant") or not is_flat:
        return None
    values: dict[str, Any] = {
        "share": share,
        "told": match.share,
        "n": match.n,
        "step": view.updates,
    }
    if _is_unrelated(match):
        return None if _reads_two_texts(view) else suspect("DAT009/numbers", **values)
    is_told = match.errors > limit("DAT009", "sure") and update > limit("DAT009", "update")
    return suspect("FIT004/numbers", **values) if is_told else None


def unrelated_targets(view: HistoryView) -> Candidate | None:
    """Targets of an encoder-decoder that neither length nor tokens tie to their own texts."""
    lengths, words = (count_matches(view, f"targets.{name}") for name in ("longer", "partner"))
    n_least, errors, share = (limit("LOS003", name) for name in ("rows", "chance", "tie"))
    different = view.last("targets.different") or 0.0
    # labels that are words have few texts, and need not be tied to anything
    if view.first("batch.decoder") is None or different < limit("LOS003", "different"):
        return None
    if any(m.n < n_least or m.errors > errors or m.share > share for m in (lengths, words)):
        return None
    values: dict[str, Any] = {"longer": lengths.share, "words": words.share, "n": words.n}
    return suspect("LOS003/partners", step=view.updates, severity="warn", **values)


def _loss_of_page(view: HistoryView, last_step: int) -> float | None:
    """The mean loss of the updates that a sign of the ledger is of; None unless all are numbers.

    Args:
        view: The history.
        last_step: The last of these updates.
    """
    losses = dict(view.history.losses)
    recent = [losses[s] for s in range(last_step - _PAGE + 1, last_step + 1) if s in losses]
    return statistics.fmean(recent) if recent and all(map(math.isfinite, recent)) else None


def drowned_classes(view: HistoryView) -> Candidate | None:
    """A loss that is many times the cross-entropy of its classes; a note if these are learnt."""
    readings, entropy = view.readings("targets.class_nats"), view.last("targets.entropy")
    if not readings or not entropy or readings[-1].value <= 0:
        return None
    last = readings[-1]
    loss = _loss_of_page(view, last.step)
    if loss is None or loss - last.value < entropy:
        return None
    if loss / last.value < limit("LOS013", "terms"):
        return None
    is_learnt = last.value < limit("LOS013", "unlearnt") * entropy
    return suspect(
        "LOS013/drowned",
        loss=loss,
        nats=last.value,
        entropy=entropy,
        step=last.step,
        severity="note" if is_learnt else None,
    )


def at_guessing_of_partners(view: HistoryView) -> Candidate | None:
    """A loss of compared vectors that stays where guessing a partner among the rows is."""
    n, update, end = view.last("targets.vectors"), _moves(view), view.end
    if update is None and _are_alike(view, "gone") and view.updates >= limit("DAT009", "few"):
        update = view.usual("update.ratio")  # equal vectors have next to no gradient
    if n is None or n < limit("UNK001", "rows") or update is None or end is None:
        return None
    # vectors that begin far apart at a low temperature first come together
    levels = [*view.quarters[1:], end]
    # two calls of n rows each, or one with both sides; a row is no partner of itself
    guesses = [math.log(k) for k in (n, n - 1, 2 * n, 2 * n - 1, n / 2)]
    guessing = min(guesses, key=lambda guess: abs(guess - end))
    is_flat = max(levels) - min(levels) < limit("UNK001", "flat")
    if not is_flat or abs(end - guessing) > limit("UNK001", "flat"):
        return None
    values: dict[str, Any] = {"guessing": guessing, "update": update, "step": view.updates}
    match = count_matches(view, "vectors.told")
    if not _is_unrelated(match):
        return suspect("UNK001/partners", end=end, **values)
    return suspect("DAT009/partners", end=end, told=match.share, n=match.n, **values)


def divided_similarities(view: HistoryView) -> Candidate | None:
    """Vectors that tell partners apart, and a loss that stays near that of guessing.

    Cosines lie between -1 and 1, so that divided by a number above 1 they are all about as likely.
    """
    n, matched, end = view.last("targets.vectors"), view.last("vectors.matched"), view.end
    if n is None or matched is None or end is None or n < limit("UNK001", "rows"):
        return None
    if (view.last("vectors.spread") or 0.0) < limit("LOS014", "spread"):
        return None  # vectors that are nearly the same give any loss that of guessing
    guessing = math.log(n)
    is_high = limit("LOS014", "guess") * guessing < end < guessing + limit("UNK001", "flat")
    # vectors that tell some partners apart cost less than guessing, unless nothing of it shows
    is_told = matched > limit("LOS014", "times") / n and guessing - end < limit("LOS014", "gain")
    if not is_high or not (is_told or matched >= limit("LOS014", "matched")):
        return None
    return suspect(
        "LOS014/vectors", matched=matched, end=end, guessing=guessing, n=n, step=view.updates
    )


def _are_alike(view: HistoryView, least: str) -> bool:
    """Whether the vectors of rows have become nearly the same one.

    Args:
        view: The history.
        least: The limit's name for what is left of how far apart they were at first.
    """
    spread, share_kept = view.last("vectors.spread"), view.last("vectors.kept")
    if spread is None or share_kept is None:
        return False
    return spread < limit("ARC011", "spread") and share_kept < limit("ARC011", least)


def collapsed_vectors(view: HistoryView) -> Candidate | None:
    """Vectors of rows that become one and the same, while their loss goes to 0 or stays."""
    end = view.end
    if end is None or not view.updates or not _are_alike(view, "kept"):
        return None
    values: dict[str, Any] = {id: view.last(f"vectors.{id}") for id in ("spread", "kept")}
    if abs(end) < limit("FIT005", "loss"):
        return suspect("ARC011/rows", end=end, step=view.updates, **values)
    levels = [*view.quarters[2:], end]
    is_level = len(levels) > 1 and max(levels) - min(levels) < limit("ARC011", "level") * abs(end)
    has_classes = view.last("targets.entropy") or view.readings("targets.classes")
    if has_classes or not (is_level and _are_alike(view, "gone")):
        return None
    if at_guessing_of_partners(view) is not None:
        return None
    return suspect("ARC011/level", end=end, step=view.updates, **values)


CAUSES: tuple[Cause, ...] = (
    slow_classes,
    at_chance,
    at_mean,
    drowned_classes,
    unrelated_targets,
    at_guessing_of_partners,
    divided_similarities,
    collapsed_vectors,
)
