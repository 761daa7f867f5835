"""Causes in how a model is built: residual paths, norms, scores, units."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, goes_badly
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def post_norm(view: HistoryView) -> Candidate | None:
    """Norms after the addition, and gradients that do not come down, or nothing learnt."""
    if view.facts.norm != "post" or view.goes_well:
        return None
    least = limit("ARC002", "depth_ratio")
    ratio = view.lasting("gradient.depth_ratio", lambda v: v < least)
    stuck = view.updates >= 100 and (view.learnt is not None)
    deep = (view.facts.n_layers or 0) >= limit("ARC002", "layers")
    alike = deep or view.lasting("tokens.cosine", lambda v: v > 0.98) is not None
    if ratio is None and not (stuck and alike and view.above_frequencies):
        return None
    return Candidate(
        code="ARC002",
        likely=0.9 if ratio is not None else 0.7,
        what="Norms stand after the addition, and the first blocks hear little of the loss.",
        clues=clue("ARC002", "gradient.depth_ratio", ratio.value if ratio else None)
        + clue("ARC002", "layers", view.facts.n_layers),
        where="every block",
        step=ratio.step if ratio else None,
    )


def idle_depth(view: HistoryView) -> Candidate | None:
    """Deep blocks that add nothing to a stream that has grown."""
    if (view.facts.n_layers or 0) < limit("ARC004", "layers"):
        return None
    small, large = limit("ARC004", "branch"), limit("ARC004", "growth")
    idle = view.lasting("stream.branch_ratio", lambda v: v < small)
    growth = view.lasting("stream.growth", lambda v: v > large)
    if growth is None or (idle is None and view.goes_well):
        return None
    return Candidate(
        code="ARC004",
        likely=0.7 if idle else 0.5,
        what=f"The stream grows to {growth.value:.3g} times its size from first block to last.",
        clues=clue("ARC004", "stream.growth", growth.value)
        + clue("ARC004", "stream.branch_ratio", idle.value if idle else None),
        where=idle.where if idle else growth.where,
        step=growth.step,
    )


def no_final_norm(view: HistoryView) -> Candidate | None:
    """No norm before the head; harmless in shallow models."""
    if view.facts.final_norm is not False or view.facts.norm == "post":
        return None
    start, guessing = view.start, view.guessing
    loud = start is not None and guessing is not None and start > guessing + 0.5
    drift = view.last("logits.log_z")
    return Candidate(
        code="ARC005",
        likely=0.85 if loud else 0.5,
        what="Nothing brings the stream to size between the last block and the head.",
        clues=clue("ARC005", "final norm", "none") + clue("ARC005", "logits.log_z", drift),
        where="model.decoder.final_norm",
        step=0,
        severity=None if loud or not view.goes_well else "note",
    )


def score_scale(view: HistoryView) -> Candidate | None:
    """Scores that are not multiplied by 1 / sqrt(d_head)."""
    scale = view.facts.score_scale
    factor = limit("ARC006", "factor")
    measured = view.readings("attention.max_logit")
    # some models mean another scale (T5): a config by itself is no mistake
    if scale is None or 1 / factor <= scale <= factor or not measured:
        return None
    code = "ARC006" if scale > 1 else "ARC007"
    narrow = (view.first("attention.entropy") or 1.0) < limit("INI004", "entropy")
    large = (view.last("attention.max_logit") or 0.0) > limit("ATT007", "score")
    return Candidate(
        code=code,
        likely=0.85,
        what=f"Scores are multiplied by {scale:.3g} times 1 / sqrt(d_head).",
        clues=clue(code, "scale times sqrt(d_head)", scale)
        + clue(code, "attention.max_logit", view.last("attention.max_logit")),
        where="attention",
        step=0,
        severity=None if narrow or (large and not view.goes_well) else "note",
    )


def zero_scores(view: HistoryView) -> Candidate | None:
    """Scores that are exactly zero, again and again, in every head."""
    readings = view.readings("attention.max_logit")
    if len(readings) < 3 or any(read.value != 0 for read in readings):
        return None
    return Candidate(
        code="ARC008",
        likely=0.95,
        what=f"All scores are exactly 0, from update {readings[0].step} to {readings[-1].step}.",
        clues=clue("ARC008", "attention.max_logit", 0.0),
        where=readings[-1].where,
        step=readings[0].step,
    )


def dead_units(view: HistoryView) -> Candidate | None:
    """Most units of a layer dead, from the start or for good."""
    dead = limit("ARC009", "dead")
    lasting = view.lasting("units.dead", lambda v: v > dead)
    if lasting is None:
        return None
    atonce = lasting.step <= 5
    return Candidate(
        code="ARC009",
        likely=0.9 if atonce else 0.6,
        what=f"{lasting.value:.0%} of the units of one layer are moved by no token.",
        clues=clue("ARC009", "units.dead", lasting.value),
        where=lasting.where,
        step=lasting.step,
        severity=None if atonce or not view.goes_well else "note",
    )


def heavy_dropout(view: HistoryView) -> Candidate | None:
    """Dropout of more than a half, or of much and little learnt."""
    p = view.facts.dropout
    if p is None or p <= limit("ARC010", "high"):
        return None
    absurd = p > limit("ARC010", "most")
    return Candidate(
        code="ARC010",
        likely=0.85 if absurd else 0.4,
        what=f"Dropout sets {p:.0%} of the features to zero.",
        clues=clue("ARC010", "dropout", p),
        where="model.decoder.dropout",
        step=0,
        severity=None if absurd else "note",
    )


def alike(view: HistoryView) -> Candidate | None:
    """Tokens alike after the last block, and the loss at frequencies."""
    ceiling = limit("ARC011", "cosine")
    late = [read for read in view.readings("tokens.cosine", after=200) if read.value > ceiling]
    if len(late) < 5 or view.goes_well:
        return None
    return Candidate(
        code="ARC011",
        likely=0.5,
        what="After the last block, two tokens of a text have nearly the same features.",
        clues=clue("ARC011", "tokens.cosine", late[0].value),
        where=late[0].where,
        step=late[0].step,
        rivals=("DAT009",),
    )


def _least_depth_ratio(view: HistoryView) -> float | None:
    lowest = view.lowest("gradient.depth_ratio")
    return None if lowest is None else lowest.value


CAUSES: tuple[Cause, ...] = (
    Comparison(
        code="ARC001",
        number=lambda view: view.facts.residual,
        rule=("is", False),
        likely=0.97,
        what="The blocks have no residual path: their input does not bypass their layers.",
        label="residual path",
        shown="none",
        also={"gradient.depth_ratio": _least_depth_ratio},
        where="every block",
        step=0,
    ),
    post_norm,
    Comparison(
        code="ARC003",
        number=lambda view: view.facts.norm,
        rule=("is", "none"),
        likely=0.9,
        what="There is no LayerNorm or RMSNorm in the blocks.",
        label="norms in the blocks",
        shown=0,
        also={"stream.size": lambda view: view.last("stream.size")},
        where="every block",
        step=0,
        severity_if_well="warn",
    ),
    idle_depth,
    no_final_norm,
    score_scale,
    zero_scores,
    dead_units,
    heavy_dropout,
    alike,
    Comparison(
        code="ARC012",
        number="gradient.depth_ratio",
        rule=("<", "least"),
        likely=0.55,
        what="The first block's gradients are {value:.1e} of the last one's.",
        condition=goes_badly,
        where="the first block",
    ),
    Comparison(
        code="ARC013",
        number="gradient.depth_ratio",
        rule=(">", "most"),
        likely=0.55,
        what="The first block's gradients are {value:.1e} times the last one's.",
        condition=goes_badly,
        where="the first block",
    ),
)
