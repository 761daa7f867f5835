"""Causes in how weights start: too large, too small, the head alone, never loaded.

Comes in: the course of a training. Goes out: suspects. They do not know one another.
"""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def too_large(course: HistoryView) -> Candidate | None:
    """Before training heads are narrow already, and scores are large."""
    entropy, score = course.first("attention.entropy"), course.first("attention.max_logit")
    if entropy is None or score is None or course.facts.pretrained:
        return None
    narrow, large = limit("INI004", "entropy"), limit("INI004", "score")
    size = course.first("weights.size")
    heavy = size is None or size > limit("INI004", "size")
    if entropy > narrow or score < large or not heavy:
        return None
    return Candidate(
        code="INI004",
        likely=0.9,
        what=f"Before training, scores reach {score:.3g} and a head looks at few tokens alone.",
        clues=clue("INI004", "attention.entropy, first", entropy)
        + clue("INI004", "attention.max_logit, first", score)
        + clue("INI004", "weights.size, first", size),
        where="model.initialisation.weights",
        step=0,
    )


def loud_head(course: HistoryView) -> Candidate | None:
    """A first loss above guessing while attention begins as it should."""
    start, guessing = course.start, course.guessing
    if start is None or guessing is None or course.facts.pretrained:
        return None
    entropy, probe = course.first("attention.entropy"), course.first("loss.probe")
    if start < guessing + limit("INI005", "above") or (probe and abs(start / probe - 1) > 0.2):
        return None
    has_entropy = entropy is not None
    if has_entropy and entropy < 0.6:
        return None
    return Candidate(
        code="INI005" if has_entropy else "INI001",
        likely=0.9 if has_entropy else 0.6,
        what=f"The first loss is {start:.4g}; guessing costs ln V = {guessing:.4g}.",
        clues=clue("INI005", "first loss above ln V", start - guessing)
        + clue("INI005", "attention.entropy, first", entropy),
        where="head, embedding" if has_entropy else "",
        step=steps_first(course),
    )


def too_small(course: HistoryView) -> Candidate | None:
    """A stream whose variance drowns in the eps of the norms."""
    spread = course.first("norm.variance_over_eps")
    if spread is None or spread > limit("INI006", "variance"):
        return None
    return Candidate(
        code="INI006",
        likely=0.93,
        what=f"Before training, a norm is given a variance of {spread:.2g} times its eps.",
        clues=clue("INI006", "norm.variance_over_eps, first", spread)
        + clue("INI006", "update.ratio, first", course.first("update.ratio")),
        where=course.of("norm.variance_over_eps")[0].where,
        step=0,
    )


def large_norm_eps(course: HistoryView) -> Candidate | None:
    """Norms whose eps is as large as what they are to bring to size."""
    eps, spread = course.facts.norm_eps, course.first("norm.variance_over_eps")
    if eps is None or eps <= limit("ARC014", "eps"):
        return None
    if spread is not None and spread > limit("ARC014", "variance"):
        return None
    return Candidate(
        code="ARC014",
        likely=0.95 if spread is not None else 0.5,
        what=f"The eps of a norm is {eps:g}.",
        clues=clue("ARC014", "eps", eps) + clue("ARC014", "norm.variance_over_eps, first", spread),
        where="norms",
        step=0,
        severity=None if spread is not None else "note",
    )


def never_loaded(course: HistoryView) -> Candidate | None:
    """A model that is said to be trained already, and begins where guessing stands."""
    start, guessing = course.start, course.guessing
    if not course.facts.pretrained or start is None or guessing is None:
        return None
    unigram = course.facts.unigram
    partly = unigram is not None and start > unigram + limit("WGT004", "above")
    if start < guessing - limit("WGT004", "nats") and not partly:
        return None
    return Candidate(
        code="WGT004",
        likely=0.9 if start > guessing - limit("WGT004", "nats") else 0.75,
        what=f"The weights are said to be trained, and the first loss is {start:.4g}, "
        f"where guessing costs {guessing:.4g}"
        + (f" and frequencies of single tokens alone give {unigram:.4g}." if partly else "."),
        clues=clue("WGT004", "first loss below ln V", guessing - start)
        + clue("WGT004", "first loss above single tokens' entropy", start - (unigram or start)),
        step=steps_first(course),
    )


def steps_first(course: HistoryView) -> int:
    """The update of the first loss."""
    return course.steps[0] if course.steps else 0


CAUSES = (too_large, loud_head, too_small, large_norm_eps, never_loaded)
