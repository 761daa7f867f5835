"""Causes in the architecture: residual paths, norms, attention scores, units."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, goes_badly, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.rates import starts_hot
from pellucid.diagnosis.finding import limit

#: A model whose first loss is so many nats below guessing knows something of its texts.
_KNOWS = 1.0


def post_norm(view: HistoryView) -> Candidate | None:
    """Post-norm, with gradients that vanish towards the first blocks, or nothing learnt."""
    still_learns = (view.learnt or 0.0) > limit("ARC002", "learnt") and (view.fall or 0.0) > 0
    if view.facts.norm != "post" or view.goes_well or still_learns:
        return None
    if view.last("gradient.missing"):
        return None  # the first blocks have no gradient at all
    least = limit("ARC002", "depth_ratio")
    ratio = view.lasting("gradient.depth_ratio", lambda v: v < least)
    is_stuck = view.updates >= 100 and view.learnt is not None and view.above_frequencies
    is_deep = (view.facts.n_layers or 0) >= limit("ARC002", "layers")
    if ratio is not None:
        return suspect("ARC002", ratio=ratio.value, layers=view.facts.n_layers, step=ratio.step)
    if is_stuck and (is_deep or view.lasting("tokens.cosine", lambda v: v > 0.98) is not None):
        return suspect("ARC002", 0.7, ratio=None, layers=view.facts.n_layers)
    return None


def cut_off_trunk(view: HistoryView) -> Candidate | None:
    """Weights without any gradient, reading after reading; most weights in all of few readings."""
    readings = view.readings("gradient.missing")
    missing = view.lasting("gradient.missing", lambda v: v > 0)
    most = limit("GRD001", "most")
    is_clear = all(reading.value > most for reading in readings)
    if missing is None and readings and is_clear and view.updates >= limit("GRD001", "updates"):
        missing = readings[0]
    if missing is None:
        return None
    return suspect("GRD001/history", value=missing.value, step=missing.step)


def idle_depth(view: HistoryView) -> Candidate | None:
    """Deep blocks that add almost nothing to a residual stream that has grown."""
    if (view.facts.n_layers or 0) < limit("ARC004", "layers"):
        return None
    small, large = limit("ARC004", "branch"), limit("ARC004", "growth")
    idle = view.lasting("stream.branch_ratio", lambda v: v < small)
    growth = view.lasting("stream.growth", lambda v: v > large)
    if growth is None or (idle is None and view.goes_well):
        return None
    return suspect(
        "ARC004",
        0.7 if idle else 0.5,
        growth=growth.value,
        branch=idle.value if idle else None,
        place=idle.place if idle else growth.place,
        step=growth.step,
    )


def no_final_norm(view: HistoryView) -> Candidate | None:
    """No norm before the head, which is harmless in shallow models."""
    if view.facts.final_norm is not False or view.facts.norm == "post":
        return None
    start, guessing = view.start, view.guessing
    is_loud = start is not None and guessing is not None and start > guessing + 0.5
    return suspect(
        "ARC005",
        0.85 if is_loud else 0.5,
        norm="none",
        log_z=view.last("logits.log_z"),
        step=0,
        severity=None if is_loud or not view.goes_well else "note",
    )


def score_scale(view: HistoryView) -> Candidate | None:
    """Another factor of the scores than 1 / sqrt(d_head)."""
    scale, factor = view.facts.score_scale, limit("ARC006", "factor")
    # some models intend another scale (T5): the config alone is no reason
    if scale is None or 1 / factor <= scale <= factor or not view.readings("attention.max_logit"):
        return None
    score = view.last("attention.max_logit")
    is_narrow = (view.first("attention.entropy") or 1.0) < limit("INI004", "entropy")
    start, guessing = view.start, view.guessing
    is_policy = view.facts.on_rewards and view.has_trained_norms
    if is_policy or (start is not None and guessing is not None and start < guessing - _KNOWS):
        is_narrow = False  # a model that came to know its texts with this scale was trained with it
    is_large = (score or 0.0) > limit("ATT007", "score")
    # attention that is narrow or large says that scores are not too small, whatever their scale
    is_shown = scale > 1 and (is_narrow or (is_large and not view.goes_well))
    return suspect(
        "ARC006",
        code="ARC006" if scale > 1 else "ARC007",
        scale=scale,
        score=score,
        step=0,
        severity=None if is_shown else "note",
    )


def zero_scores(view: HistoryView) -> Candidate | None:
    """Scores of exactly zero in every head, at every reading."""
    readings = view.readings("attention.max_logit")
    if len(readings) < 3 or any(reading.value != 0 for reading in readings):
        return None
    first, last = readings[0], readings[-1]
    return suspect("ARC008", score=0.0, last_step=last.step, place=last.place, step=first.step)


def dead_units(view: HistoryView) -> Candidate | None:
    """A layer with a majority of dead units, from the start or for good."""
    lasting = view.lasting("units.dead", lambda v: v > limit("ARC009", "dead"))
    if lasting is None:
        return None
    is_early = lasting.step <= 5
    return suspect(
        "ARC009",
        0.9 if is_early else 0.6,
        dead=lasting.value,
        place=lasting.place,
        step=lasting.step,
        severity=None if is_early or not view.goes_well else "note",
    )


def collapsed_router(view: HistoryView) -> Candidate | None:
    """Experts that no token uses, or a load that lies on few of them, reading after reading.

    One reading is enough if all tokens use the same experts.
    """
    unused = view.lasting("experts.unused", lambda v: v > limit("ARC015", "unused"))
    uneven = view.lasting("experts.evenness", lambda v: v < limit("ARC015", "evenness"))
    same = view.lasting("experts.evenness", lambda v: v < limit("ARC015", "same"), n=1)
    all_readings = filter(None, (unused, uneven, same))
    first = min(all_readings, key=lambda reading: reading.step, default=None)
    if first is None:
        return None
    return suspect(
        "ARC015",
        # steps that tear at all weights throw a router into a corner too
        0.55 if starts_hot(view) else None,
        evenness=view.last("experts.evenness"),
        unused=view.last("experts.unused"),
        place=first.place,
        step=first.step,
    )


def heavy_dropout(view: HistoryView) -> Candidate | None:
    """A dropout of more than a half."""
    p = view.facts.dropout
    if p is None or p <= limit("ARC010", "high"):
        return None
    if p > limit("ARC010", "most"):
        return suspect("ARC010", dropout=p, step=0)
    return suspect("ARC010", 0.4, dropout=p, step=0, severity="note")


def similar_tokens(view: HistoryView) -> Candidate | None:
    """Nearly equal tokens after the last block, and a loss that stays high."""
    readings = view.readings("tokens.cosine", after=200)
    similar = [reading for reading in readings if reading.value > limit("ARC011", "cosine")]
    if len(similar) < 5 or view.goes_well:
        return None
    first = similar[0]
    return suspect("ARC011", cosine=first.value, place=first.place, step=first.step)


def _vanishes_on_the_way(view: HistoryView) -> bool:
    """Whether a training goes badly although gradients begin their way: 0 of 0 is no ratio."""
    return goes_badly(view) and (view.usual("gradient.zeros") or 0.0) < 1


def _least_depth_ratio(view: HistoryView) -> float | None:
    lowest = view.lowest("gradient.depth_ratio")
    return None if lowest is None else lowest.value


CAUSES: tuple[Cause, ...] = (
    Comparison(
        "ARC001",
        "facts.residual",
        ("is", False),
        further={"path": lambda view: "none", "ratio": _least_depth_ratio},
    ),
    post_norm,
    cut_off_trunk,
    Comparison(
        "ARC003",
        "facts.norm",
        ("is", "none"),
        further={"norms": lambda view: 0, "size": lambda view: view.last("stream.size")},
        severity_if_well="warn",
    ),
    idle_depth,
    no_final_norm,
    score_scale,
    zero_scores,
    dead_units,
    collapsed_router,
    heavy_dropout,
    similar_tokens,
    Comparison(
        "ATT003/forgotten",
        "call.forgotten",
        (">", "forgotten"),
        n=1,
        # a model that reads nothing at all has another fault
        condition=lambda view: view.first("call.inputs") != 0,
    ),
    Comparison("ARC012", "gradient.depth_ratio", ("<", "least"), condition=_vanishes_on_the_way),
    Comparison("GRD005", "gradient.faint", ("<", "share"), n=2),
    Comparison("ARC013", "gradient.depth_ratio", (">", "most"), condition=goes_badly),
)
