"""Causes in how a model is built: residual paths, norms, scores, units.

Comes in: the course of a training. Goes out: suspects. They do not know one another.
"""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def no_residual(course: HistoryView) -> Candidate | None:
    """The blocks were seen, or are said, to have no path past their layers."""
    if course.facts.residual is not False:
        return None
    ratio = course.lowest("gradient.depth_ratio")
    clues = clue("ARC001", "gradient.depth_ratio", None if ratio is None else ratio.value)
    return Candidate(
        code="ARC001",
        likely=0.97,
        what="What a block is given does not go past its layers to what it gives.",
        clues=(*clue("ARC001", "residual path", "none"), *clues),
        where="every block",
        step=0,
    )


def post_norm(course: HistoryView) -> Candidate | None:
    """Norms after the addition, and gradients that do not come down, or nothing learnt."""
    if course.facts.norm != "post" or course.goes_well:
        return None
    least = limit("ARC002", "depth_ratio")
    ratio = course.lasting("gradient.depth_ratio", lambda v: v < least)
    stuck = course.updates >= 100 and (course.learnt is not None)
    deep = (course.facts.n_layers or 0) >= limit("ARC002", "layers")
    alike = deep or course.lasting("tokens.cosine", lambda v: v > 0.98) is not None
    if ratio is None and not (stuck and alike and course.above_frequencies):
        return None
    return Candidate(
        code="ARC002",
        likely=0.9 if ratio is not None else 0.7,
        what="Norms stand after the addition, and the first blocks hear little of the loss.",
        clues=clue("ARC002", "gradient.depth_ratio", ratio.value if ratio else None)
        + clue("ARC002", "layers", course.facts.n_layers),
        where="every block",
        step=ratio.step if ratio else None,
    )


def no_norms(course: HistoryView) -> Candidate | None:
    """No norm in the blocks."""
    if course.facts.norm != "none":
        return None
    return Candidate(
        code="ARC003",
        likely=0.9,
        what="No LayerNorm or RMSNorm was found in the blocks.",
        clues=clue("ARC003", "norms in the blocks", 0)
        + clue("ARC003", "stream.size", course.last("stream.size")),
        where="every block",
        step=0,
        severity="warn" if course.goes_well else None,
    )


def idle_depth(course: HistoryView) -> Candidate | None:
    """Deep blocks that add nothing to a stream that has grown."""
    if (course.facts.n_layers or 0) < limit("ARC004", "layers"):
        return None
    small, large = limit("ARC004", "branch"), limit("ARC004", "growth")
    idle = course.lasting("stream.branch_ratio", lambda v: v < small)
    growth = course.lasting("stream.growth", lambda v: v > large)
    if growth is None or (idle is None and course.goes_well):
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


def no_final_norm(course: HistoryView) -> Candidate | None:
    """No norm before the head; harmless in shallow models."""
    if course.facts.final_norm is not False or course.facts.norm == "post":
        return None
    start, guessing = course.start, course.guessing
    loud = start is not None and guessing is not None and start > guessing + 0.5
    drift = course.last("logits.log_z")
    return Candidate(
        code="ARC005",
        likely=0.85 if loud else 0.5,
        what="Nothing brings the stream to size between the last block and the head.",
        clues=clue("ARC005", "final norm", "none") + clue("ARC005", "logits.log_z", drift),
        where="model.decoder.final_norm",
        step=0,
        severity=None if loud or not course.goes_well else "note",
    )


def score_scale(course: HistoryView) -> Candidate | None:
    """Scores that are not multiplied by 1 / sqrt(d_head)."""
    scale = course.facts.score_scale
    factor = limit("ARC006", "factor")
    measured = course.of("attention.max_logit")
    # some models mean another scale (T5): a config by itself is no mistake
    if scale is None or 1 / factor <= scale <= factor or not measured:
        return None
    code = "ARC006" if scale > 1 else "ARC007"
    narrow = (course.first("attention.entropy") or 1.0) < limit("INI004", "entropy")
    large = (course.last("attention.max_logit") or 0.0) > limit("ATT007", "score")
    return Candidate(
        code=code,
        likely=0.85,
        what=f"Scores are multiplied by {scale:.3g} times 1 / sqrt(d_head).",
        clues=clue(code, "scale times sqrt(d_head)", scale)
        + clue(code, "attention.max_logit", course.last("attention.max_logit")),
        where="attention",
        step=0,
        severity=None if narrow or (large and not course.goes_well) else "note",
    )


def zero_scores(course: HistoryView) -> Candidate | None:
    """Scores that are exactly zero, again and again, in every head."""
    readings = course.of("attention.max_logit")
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


def dead_units(course: HistoryView) -> Candidate | None:
    """Most units of a layer dead, from the start or for good."""
    dead = limit("ARC009", "dead")
    lasting = course.lasting("units.dead", lambda v: v > dead)
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
        severity=None if atonce or not course.goes_well else "note",
    )


def heavy_dropout(course: HistoryView) -> Candidate | None:
    """Dropout of more than a half, or of much and little learnt."""
    p = course.facts.dropout
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


def alike(course: HistoryView) -> Candidate | None:
    """Tokens alike after the last block, and the loss at frequencies."""
    ceiling = limit("ARC011", "cosine")
    late = [read for read in course.of("tokens.cosine", after=200) if read.value > ceiling]
    if len(late) < 5 or course.goes_well:
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


def vanishing(course: HistoryView) -> Candidate | None:
    """Gradients that do not reach the first blocks, whatever the reason."""
    least = limit("ARC012", "least")
    ratio = course.lasting("gradient.depth_ratio", lambda v: v < least)
    if ratio is None or course.goes_well:
        return None
    return Candidate(
        code="ARC012",
        likely=0.55,
        what=f"The first block's gradients are {ratio.value:.1e} of the last one's.",
        clues=clue("ARC012", "gradient.depth_ratio", ratio.value),
        where="the first block",
        step=ratio.step,
    )


def exploding(course: HistoryView) -> Candidate | None:
    """Gradients that grow on their way to the first blocks."""
    ceiling = limit("ARC013", "most")
    ratio = course.lasting("gradient.depth_ratio", lambda v: v > ceiling)
    if ratio is None or course.goes_well:
        return None
    return Candidate(
        code="ARC013",
        likely=0.55,
        what=f"The first block's gradients are {ratio.value:.1e} times the last one's.",
        clues=clue("ARC013", "gradient.depth_ratio", ratio.value),
        where="the first block",
        step=ratio.step,
    )


CAUSES = (
    no_residual,
    post_norm,
    no_norms,
    idle_depth,
    no_final_norm,
    score_scale,
    zero_scores,
    dead_units,
    heavy_dropout,
    alike,
    vanishing,
    exploding,
)
