"""Receipts of sums: an embedding, what a position adds, a step of the residual stream."""

from __future__ import annotations

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression
from pellucid.explain.forward_pass import Side
from pellucid.explain.part_facts import is_identity, where_positions_act
from pellucid.explain.receipts.builder import (
    added,
    apply,
    at,
    constant,
    number,
    receipt,
    source_line,
)
from pellucid.explain.residual_sums import Sum
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model import Transformer


def stack_prefix(trace: Trace, side: Side) -> str:
    """What the addresses of a stack's beginning begin with."""
    return "" if side == trace.side else "encoder."


def embedding_receipt(trace: Trace, selection: Selection) -> Receipt:
    """One feature of a token's embedding: its row, scaled, with its kind of text where said."""
    at_start = stack_prefix(trace, selection.side)
    token, feature = selection.token, selection.feature
    token_id = int(trace.stack_pass(selection.side).ids[0, token])
    table = number(trace, at("token_embedding.weight", token_id, feature), f"E[{token_id}]")
    expression: Expression = table
    formula = f"E[{token_id}, {feature}]"
    scale = trace.model.embedding_scale
    if scale != 1.0:
        expression, formula = (
            apply("mul", expression, constant(scale, "√d_model")),
            f"{formula} × √d_model",
        )
    if trace.model.segment_embedding is not None:
        segment_address = at("segment_embedding.weight", 0, feature)
        expression, formula = (
            added(expression, number(trace, segment_address, "S[0]")),
            f"{formula} + S[0, {feature}]",
        )
    return receipt(
        trace,
        title=f"feature {feature} of the embedding of {selection.query(trace)}",
        formula=formula,
        expression=expression,
        address=at(f"{at_start}embedding", token, feature),
        source=source_line(Transformer.embed, "x = self.token_embedding(ids)"),
    )


def position_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """Embedding plus what its position adds; None where it adds nothing, or a norm follows."""
    at_start = stack_prefix(trace, selection.side)
    stack = trace.stack_pass(selection.side).stack
    if where_positions_act(stack.positions) != "stream" or not is_identity(stack.input_norm):
        return None
    token, feature = selection.token, selection.feature
    letter = selection.layer_name[0]
    return receipt(
        trace,
        title=f"feature {feature} of {selection.query(trace)}, told where it stands",
        formula="embedding + position",
        expression=apply(
            "add",
            number(trace, at(f"{at_start}embedding", token, feature), "embedding"),
            number(trace, at(f"{at_start}positions", token, feature), "position"),
        ),
        address=at(f"{letter}0.residual", token, feature),
        source=source_line(type(stack), "self.positions.embed(x, view)"),
    )


def residual_receipt(trace: Trace, selection: Selection, stream_sum: Sum) -> Receipt:
    """One feature of the stream after a sublayer: what it was, and what was written."""
    token, feature = selection.token, selection.feature
    entering = number(trace, at(stream_sum.before, token, feature), "stream")
    terms = [
        number(trace, at(address, token, feature), f"written by {name}")
        for name, address in stream_sum.terms
    ]
    first: Expression = entering
    formula = "stream + " + " + ".join(f"{name}" for name, _ in stream_sum.terms)
    expression = added(first, *terms)
    return receipt(
        trace,
        title=f"feature {feature} of the stream behind {stream_sum.name}",
        formula=formula,
        expression=expression,
        address=at(stream_sum.after, token, feature),
        source=source_line(*stream_sum.source),
    )
