"""Causes in parts of a model that learn far more slowly than the rest, by rate or by scale."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


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


CAUSES: tuple[Cause, ...] = (slow_groups, reversed_rates, faint_adapters)
