"""Receipts of local rules: how a gradient passes a softmax, a weighted sum, a score and a norm."""

from __future__ import annotations

from typing import assert_never

from pellucid.catalogue import message
from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, Vector, constant
from pellucid.explain.part_facts import may_bias_by_query, norms_one_token
from pellucid.explain.receipts.builder import ReceiptBuilder, cell, row
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.maths.norms import layer_norm_grad, rms_norm_grad
from pellucid.maths.softmax import softmax_jacobian_product
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)


def why_no_rules(trace: Trace, selection: Selection) -> str | None:
    """Why the rules of this attention are not shown; None if they are."""
    facts = selection.attention(trace).facts
    match facts:
        case LinearAttentionFacts():
            return attention_heads.NO_SCORES
        case NeuralMemoryFacts():
            return message("receipts.a-gate-mixes-the-head")
        case SoftmaxAttentionFacts() | LatentAttentionFacts():
            return None
        case _:
            assert_never(facts)


def softmax_rule(trace: Trace, selection: Selection) -> Receipt:
    """dL/ds_k = w_k (dL/dw_k - sum_j w_j dL/dw_j): the Jacobian's row, times dL/dw."""
    build, name, token = ReceiptBuilder(trace), f"{selection.head_name}.weights", selection.token
    w, upstream = build.vector("w", name, token), build.vector("dL/dw", f"{name}.grad", token)
    own_weight = build.number("w", name, token, selection.other)
    own_gradient = build.number("dL/dw", f"{name}.grad", token, selection.other)
    return build.gradient(
        cell(f"{selection.head_name}.scores.grad", token, selection.other),
        title=message("receipts.through-the-softmax-score-of", pair=selection.pair(trace)),
        formula="w (dL/dw - Σ w dL/dw)",
        expression=own_weight * (own_gradient - w @ upstream),
        source=(softmax_jacobian_product, "return p * (direction"),
    )


def sum_rule(trace: Trace, selection: Selection) -> Receipt | None:
    """dL/dw[q, k] = dL/dout[q] . v[k]; None if positions add to the values too."""
    build, name = ReceiptBuilder(trace), selection.head_name
    if selection.attention(trace).positions.adds_values:
        return None
    scale = trace.scales.get(selection.as_head(), 1.0)
    if scale == "mean":
        mean_grad = trace[f"{name}.out.grad"].double().mean(0)
        upstream = row(mean_grad, "dL/dout, the mean over queries", f"{name}.out.grad")
    else:
        upstream = build.vector("dL/dout", f"{name}.out.grad", selection.token)
    formula = "dL/dout · v"
    if selection.attention(trace).output_gate is not None:
        gates = trace[f"{name}.output_gate"][selection.token].double()
        gated = trace[f"{name}.out.grad"][selection.token].double() * gates
        upstream, formula = row(gated, "dL/dout × g"), "(dL/dout × g) · v"
    expression: Expression = upstream @ build.vector("v", f"{name}.v", selection.other)
    if scale != "mean" and scale != 1.0:
        expression, formula = expression * constant(scale, "ablation"), f"{formula} × ablation"
    return build.gradient(
        cell(f"{name}.weights.grad", selection.token, selection.other),
        title=message("receipts.through-the-weighted-sum-weight", pair=selection.pair(trace)),
        formula=formula,
        expression=expression,
    )


def query_rule(trace: Trace, selection: Selection) -> Receipt | None:
    """dL/dq[q, f] = scale sum_k dL/ds[q, k] k[k, f]; None if a cap or positions come between."""
    build, attention, name = ReceiptBuilder(trace), selection.attention(trace), selection.head_name
    scoring = attention.scoring
    if scoring is None or scoring.soft_cap or may_bias_by_query(attention.positions):
        return None
    feature = selection.feature % attention.q.shape[-1]
    upstream = build.vector("dL/ds", f"{name}.scores.grad", selection.token)
    keys = build.vector(f"k[:, {feature}]", f"{name}.k[:, {feature}]")
    return build.gradient(
        cell(f"{name}.q.grad", selection.token, feature),
        title=message(
            "receipts.through-the-scores-feature-of", feature=feature, query=selection.query(trace)
        ),
        formula=f"scale × Σ dL/ds k[:, {feature}]",
        expression=constant(scoring.scale, "scale") * (upstream @ keys),
    )


def norm_rule(trace: Trace, selection: Selection, norm: str) -> Receipt | None:
    """dL/dx = s (gain g - mean(gain g) - unit mean(gain g unit)); None for an unknown norm.

    `norm` is its name in the block. RMSNorm subtracts no mean. The last mean comes from the norm's
    output: gain unit = y - bias, so the sum of gain g unit is g . y - g . bias.
    """
    address = f"{selection.layer_name}.{norm}"
    name = f"{selection.side}.blocks.{selection.layer}.{norm}"
    facts = norms_one_token(trace.model.get_submodule(name))
    if facts is None:
        return None
    build, token, feature = ReceiptBuilder(trace), selection.token, selection.feature
    x, g = build.vector("x", f"{address}.in", token), build.vector("g", f"{address}.grad", token)
    n = constant(len(x.values), "n")
    centred_x: Expression = build.number("x", f"{address}.in", token, feature)
    mean_square: Expression = x @ x / n
    unit_product: Expression = g @ build.vector("y", address, token)
    scaled_grad: Expression = build.number("g", f"{address}.grad", token, feature)
    if facts.gain is not None:
        gain: Expression = build.number("gain", f"{name}.{facts.gain}", feature)
        scaled_grad = (facts.gain_offset + gain if facts.gain_offset else gain) * scaled_grad
    if facts.bias is not None:
        unit_product -= g @ build.vector("bias", f"{name}.{facts.bias}")
    formula, source = "s (gain g - unit mean(gain g unit))", (rms_norm_grad, "return scale *")
    if facts.centred:
        mean, mean_square = _mean_and_variance(x)
        centred_x -= mean
        no_gain = facts.gain is None
        gained = g.sum() if no_gain else build.vector("gain", f"{name}.{facts.gain}") @ g
        if facts.gain_offset:
            gained += facts.gain_offset * g.sum()
        scaled_grad -= gained / n
        formula = "s (gain g - mean(gain g) - unit mean(gain g unit))"
        source = (layer_norm_grad, "dx = standardised_grad")
    s = 1.0 / (mean_square + constant(facts.eps, "eps")).sqrt()
    return build.gradient(
        cell(f"{address}.in.grad", token, feature),
        title=message(
            "receipts.through-the-norm-feature-of", feature=feature, query=selection.query(trace)
        ),
        formula=formula,
        expression=s * (scaled_grad - centred_x * s * (unit_product / n)),
        source=source,
    )


def _mean_and_variance(features: Vector) -> tuple[Expression, Expression]:
    """The mean of a row, and the mean of its squares less the square of its mean."""
    n = constant(len(features.values), "n")
    mean = features.sum() / n
    return mean, features @ features / n - mean * mean
