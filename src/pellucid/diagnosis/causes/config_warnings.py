"""What a config alone makes likely: a smell is no fault, and is a note at most.

Comes in: the course of a training, of which only how it is trained may be known. Goes out:
suspects. They do not know one another. Each speaks only while nothing was seen that decides it.
"""

from __future__ import annotations

from pellucid import config
from pellucid.diagnosis.causes.candidate import Candidate
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit

_ADAMS = (None, "Adam", "AdamW")


def hot_without_warm_up(course: HistoryView) -> Candidate | None:
    """A rate that is high for Adam, from the first update on."""
    rate, warm, total = (
        course.facts.learning_rate,
        course.facts.warmup_steps,
        course.facts.total_steps,
    )
    if rate is None or warm is None or course.facts.optimiser not in _ADAMS:
        return None
    short = warm <= max(3, limit("OPT006", "share") * (total or 0))
    if not short or rate < limit("OPT006", "hot") or course.of("update.ratio", until=5):
        return None
    return _smell(
        "OPT006", 0.4, f"The rate is {rate:g} after {warm} updates of warm-up.", "warm-up", warm
    )


def hot(course: HistoryView) -> Candidate | None:
    """A rate that hardly any transformer bears."""
    rate = course.facts.learning_rate
    if rate is None or course.facts.optimiser not in _ADAMS or course.of("update.ratio"):
        return None
    if rate < 10 * limit("OPT006", "hot"):
        return None
    return _smell("OPT005", 0.5, f"The learning rate is {rate:g}.", "learning rate", rate)


def cold(course: HistoryView) -> Candidate | None:
    """A rate at which hardly anything moves, from scratch."""
    rate, facts = course.facts.learning_rate, course.facts
    if (
        rate is None
        or facts.pretrained
        or facts.optimiser not in _ADAMS
        or course.of("update.ratio")
    ):
        return None
    if not 0 < rate < limit("OPT007", "slow"):
        return None
    return _smell("OPT007", 0.4, f"The learning rate is {rate:g}.", "learning rate", rate)


def deep_post_norm(course: HistoryView) -> Candidate | None:
    """Post-norm, deep, hot, and at once."""
    facts = course.facts
    if facts.norm != "post" or (facts.n_layers or 0) < limit("ARC002", "layers"):
        return None
    quick = facts.warmup_steps is not None and facts.warmup_steps < 100
    warm = (facts.learning_rate or 0) > limit("ARC002", "hot") or quick
    if not warm or course.losses:
        return None
    text = f"Norms stand after the addition in {facts.n_layers} layers, which needs a long warm-up."
    return _smell("ARC002", 0.4, text, "warm-up", facts.warmup_steps)


def decay_product(course: HistoryView) -> Candidate | None:
    """Rate times decay over all updates takes most of every weight."""
    facts = course.facts
    if not facts.weight_decay or not facts.learning_rate or course.of("weights.size"):
        return None
    if facts.optimiser not in _ADAMS:
        return None
    product = facts.weight_decay * facts.learning_rate
    if product < limit("OPT010", "product") and facts.weight_decay < limit("OPT010", "smell"):
        return None
    text = f"Weight decay {facts.weight_decay:g} at this rate takes {product:.2%} an update."
    return _smell("OPT010", 0.45, text, "learning rate x weight decay", product)


def eps(course: HistoryView) -> Candidate | None:
    """An eps that is larger than gradients are wont to be."""
    value = course.facts.eps
    if value is None or value <= limit("OPT009", "usual") or course.of("update.effective_step"):
        return None
    return _smell("OPT009", 0.5, f"Adam's eps is {value:g}; 1e-8 is usual.", "eps", value)


def long_memory(course: HistoryView) -> Candidate | None:
    """A memory of squares that is longer than the whole training."""
    betas, total = course.facts.betas, course.facts.total_steps
    memory = course.memory
    if betas is None or memory is None or total is None or course.losses or memory < total:
        return None
    text = f"beta2 = {betas[1]:g} remembers {memory:.0f} updates; there are {total}."
    return _smell("OPT008", 0.3, text, "beta2", betas[1])


def tiny_clip(course: HistoryView) -> Candidate | None:
    """A clip below what any gradient is."""
    clip = course.facts.clip_norm
    if clip is None or clip >= limit("OPT012", "tiny") or len(course.history.grad_norms) >= 5:
        return None
    return _smell("OPT012", 0.6, f"Gradients are cut to a norm of {clip:g}.", "clip_norm", clip)


def no_positions(course: HistoryView) -> Candidate | None:
    """A config without positions: by design, or forgotten."""
    run = course.history.config
    stacks = () if run is None else run.model.stacks
    if not stacks or not all(isinstance(s.positions, config.NoPositions) for s in stacks):
        return None
    text = "The model is told nothing of where a token stands."
    return _smell("POS001", 0.3, text, "positions", "NoPositions")


def half_precision(course: HistoryView) -> Candidate | None:
    """float16 without a word of a scaler."""
    if course.facts.precision != "float16" or course.losses:
        return None
    return _smell("NUM007", 0.3, "Training is in float16.", "precision", "float16")


def _smell(code: str, likely: float, text: str, sign: str, value: float | str | None) -> Candidate:
    return Candidate(
        code=code,
        likely=likely,
        what=f"{text} This is by how it is set up alone: nothing was seen of it yet.",
        clues=clue(code, sign, value),
        step=0,
        severity="note",
    )


CAUSES = (
    hot_without_warm_up,
    hot,
    cold,
    deep_post_norm,
    decay_product,
    eps,
    long_memory,
    tiny_clip,
    no_positions,
    half_precision,
)
