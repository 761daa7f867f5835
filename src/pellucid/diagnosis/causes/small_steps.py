"""Causes of steps that are small in parts of a model, or by what an optimiser remembers."""

from __future__ import annotations

import math
import statistics

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.optimiser import heavy_decay
from pellucid.diagnosis.causes.rates import tears
from pellucid.diagnosis.finding import limit

#: The gradient norms at either end of a training that are compared.
_FEW_NORMS = 5


def slow_groups(view: HistoryView) -> Candidate | None:
    """A new model most of whose weights have next to nothing of the highest rate."""
    share = view.facts.slow
    if share is None or share < limit("OPT007", "share") or not view.fresh:
        return None
    return suspect(
        "OPT007/groups", share=share, step=0, severity="note" if view.goes_well else None
    )


def reversed_rates(view: HistoryView) -> Candidate | None:
    """Rates that fall from the first block to the head, where layer-wise decay lets them rise.

    The head is new where a trained model gets one, and the first blocks are the most general.
    """
    fall = view.facts.rate_fall
    if fall is None or fall < limit("OPT007", "depth"):
        return None
    return suspect("OPT007/reversed", fall=fall, step=0)


def faint_adapters(view: HistoryView) -> Candidate | None:
    """Adapters whose product is scaled to next to nothing, at a rate that does not make up for it.

    An update of Adam's moves each weight by about the rate, and what an adapter adds by the scale
    of that.
    """
    scale, rate = view.facts.adapter_scale, view.rate
    if scale is None or rate is None or view.facts.betas is None:
        return None
    if scale > limit("OPT007", "scale") or scale * rate > limit("OPT007", "scaled"):
        return None
    return suspect("OPT007/adapters", scale=scale, rate=rate, step=0)


def swollen_memory(view: HistoryView) -> Candidate | None:
    """Steps of Adam far below what gradients of pure chance give, while most is still unlearnt.

    Of gradients without anything in common, Adam's mean keeps sqrt((1 - beta1) / (1 + beta1)) of
    their size: no training has smaller steps, unless squares of other, larger gradients are
    remembered. Where all is learnt, gradients vanish, and that is sound.
    """
    betas, step, end = view.facts.betas, view.facts.remembered_step, view.end
    unigram, chance = view.facts.unigram, view.chance_step
    if betas is None or step is None or end is None or not view.learns_tokens:
        return None
    if chance is None or view.updates < limit("OPT008", "updates"):
        return None
    if tears(view) or heavy_decay(view) is not None:
        return None  # so weights lost what they had, and with it their gradients
    shrinkage = _shrinkage_of_gradients(view)
    if shrinkage is not None and shrinkage < limit("OPT008", "vanished") * step / chance:
        return None  # it remembers gradients of the usual size, and those of now have vanished
    if not view.steps_vanish or end < limit("OPT008", "unlearnt"):
        return None
    # gradients that vanish, as of a model that is torn or hardly moves, lead to the same steps
    is_stuck = unigram is not None and end > unigram - limit("DAT009", "above")
    is_bad = is_stuck or not view.goes_well
    # gradients of weights that fade get small too: then the decay is the likelier cause
    fades = (view.facts.weight_decay or 0.0) > limit("OPT010", "decay")
    return suspect(
        "OPT008/swollen",
        0.5 if fades else None,
        size=step,
        chance=chance,
        beta2=betas[1],
        severity="fault" if shrinkage is not None and is_bad else "note",
    )


def _shrinkage_of_gradients(view: HistoryView) -> float | None:
    """The size of the last gradients, of the first ones; None if too few were seen."""
    norms = [value for _, value in view.history.grad_norms if math.isfinite(value)]
    if len(norms) < 2 * _FEW_NORMS:
        return None
    first, last = statistics.median(norms[:_FEW_NORMS]), statistics.median(norms[-_FEW_NORMS:])
    return last / first if first > 0 else None


CAUSES: tuple[Cause, ...] = (
    slow_groups,
    reversed_rates,
    faint_adapters,
    swollen_memory,
)
