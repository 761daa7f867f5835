"""Warnings from the config alone. Each is at most a note, because the training may go well."""

from __future__ import annotations

from pellucid import config
from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.long_steps import has_adapters
from pellucid.diagnosis.finding import limit

_ADAMS = (None, "Adam", "AdamW")
#: So many updates show whether a rate is too high.
_LONG = 50


def hot_without_warm_up(view: HistoryView) -> Candidate | None:
    """A rate that is high for Adam, almost from the first update on."""
    facts = view.facts
    rate, warm_up = facts.learning_rate, facts.warmup_steps
    if rate is None or warm_up is None or facts.optimiser not in _ADAMS:
        return None
    is_short = warm_up <= max(3, limit("OPT006", "share") * (facts.total_steps or 0))
    if not is_short or rate < limit("OPT006", "hot") or view.readings("update.ratio", last_step=5):
        return None
    if _came_down(view) or has_adapters(view):
        return None
    return suspect("OPT006/config", rate=rate, warm_up=warm_up, step=0)


def deep_post_norm(view: HistoryView) -> Candidate | None:
    """Post-norm in a deep model, with a high rate or a short warm-up."""
    facts, warm_up = view.facts, view.facts.warmup_steps
    if facts.norm != "post" or (facts.n_layers or 0) < limit("ARC002", "layers") or view.losses:
        return None
    is_short = warm_up is not None and warm_up < 100
    if not is_short and (facts.learning_rate or 0) <= limit("ARC002", "hot"):
        return None
    return suspect("ARC002/config", layers=facts.n_layers, warm_up=warm_up, step=0)


def decay_product(view: HistoryView) -> Candidate | None:
    """A product of rate and decay that shrinks the weights to almost nothing."""
    facts = view.facts
    decay, rate = facts.weight_decay, facts.learning_rate
    if not decay or not rate or view.readings("weights.size") or facts.optimiser not in _ADAMS:
        return None
    if decay * rate < limit("OPT010", "product") and decay < limit("OPT010", "smell"):
        return None
    return suspect("OPT010/config", decay=decay, product=decay * rate, step=0)


def long_memory(view: HistoryView) -> Candidate | None:
    """A second moment of Adam that lasts longer than the training."""
    betas, total, memory = view.facts.betas, view.facts.total_steps, view.memory
    if betas is None or memory is None or total is None or view.losses or memory < total:
        return None
    return suspect("OPT008/config", beta2=betas[1], memory=memory, total=total, step=0)


def no_positions(view: HistoryView) -> Candidate | None:
    """A config without positions, by design or by mistake."""
    run = view.history.config
    stacks = () if run is None else run.model.stacks
    schemes = [scheme for stack in stacks for scheme in stack.schemes]
    if not schemes or not all(isinstance(scheme, config.NoPositions) for scheme in schemes):
        return None
    return suspect("POS001/config", positions="NoPositions", step=0)


def _came_down(view: HistoryView) -> bool:
    """Whether many updates have lowered the loss: then the rate was not too high for it."""
    return view.updates >= _LONG and view.end is not None and view.end < view.losses[0]


def _adam_is_new(view: HistoryView) -> bool:
    """Whether Adam trains, or may train, and no update has a reading yet."""
    return view.facts.optimiser in _ADAMS and not view.readings("update.ratio")


def _may_be_hot(view: HistoryView) -> bool:
    """Whether Adam has no reading yet, and no loss that came down under it.

    Prompts and prefixes that are trained alone take rates of a tenth and more.
    """
    return _adam_is_new(view) and not _came_down(view) and not has_adapters(view)


def _trains_slowly(view: HistoryView) -> bool:
    """Whether Adam begins with new weights and a rate that is not 0.

    A loss shows new weights: it begins at guessing. The log of a model that could write before has
    no such loss, and a small rate is right for it, as for preferences and rewards.
    """
    is_new = not view.losses or (view.start is not None and view.guessing is not None)
    learns = view.fresh and view.learns_tokens and _adam_is_new(view)
    return bool(view.facts.learning_rate) and is_new and learns


def _has_no_steps(view: HistoryView) -> bool:
    return not view.readings("update.effective_step")


def _has_few_norms(view: HistoryView) -> bool:
    return len(view.history.grad_norms) < 5


def _has_no_losses(view: HistoryView) -> bool:
    return not view.losses


CAUSES: tuple[Cause, ...] = (
    hot_without_warm_up,
    Comparison("OPT005/config", "facts.learning_rate", (">=", "hot"), condition=_may_be_hot),
    Comparison("OPT007/config", "facts.learning_rate", ("<", "slow"), condition=_trains_slowly),
    deep_post_norm,
    decay_product,
    Comparison("OPT009/config", "facts.eps", (">", "usual"), condition=_has_no_steps),
    long_memory,
    Comparison("OPT012/config", "facts.clip_norm", ("<", "tiny"), condition=_has_few_norms),
    no_positions,
    Comparison("NUM007/config", "facts.precision", ("is", "float16"), condition=_has_no_losses),
)
