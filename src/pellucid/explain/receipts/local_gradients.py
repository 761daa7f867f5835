"""Receipts of local rules: how a gradient passes a softmax, a weighted sum, a score and a norm."""

from __future__ import annotations

from typing import assert_never

from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression
from pellucid.explain.part_facts import may_bias_by_query, norms_one_token
from pellucid.explain.receipts.builder import (
    apply,
    at,
    constant,
    number,
    product,
    receipt,
    row,
    source_line,
    summed,
    vector,
)
from pellucid.explain.receipts.gradients import autograd_line
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.maths.norms import layer_norm_grad, rms_norm_grad
from pellucid.maths.softmax import softmax_jacobian_product
from pellucid.model.facts import (
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)


def why_no_rules(trace: Trace, selection: Selection) -> str | None:
    """Why attention's rules are not shown at a place; None where they are."""
    facts = selection.attention(trace).facts
    match facts:
        case LinearAttentionFacts():
            return attention_heads.NO_SCORES
        case NeuralMemoryFacts():
            return "what a head found is mixed with a memory: its rules are not shown step by step"
        case SoftmaxAttentionFacts():
            return None
        case _:
            assert_never(facts)


def softmax_rule(trace: Trace, selection: Selection) -> Receipt:
    """dL/ds_k = w_k (dL/dw_k - sum_j w_j dL/dw_j): the Jacobian's row, times what arrives."""
    name = selection.head_name
    w = vector(trace, at(f"{name}.weights", selection.token), "w")
    upstream = vector(trace, at(f"{name}.weights.grad", selection.token), "dL/dw")
    own_weight = number(trace, at(f"{name}.weights", selection.token, selection.other), "w")
    own_gradient = number(
        trace, at(f"{name}.weights.grad", selection.token, selection.other), "dL/dw"
    )
    mean = product(w, upstream)
    return receipt(
        trace,
        title=f"through the softmax: score of {selection.pair(trace)}",
        formula="w (dL/dw - Σ w dL/dw)",
        expression=apply("mul", own_weight, apply("sub", own_gradient, mean)),
        address=at(f"{name}.scores.grad", selection.token, selection.other),
        source=source_line(softmax_jacobian_product, "return p * (direction"),
        least=0.0,
    )


def sum_rule(trace: Trace, selection: Selection) -> Receipt | None:
    """dL/dw[q, k] = dL/dout[q] . v[k]; None where positions add to the values too."""
    attention, name = selection.attention(trace), selection.head_name
    if attention.positions.adds_values:
        return None
    scale = trace.scales.get(selection.as_head(), 1.0)
    if scale == "mean":
        mean_grad = trace[f"{name}.out.grad"].double().mean(0)
        upstream = row(mean_grad, "dL/dout, the mean over queries", f"{name}.out.grad")
    else:
        upstream = vector(trace, at(f"{name}.out.grad", selection.token), "dL/dout")
    v = vector(trace, at(f"{name}.v", selection.other), "v")
    expression: Expression = product(upstream, v)
    formula = "dL/dout · v"
    if scale != "mean" and scale != 1.0:
        expression, formula = (
            apply("mul", expression, constant(scale, "ablation")),
            f"{formula} × ablation",
        )
    return receipt(
        trace,
        title=f"through the weighted sum: weight of {selection.pair(trace)}",
        formula=formula,
        expression=expression,
        address=at(f"{name}.weights.grad", selection.token, selection.other),
        source=autograd_line(),
        least=0.0,
    )


def query_rule(trace: Trace, selection: Selection) -> Receipt | None:
    """dL/dq[q, f] = scale sum_k dL/ds[q, k] k[k, f]; None where a cap or positions come between."""
    attention, name = selection.attention(trace), selection.head_name
    scoring = attention.scoring
    if scoring is None or scoring.soft_cap or may_bias_by_query(attention.positions):
        return None
    feature = selection.feature % attention.q.shape[-1]
    upstream = vector(trace, at(f"{name}.scores.grad", selection.token), "dL/ds")
    keys = vector(trace, f"{name}.k[:, {feature}]", f"k[:, {feature}]")
    return receipt(
        trace,
        title=f"through the scores: feature {feature} of the query of {selection.query(trace)}",
        formula=f"scale × Σ dL/ds k[:, {feature}]",
        expression=apply("mul", constant(scoring.scale, "scale"), product(upstream, keys)),
        address=at(f"{name}.q.grad", selection.token, feature),
        source=autograd_line(),
        least=0.0,
    )


def norm_rule(trace: Trace, selection: Selection, norm: str) -> Receipt | None:
    """dL/dx = s (gain g - mean(gain g) - unit mean(gain g unit)); None for a norm not known.

    `norm` is its name in the block. RMSNorm takes no mean out. The last mean is told by what the
    norm made: gain unit = y - bias, so the sum of gain g unit is g . y - g . bias.
    """
    address, name = (
        f"{selection.layer_name}.{norm}",
        f"{selection.side}.blocks.{selection.layer}.{norm}",
    )
    module = trace.model.get_submodule(name)
    facts = norms_one_token(module)
    if facts is None or facts.gain is None:
        return None
    token, feature = selection.token, selection.feature
    x = vector(trace, at(f"{address}.in", token), "x")
    g = vector(trace, at(f"{address}.grad", token), "g")
    y = vector(trace, at(address, token), "y")
    n = constant(len(x.values), "n")
    gain_vector = vector(trace, f"{name}.{facts.gain}", "gain")
    gain: Expression = number(trace, at(f"{name}.{facts.gain}", feature), "gain")
    feature_value = number(trace, at(f"{address}.in", token, feature), "x")
    mean: Expression | None = None
    squares: Expression = apply("div", product(x, x), n)
    unit_product: Expression = product(g, y)
    if facts.centred:
        mean = apply("div", summed(x), n)
        squares = apply("sub", squares, apply("mul", mean, mean))
        if facts.bias is not None:
            bias = vector(trace, f"{name}.{facts.bias}", "bias")
            unit_product = apply("sub", unit_product, product(g, bias))
    if facts.gain_offset:
        gain = apply("add", constant(facts.gain_offset), gain)
    eps = constant(facts.eps, "eps")
    s = apply("div", constant(1.0), apply("sqrt", apply("add", squares, eps)))
    unit = apply("mul", feature_value if mean is None else apply("sub", feature_value, mean), s)
    scaled_grad: Expression = apply(
        "mul", gain, number(trace, at(f"{address}.grad", token, feature), "g")
    )
    formula = "s (gain g - unit mean(gain g unit))"
    if mean is not None:
        scaled_grad = apply("sub", scaled_grad, apply("div", product(gain_vector, g), n))
        formula = "s (gain g - mean(gain g) - unit mean(gain g unit))"
    input_gradient = apply("sub", scaled_grad, apply("mul", unit, apply("div", unit_product, n)))
    rule = layer_norm_grad if mean is not None else rms_norm_grad
    return receipt(
        trace,
        title=f"through the norm: feature {feature} of {selection.query(trace)}",
        formula=formula,
        expression=apply("mul", s, input_gradient),
        address=at(f"{address}.in.grad", token, feature),
        source=source_line(
            rule, "dx = standardised_grad" if mean is not None else "return scale *"
        ),
        least=0.0,
    )
