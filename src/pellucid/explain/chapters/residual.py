"""Residual stream: what each sublayer adds to it, and to one prediction."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch.nn import functional as F

from pellucid.explain.chapter_types import Bars, Chapter, Lines, Picture, Place, Receipt
from pellucid.explain.chapters.target_token import target_word
from pellucid.explain.contributions import contributions, why_no_contributions
from pellucid.explain.part_facts import is_identity
from pellucid.explain.receipts import residual_receipt
from pellucid.explain.receipts.builder import apply, at, receipt, row, source_line
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.residual_sums import list_sums, why_no_sums
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list


def build(trace: Trace, place: Place) -> Chapter:
    """Contributions to the logit of the word that came, or is likeliest; and the stream's steps."""
    selection = select_place(trace, place)
    pictures: list[Picture] = []
    receipts: list[Receipt] = []
    notes: list[str] = []
    reason = why_no_contributions(trace)
    if selection.side != trace.side:
        notes.append("no word is read off this stack: its states are read by the other")
    elif reason is None:
        word, origin = target_word(trace, selection.token)
        picture, contribution_receipt = _split_logit(trace, selection, word, origin)
        pictures.append(picture)
        receipts.append(contribution_receipt)
        notes += [
            "direct contributions"
            + (
                ""
                if is_identity(trace.stack_pass(trace.side).stack.final_norm)
                else ", with the final norm's scale held as it is for the whole stream"
            )
            + ": so they add up to the logit",
            *(("the logit is capped afterwards",) if trace.model.soft_cap is not None else ()),
        ]
    else:
        notes.append(f"contributions do not add up to a logit here: {reason}")
    receipts += [
        residual_receipt(trace, selection, stream_sum)
        for stream_sum in list_sums(trace, selection.side, selection.layer)
    ]
    no_sum_reason = why_no_sums(trace, selection.side)
    if no_sum_reason is not None and reason != no_sum_reason:
        notes.append(f"there is no plain sum to show: {no_sum_reason}")
    pictures.append(_steps(trace, selection))
    return Chapter(
        sentence=f"Each layer reads the stream of {selection.query(trace)} and adds to it: nothing "
        "else carries what a token is from the first layer to the last."
        if no_sum_reason is None
        else f"What {selection.query(trace)} is goes from layer to layer, and not by plain sums.",
        pictures=tuple(pictures),
        receipts=tuple(receipts),
        notes=tuple(notes),
    )


def _split_logit(
    trace: Trace, selection: Selection, word: int, origin: str
) -> tuple[Bars, Receipt]:
    logit_parts = contributions(trace, selection.token, word)
    cap = trace.model.soft_cap
    bars = Bars(
        title=f"what each part adds to the logit of {piece(trace, word)}, {origin}",
        names=logit_parts.names,
        values=logit_parts.values,
        unit="logit",
    )
    parts = row(torch.tensor(logit_parts.values, dtype=torch.float64), "contributions")
    expression = apply("sum", parts)
    if cap is not None:
        from pellucid.explain.receipts.builder import constant

        limit = constant(cap, "cap")
        expression = apply("mul", limit, apply("tanh", apply("div", expression, limit)))
    return bars, receipt(
        trace,
        title=f"the contributions together, and the logit of {piece(trace, word)}",
        formula="Σ contributions" if cap is None else "cap × tanh(Σ contributions / cap)",
        expression=expression,
        address=at("logits", selection.token, word),
        source=source_line(contributions, "terms = ["),
    )


def _steps(trace: Trace, selection: Selection) -> Lines:
    """How far each layer turns the stream, and how long it is."""
    states = [
        state[0, selection.token].double() for state in trace.stack_pass(selection.side).states
    ]
    turns = [
        float(F.cosine_similarity(state, next_state, dim=0))
        for state, next_state in pairwise(states)
    ]
    lengths = to_list(torch.stack(states[1:]).square().sum(-1).sqrt())
    return Lines(
        title="the stream after each layer: cosine with the one before, and its length",
        names=("cosine", "length"),
        x=tuple(float(layer) for layer in range(len(turns))),
        series=(tuple(turns), tuple(lengths)),
        x_unit="layer",
    )
