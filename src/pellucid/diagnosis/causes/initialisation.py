"""Causes in how weights start: too large, too small, the head alone, never loaded."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def too_large(view: HistoryView) -> Candidate | None:
    """Before training heads are narrow already, and scores are large."""
    entropy, score = view.first("attention.entropy"), view.first("attention.max_logit")
    if entropy is None or score is None or view.facts.pretrained:
        return None
    narrow, large = limit("INI004", "entropy"), limit("INI004", "score")
    size = view.first("weights.size")
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


def loud_head(view: HistoryView) -> Candidate | None:
    """A first loss above guessing while attention begins as it should."""
    start, guessing = view.start, view.guessing
    if start is None or guessing is None or view.facts.pretrained:
        return None
    entropy, probe = view.first("attention.entropy"), view.first("loss.probe")
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
        step=steps_first(view),
    )


def large_norm_eps(view: HistoryView) -> Candidate | None:
    """Norms whose eps is as large as what they are to bring to size."""
    eps, spread = view.facts.norm_eps, view.first("norm.variance_over_eps")
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


def never_loaded(view: HistoryView) -> Candidate | None:
    """A model that is said to be trained already, and begins where guessing stands."""
    start, guessing = view.start, view.guessing
    if not view.facts.pretrained or start is None or guessing is None:
        return None
    unigram = view.facts.unigram
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
        step=steps_first(view),
    )


def steps_first(view: HistoryView) -> int:
    """The update of the first loss."""
    return view.steps[0] if view.steps else 0


CAUSES: tuple[Cause, ...] = (
    too_large,
    loud_head,
    Comparison(
        code="INI006",
        number="norm.variance_over_eps",
        rule=("<=", "variance"),
        likely=0.93,
        what="Before training, the input of a norm has a variance of {value:.2g} times its eps.",
        look="first",
        label="norm.variance_over_eps, first",
        also={"update.ratio, first": lambda view: view.first("update.ratio")},
        step=0,
    ),
    large_norm_eps,
    never_loaded,
)
