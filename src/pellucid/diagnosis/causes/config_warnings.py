"""What a config alone makes likely: a smell is no fault, and is a note at most."""

from __future__ import annotations

from collections.abc import Callable

from pellucid import config
from pellucid.diagnosis.causes.candidate import (
    Candidate,
    Cause,
    Comparison,
    Relation,
    Value,
)
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit

_ADAMS = (None, "Adam", "AdamW")
_UNSEEN = "This is from the config alone: the training has shown nothing of it yet."


def hot_without_warm_up(view: HistoryView) -> Candidate | None:
    """A rate that is high for Adam, from the first update on."""
    rate, warm, total = (
        view.facts.learning_rate,
        view.facts.warmup_steps,
        view.facts.total_steps,
    )
    if rate is None or warm is None or view.facts.optimiser not in _ADAMS:
        return None
    short = warm <= max(3, limit("OPT006", "share") * (total or 0))
    if not short or rate < limit("OPT006", "hot") or view.readings("update.ratio", last_step=5):
        return None
    return _warning(
        "OPT006", 0.4, f"The rate is {rate:g} after {warm} updates of warm-up.", "warm-up", warm
    )


def deep_post_norm(view: HistoryView) -> Candidate | None:
    """Post-norm, deep, hot, and at once."""
    facts = view.facts
    if facts.norm != "post" or (facts.n_layers or 0) < limit("ARC002", "layers"):
        return None
    quick = facts.warmup_steps is not None and facts.warmup_steps < 100
    warm = (facts.learning_rate or 0) > limit("ARC002", "hot") or quick
    if not warm or view.losses:
        return None
    text = f"Norms stand after the addition in {facts.n_layers} layers, which needs a long warm-up."
    return _warning("ARC002", 0.4, text, "warm-up", facts.warmup_steps)


def decay_product(view: HistoryView) -> Candidate | None:
    """Rate times decay over all updates takes most of every weight."""
    facts = view.facts
    if not facts.weight_decay or not facts.learning_rate or view.readings("weights.size"):
        return None
    if facts.optimiser not in _ADAMS:
        return None
    product = facts.weight_decay * facts.learning_rate
    if product < limit("OPT010", "product") and facts.weight_decay < limit("OPT010", "smell"):
        return None
    text = f"Weight decay {facts.weight_decay:g} at this rate takes {product:.2%} an update."
    return _warning("OPT010", 0.45, text, "learning rate x weight decay", product)


def long_memory(view: HistoryView) -> Candidate | None:
    """A memory of squares that is longer than the whole training."""
    betas, total = view.facts.betas, view.facts.total_steps
    memory = view.memory
    if betas is None or memory is None or total is None or view.losses or memory < total:
        return None
    text = f"beta2 = {betas[1]:g} remembers {memory:.0f} updates; there are {total}."
    return _warning("OPT008", 0.3, text, "beta2", betas[1])


def no_positions(view: HistoryView) -> Candidate | None:
    """A config without positions: by design, or forgotten."""
    run = view.history.config
    stacks = () if run is None else run.model.stacks
    if not stacks or not all(isinstance(s.positions, config.NoPositions) for s in stacks):
        return None
    text = "The model is told nothing of where a token stands."
    return _warning("POS001", 0.3, text, "positions", "NoPositions")


def _warning(
    code: str, likely: float, text: str, label: str, value: float | str | None
) -> Candidate:
    return Candidate(
        code=code,
        likely=likely,
        what=f"{text} {_UNSEEN}",
        clues=clue(code, label, value),
        step=0,
        severity="note",
    )


def _adam_without(sign: str) -> Callable[[HistoryView], bool]:
    """Whether Adam trains, or may, and no reading of a sign decides."""
    return lambda view: view.facts.optimiser in _ADAMS and not view.readings(sign)


def _compare(
    code: str,
    number: Callable[[HistoryView], Value | None],
    rule: tuple[Relation, Value],
    likely: float,
    text: str,
    label: str,
    condition: Callable[[HistoryView], bool],
) -> Comparison:
    return Comparison(
        code=code,
        number=number,
        rule=rule,
        likely=likely,
        what=f"{text} {_UNSEEN}",
        label=label,
        condition=condition,
        step=0,
        severity="note",
    )


CAUSES: tuple[Cause, ...] = (
    hot_without_warm_up,
    _compare(
        "OPT005",
        lambda view: view.facts.learning_rate,
        (">=", "hot"),
        0.5,
        "The learning rate is {value:g}.",
        "learning rate",
        _adam_without("update.ratio"),
    ),
    _compare(
        "OPT007",
        lambda view: view.facts.learning_rate or None,
        ("<", "slow"),
        0.4,
        "The learning rate is {value:g}.",
        "learning rate",
        lambda view: not view.facts.pretrained and _adam_without("update.ratio")(view),
    ),
    deep_post_norm,
    decay_product,
    _compare(
        "OPT009",
        lambda view: view.facts.eps,
        (">", "usual"),
        0.5,
        "Adam's eps is {value:g}; 1e-8 is usual.",
        "eps",
        lambda view: not view.readings("update.effective_step"),
    ),
    long_memory,
    _compare(
        "OPT012",
        lambda view: view.facts.clip_norm,
        ("<", "tiny"),
        0.6,
        "Gradients are cut to a norm of {value:g}.",
        "clip_norm",
        lambda view: len(view.history.grad_norms) < 5,
    ),
    no_positions,
    _compare(
        "NUM007",
        lambda view: view.facts.precision,
        ("is", "float16"),
        0.3,
        "Training is in float16.",
        "precision",
        lambda view: not view.losses,
    ),
)
