"""Causes in the first weights: too large, too small, only the head, never loaded."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit

#: Losses before a head has learnt its scale.
_FIRST_LOSSES = 5
#: Rows of a log before that, and the last update of the first one.
_FIRST_ROWS, _FIRST_ROW = 3, 10


def too_large(view: HistoryView) -> Candidate | None:
    """Narrow heads and large scores before training."""
    entropy, score = view.first("attention.entropy"), view.first("attention.max_logit")
    if entropy is None or score is None:
        return None
    size = view.first("weights.size")
    is_heavy = size is None or size > limit("INI004", "size")
    # trained heads may be narrow, and trained weights large; not all of them at once
    is_extreme = entropy < limit("INI004", "narrow") and score > limit("INI004", "loud")
    # a first loss far below guessing is one of trained weights too
    if not view.fresh and (size is None or not is_extreme):
        return None
    if entropy > limit("INI004", "entropy") or score < limit("INI004", "score") or not is_heavy:
        return None
    return suspect("INI004", entropy=entropy, score=score, size=size, step=0)


def loud_head(view: HistoryView) -> Candidate | None:
    """A first loss above guessing, with attention that begins as it should."""
    start, guessing = view.start, view.guessing
    if start is None or guessing is None or view.facts.pretrained:
        return None
    if view.has_trained_norms:
        return None  # of another kind of text a trained model may know less than nothing
    entropy, probe = view.first("attention.entropy"), view.first("loss.probe")
    if probe:
        if abs(start / probe - 1) > limit("INI005", "share"):
            return None
        start = min(start, probe)  # other terms of a loss come on top of -log p
    if start < guessing + limit("INI005", "above"):
        return None
    prompts = view.first("targets.prompt_nats")
    if prompts is not None and prompts < guessing - limit("INI005", "known"):
        return None  # the weights are trained: it is the answers that they do not know
    is_loud = start > guessing + limit("INI005", "loud") and view.updates >= limit("INI005", "long")
    is_lasting = is_loud and (view.end or 0.0) > guessing - limit("INI005", "learnt")
    if probe is None and view.readings("targets.single") and not is_lasting:
        return None  # no labels in the call: tied embeddings of variance 1 begin so, and learn
    if view.facts.has_prompts:
        # answers are learnt by trained models, as a rule: it may be their form that is new
        return suspect("UNK001/loud", start=start, guessing=guessing, step=view.steps[0])
    has_entropy = entropy is not None
    if has_entropy and entropy < 0.6:
        return None
    return suspect(
        "INI005",
        0.9 if has_entropy else 0.6,
        code="INI005" if has_entropy else "INI001",
        start=start,
        guessing=guessing,
        above=start - guessing,
        entropy=entropy,
        place="head, embedding" if has_entropy else "",
        step=view.steps[0],
    )


def loud_scores(view: HistoryView) -> Candidate | None:
    """Scores of pairs that are far apart before anything is learnt: first losses jump about.

    A margin within the loss costs the same for every batch while scores are small. Where pairs are
    compared by log P, other causes look at the reference.
    """
    is_of_text = view.first("answers.uneven") is not None
    if not view.facts.on_preferences or is_of_text or len(view.losses) < _FIRST_LOSSES:
        return None
    if not view.first("answers.lowered") or view.steps[0] > _FIRST_ROW:
        return None
    # a row of a log is the mean of several updates
    early = view.losses[: _FIRST_LOSSES if view.steps[0] <= 1 else _FIRST_ROWS]
    largest, least = max(early), min(early)
    if largest < limit("INI005", "pairs") or largest < limit("INI005", "times") * max(least, 0.0):
        return None
    return suspect("INI005/scores", largest=largest, least=least, step=0)


def drowned_norm(view: HistoryView) -> Candidate | None:
    """An input of a norm that drowns in its eps; a note if the stream behind it has its size.

    One norm, behind an embedding that is meant to be small or on queries and keys, hands a stream
    of ordinary size on, and the others see nothing of it.
    """
    value = view.first("norm.variance_over_eps")
    if value is None or value > limit("INI006", "variance"):
        return None
    size, eps = view.first("stream.rms") or 0.0, view.facts.norm_eps or 0.0
    is_restored = eps > 0 and size**2 > limit("INI006", "variance") * eps
    return suspect(
        "INI006",
        value=value,
        update=view.first("update.ratio"),
        step=0,
        severity="note" if is_restored else None,
    )


def tiny_weights(view: HistoryView) -> Candidate | None:
    """Matrices that begin so small that a first step of any usual size is many times theirs.

    A watch may see the model's inside only after some steps. Matrices of zeros are meant.
    """
    size = view.first("weights.size")
    if not size or size > limit("INI006", "size"):
        return None
    return suspect("INI006/size", size=size, update=view.first("update.ratio"), step=0)


def large_norm_eps(view: HistoryView) -> Candidate | None:
    """Norms with an eps as large as the variance of their inputs."""
    eps, variance = view.facts.norm_eps, view.first("norm.variance_over_eps")
    if eps is None or eps <= limit("ARC014", "eps"):
        return None
    if variance is None:
        return suspect("ARC014", 0.5, eps=eps, variance=None, step=0, severity="note")
    if variance > limit("ARC014", "variance"):
        return None
    return suspect("ARC014", eps=eps, variance=variance, step=0)


def never_loaded(view: HistoryView) -> Candidate | None:
    """A model that should be trained, but begins at the loss of guessing."""
    start, guessing = view.start, view.guessing
    if not view.facts.pretrained or start is None or guessing is None or not view.learns_tokens:
        return None
    unigram = view.facts.unigram
    is_above = unigram is not None and start > unigram + limit("WGT004", "above")
    highest = guessing - limit("WGT004", "nats")
    if start < highest and not is_above:
        return None
    frequencies = f" and the frequencies of single tokens give {unigram:.4g}" if is_above else ""
    return suspect(
        "WGT004/history",
        0.9 if start > highest else 0.75,
        start=start,
        guessing=guessing,
        frequencies=frequencies,
        below=guessing - start,
        above=start - (unigram or start),
        step=view.steps[0],
    )


def other_tokenizer(view: HistoryView) -> Candidate | None:
    """Trained weights that find text less likely than guessing does, and cannot tell its tokens.

    Text of another kind surprises a trained model too, but its tokens are likelier at their own
    places than at others. A table that is as it was drawn is a new vocabulary.
    """
    nats, share = view.first("targets.text_nats"), view.first("targets.recognised")
    if nats is None or share is None or view.guessing is None or not view.has_trained_norms:
        return None
    if view.first("weights.new_table") or share >= limit("WGT004", "recognised"):
        return None
    is_by_lot = share < limit("WGT004", "by_lot")
    if nats < view.guessing + limit("WGT004", "lost" if is_by_lot else "worse"):
        return None
    return suspect("WGT004/ids", nats=nats, guessing=view.guessing, share=share, step=0)


def drawn_table(view: HistoryView) -> Candidate | None:
    """A table of tokens that holds random numbers, under blocks that were all trained."""
    is_trained = (view.first("weights.trained") or 0.0) > limit("WGT004", "trained")
    if not view.first("weights.new_table") or not is_trained or not view.learns_tokens:
        return None
    if view.first("weights.new_heads"):
        return suspect("WGT004/heads", is_new=1.0, step=0)
    # a new vocabulary may be meant, if it is learnt
    entropy, end = view.first("batch.entropy") or view.facts.unigram, view.end
    is_learnt = entropy is not None and end is not None and end < entropy
    return suspect("WGT004/table", is_new=1.0, step=0, severity="note" if is_learnt else None)


CAUSES: tuple[Cause, ...] = (
    other_tokenizer,
    drawn_table,
    Comparison("GRD003/rows", "weights.added_rows", (">", 0), n=1),
    too_large,
    loud_head,
    loud_scores,
    drowned_norm,
    tiny_weights,
    large_norm_eps,
    never_loaded,
)
