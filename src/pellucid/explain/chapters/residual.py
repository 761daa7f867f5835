"""Residual stream: what each sublayer adds to it, and to one prediction."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch.nn import functional as F

from pellucid.catalogue import message, messages
from pellucid.explain.chapter_types import Bars, Content, Lines, Receipt
from pellucid.explain.contributions import contributions, why_no_contributions
from pellucid.explain.expressions import Expression, constant
from pellucid.explain.losses.names import piece
from pellucid.explain.outputs import target_word
from pellucid.explain.part_facts import is_identity
from pellucid.explain.receipts import residual_receipt
from pellucid.explain.receipts.builder import ReceiptBuilder, cell, row
from pellucid.explain.residual_sums import list_sums, why_no_sums
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list


def build(trace: Trace, selection: Selection) -> Content:
    """Contributions to the logit of the next or likeliest word; and the steps of the stream."""
    picture, receipt = None, None
    notes: list[str] = []
    reason, no_sum_reason = why_no_contributions(trace), why_no_sums(trace, selection.side)
    if selection.side != trace.side:
        notes.append(message("residual.this-stack-predicts-no-word"))
    elif reason is None:
        picture, receipt = _split_logit(trace, selection)
        bare = is_identity(trace.stack_pass(trace.side).stack.final_norm)
        scale = "" if bare else message("residual.with-the-final-norm-scale")
        notes.append(message("residual.direct-contributions-so-they-add", scale=scale))
        if trace.model.soft_cap is not None:
            notes.append(message("residual.the-logit-is-capped-afterwards"))
    else:
        notes.append(message("residual.contributions-do-not-add-up", reason=reason))
    if no_sum_reason is not None and reason != no_sum_reason:
        notes.append(message("residual.there-is-no-plain-sum", no_sum_reason=no_sum_reason))
    stream_sums = list_sums(trace, selection.side, selection.layer)
    return Content(
        sentence=message("residual.each-layer-reads-the-stream", query=selection.query(trace))
        if no_sum_reason is None
        else message("residual.the-state-of-passes-from", query=selection.query(trace)),
        pictures=(picture, *_steps(trace, selection)),
        receipts=(
            receipt,
            *(residual_receipt(trace, selection, stream_sum) for stream_sum in stream_sums),
        ),
        notes=notes,
    )


def _split_logit(trace: Trace, selection: Selection) -> tuple[Bars, Receipt]:
    word, origin = target_word(trace, selection.token)
    logit_parts = contributions(trace, selection.token, word)
    picture = Bars(
        title=message("residual.what-each-part-adds-to", word=piece(trace, word), origin=origin),
        names=logit_parts.names,
        values=logit_parts.values,
        unit=message("word.logit"),
    )
    parts = row(torch.tensor(logit_parts.values, dtype=torch.float64), "contributions")
    expression: Expression = parts.sum()
    formula = "Σ contributions"
    if trace.model.soft_cap is not None:
        cap = constant(trace.model.soft_cap, "cap")
        expression, formula = cap * (expression / cap).tanh(), f"cap × tanh({formula} / cap)"
    return picture, ReceiptBuilder(trace).receipt(
        cell("logits", selection.token, word),
        title=message("residual.the-contributions-together-and-the", word=piece(trace, word)),
        formula=formula,
        expression=expression,
        source=(contributions, "terms = ["),
    )


def _steps(trace: Trace, selection: Selection) -> tuple[Lines, Lines]:
    """The cosine of the stream before and after each layer; and its length, on its own scale."""
    stack_pass = trace.stack_pass(selection.side)
    states = [state[0, selection.token].double() for state in stack_pass.states]
    turns = [float(F.cosine_similarity(*pair, dim=0)) for pair in pairwise(states)]
    lengths = to_list(torch.stack(states[1:]).square().sum(-1).sqrt())
    layers = tuple(float(layer) for layer in range(len(turns)))
    return (
        Lines(
            title=message("residual.the-stream-after-each-layer"),
            names=messages("word.cosine"),
            x=layers,
            series=(tuple(turns),),
            x_unit=message("word.layer"),
        ),
        Lines(
            title=message("residual.the-length-after-each-layer"),
            names=messages("word.length"),
            x=layers,
            series=(tuple(lengths),),
            x_unit=message("word.layer"),
        ),
    )
