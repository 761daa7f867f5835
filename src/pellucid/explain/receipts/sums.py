"""Receipts of sums: an embedding, the addition of a position, a step of the residual stream."""

from __future__ import annotations

import math

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, constant
from pellucid.explain.forward_pass import Side
from pellucid.explain.part_facts import is_identity
from pellucid.explain.receipts.builder import ReceiptBuilder, cell
from pellucid.explain.residual_sums import Sum
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model import Transformer


def stack_prefix(trace: Trace, side: Side) -> str:
    """The beginning of the addresses before a stack's first block."""
    return "" if side == trace.side else "encoder."


def embedding_receipt(trace: Trace, selection: Selection) -> Receipt:
    """One feature of a token's embedding: its row, scaled, plus the vector of its segment."""
    build, model = ReceiptBuilder(trace), trace.model
    token, feature = selection.token, selection.feature
    token_id = int(trace.stack_pass(selection.side).ids[0, token])
    expression: Expression = build.number(
        f"E[{token_id}]", "token_embedding.weight", token_id, feature
    )
    formula = f"E[{token_id}, {feature}]"
    if model.embedding_scale != 1.0:
        name = embedding_scale_name(model)
        expression *= constant(model.embedding_scale, name)
        formula += f" × {name}"
    if model.segment_embedding is not None:
        expression += build.number("S[0]", "segment_embedding.weight", 0, feature)
        formula += f" + S[0, {feature}]"
    return build.receipt(
        cell(f"{stack_prefix(trace, selection.side)}embedding", token, feature),
        title=f"feature {feature} of the embedding of {selection.query(trace)}",
        formula=formula,
        expression=expression,
        source=(Transformer.embed, "x = self.token_embedding(ids)"),
    )


def embedding_scale_name(model: Transformer) -> str:
    """What the factor of the embeddings is called."""
    width = model.token_embedding.weight.shape[1]
    return "√d_model" if math.isclose(model.embedding_scale, math.sqrt(width)) else "multiplier"


def position_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """Embedding plus position; None if positions add nothing to it, or a norm or map follows."""
    build, prefix = ReceiptBuilder(trace), stack_prefix(trace, selection.side)
    stack_pass = trace.stack_pass(selection.side)
    stack = stack_pass.stack
    is_last_step = is_identity(stack.input_norm) and not stack_pass.maps_later
    if stack_pass.added_positions is None or not is_last_step:
        return None
    embedding = "embedding" if stack.input_projection is None else "input_projection"
    token, feature = selection.token, selection.feature
    return build.receipt(
        cell(f"{selection.layer_name[0]}0.residual", token, feature),
        title=f"feature {feature} of {selection.query(trace)}, with its position added",
        formula="embedding + position",
        expression=build.number("embedding", f"{prefix}{embedding}", token, feature)
        + build.number("position", f"{prefix}positions", token, feature),
        source=(
            type(stack),
            "self.positions.embed(x, view)"
            if stack.embedding_positions is None
            else "self.embedding_positions.embed(x, view)",
        ),
    )


def residual_receipt(trace: Trace, selection: Selection, stream_sum: Sum) -> Receipt:
    """One feature of the stream after a sublayer: the stream before it, plus its output."""
    build, token, feature = ReceiptBuilder(trace), selection.token, selection.feature
    expression: Expression = build.number("stream", stream_sum.before, token, feature)
    names = [name for name, _ in stream_sum.terms]
    for name, address in stream_sum.terms:
        term: Expression = build.number(f"written by {name}", address, token, feature)
        if stream_sum.multiplier != 1:
            term = constant(stream_sum.multiplier, "multiplier") * term
        expression += term
    if stream_sum.multiplier != 1:
        names = [f"multiplier × {name}" for name in names]
    return build.receipt(
        cell(stream_sum.after, token, feature),
        title=f"feature {feature} of the stream behind {stream_sum.name}",
        formula=" + ".join(("stream", *names)),
        expression=expression,
        source=stream_sum.source,
    )
