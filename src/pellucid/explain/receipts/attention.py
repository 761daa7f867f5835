"""Receipts of attention: a turned pair, a score, a weight, what a head found.

They say what the model did with its scores: a soft cap, a bias, a sink, a memory beside the window.
"""

from __future__ import annotations

from typing import assert_never

import torch

from pellucid.explain import attention_heads
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, Number, evaluate
from pellucid.explain.part_facts import rotation_of
from pellucid.explain.receipts.builder import (
    TERMS_SHOWN,
    added,
    apply,
    at,
    constant,
    number,
    product,
    receipt,
    row,
    shares,
    source_line,
    total,
    vector,
)
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model import LinearAttention, NeuralMemory, Rotary
from pellucid.model.facts import (
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)
from pellucid.model.linear_attention import EPS
from pellucid.model.scores import gather, scores_of, weights_of
from pellucid.typed import to_list


def score_receipt(trace: Trace, selection: Selection) -> Receipt:
    """scale q . k, capped and with its bias where there are any: before the mask."""
    attention, name = selection.attention(trace), selection.head_name
    scoring = attention.scoring
    assert scoring is not None
    q = vector(trace, at(f"{name}.q", selection.token), "q")
    k = vector(trace, at(f"{name}.k", selection.other), "k")
    expression: Expression = apply("mul", apply("dot", q, k), constant(scoring.scale, "scale"))
    formula = "q · k × scale"
    if scoring.soft_cap is not None:
        cap = constant(scoring.soft_cap, "cap")
        expression = apply("mul", cap, apply("tanh", apply("div", expression, cap)))
        formula = "cap × tanh(q · k × scale / cap)"
    bias_address = at(f"{name}.bias", selection.token, selection.other)
    if attention_heads.bias(attention, selection.head) is not None:
        expression = added(expression, number(trace, bias_address, "bias"))
        formula += " + bias"
    return receipt(
        trace,
        title=f"score of {selection.pair(trace)}",
        formula=formula,
        expression=expression,
        address=at(f"{name}.scores", selection.token, selection.other),
        source=source_line(scores_of, "* scoring.scale"),
    )


def weight_receipt(trace: Trace, selection: Selection) -> Receipt:
    """exp(s - max) over the sum of them, over the keys that are seen; a sink is one more."""
    attention, name = selection.attention(trace), selection.head_name
    address = at(f"{name}.weights", selection.token, selection.other)
    match attention.facts:
        case LinearAttentionFacts():
            return _share_receipt(trace, selection, attention, address)
        case SoftmaxAttentionFacts() | NeuralMemoryFacts():
            pass
        case _:
            assert_never(attention.facts)
    visible_keys = attention_heads.mask(attention)[selection.token].nonzero().flatten()
    scores = trace[f"{name}.scores"][selection.token]
    scoring = attention.scoring
    sinks = None if scoring is None else scoring.sinks
    sink = None if sinks is None else constant(float(sinks[selection.head].detach()), "sink")
    if bool((visible_keys == selection.other).any()):

        def term(place: int) -> Expression:
            key = int(visible_keys[place])
            return Number(float(scores[key]), f"s{key}", at(f"{name}.scores", selection.token, key))

        chosen_index = int((visible_keys == selection.other).nonzero()[0])
        expression = shares(term(chosen_index), scores[visible_keys], term, sink)
        formula = "exp(s - max) / Σ exp(s - max)" + (", the sink counted" if sink else "")
    else:
        expression, formula = constant(0.0, "masked"), "0: the mask hides this key from the query"
    return receipt(
        trace,
        title=f"weight of {selection.pair(trace)}",
        formula=formula,
        expression=expression,
        address=address,
        source=source_line(weights_of, "torch.softmax(scores, dim=-1)"),
    )


def out_receipt(trace: Trace, selection: Selection) -> Receipt:
    """One feature of what a head found: the values, weighed."""
    attention, name = selection.attention(trace), selection.head_name
    feature = selection.feature % attention.outputs.shape[-1]
    scale = trace.scales.get(selection.as_head(), 1.0)
    if scale == "mean":
        mean_weights = trace[f"{name}.weights"].double().mean(0)
        weights = row(mean_weights, "w, the mean over queries", f"{name}.weights")
    else:
        weights = vector(trace, at(f"{name}.weights", selection.token), "w")
    values = row(trace[f"{name}.v"][:, feature], f"v[:, {feature}]", f"{name}.v[:, {feature}]")
    expression = product(weights, values)
    formula = f"w · v[:, {feature}]"
    if attention.positions.adds_values:
        position_values = _added_by_positions(attention, trace[f"{name}.weights"])[:, feature]
        position_value = (
            position_values.mean() if scale == "mean" else position_values[selection.token]
        )
        expression = added(expression, constant(float(position_value), "positions"))
        formula += " + what positions add to the values"
    if attention.gate is not None:
        share = number(trace, at(f"{name}.gate", selection.token), "g")
        memory = number(trace, at(f"{name}.memory", selection.token, feature), "memory")
        window_part = apply("mul", apply("sub", constant(1.0), share), expression)
        expression = added(window_part, apply("mul", share, memory))
        formula = f"(1 - g) × ({formula}) + g × memory"
    if scale != "mean" and scale != 1.0:
        expression, formula = (
            apply("mul", expression, constant(scale, "ablation")),
            f"({formula}) × ablation",
        )
    return receipt(
        trace,
        title=f"feature {feature} of what head {selection.head} found for {selection.query(trace)}",
        formula=formula,
        expression=expression,
        address=at(f"{name}.out", selection.token, feature),
        source=_out_source(attention),
    )


def product_receipt(trace: Trace, selection: Selection) -> Receipt:
    """The shares of a head's keys add up to 1; with a sink, to less."""
    name = selection.head_name
    weights = vector(trace, at(f"{name}.weights", selection.token), "w")
    model = float(trace[f"{name}.weights"][selection.token].double().sum())
    return receipt(
        trace,
        title="the shares together",
        formula="Σ w",
        expression=apply("sum", weights),
        address=at(f"{name}.weights", selection.token),
        source=source_line(weights_of, "torch.softmax(scores, dim=-1)"),
        model=model,
    )


def rotation_receipt(trace: Trace, selection: Selection, vector_name: str = "q") -> Receipt:
    """One feature of a query or key, turned with its partner by the angle of its position."""
    attention, name = selection.attention(trace), selection.head_name
    scheme = attention.positions
    facts = rotation_of(scheme)
    assert facts is not None
    feature = selection.feature % facts.n_rotated
    partner_feature, sign = _partner(feature, facts.n_rotated, facts.pairing)
    token = selection.token if vector_name == "q" else selection.other
    stack = f"{selection.side}.positions"
    component = number(
        trace, at(f"{name}.{vector_name}_plain", token, feature), f"{vector_name}{feature}"
    )
    partner = number(
        trace,
        at(f"{name}.{vector_name}_plain", token, partner_feature),
        f"{vector_name}{partner_feature}",
    )
    cos = number(trace, at(f"{stack}.cos", token, feature), "cos θ")
    sin = number(trace, at(f"{stack}.sin", token, feature), "sin θ")
    partner_term = apply("mul", partner, sin)
    return receipt(
        trace,
        title=f"feature {feature} of {vector_name}, turned with feature {partner_feature}",
        formula=f"{component.name} cos θ {'-' if sign < 0 else '+'} {partner.name} sin θ",
        expression=apply("sub" if sign < 0 else "add", apply("mul", component, cos), partner_term),
        address=at(f"{name}.{vector_name}", token, feature),
        source=source_line(Rotary, "x * cos +"),
    )


def _share_receipt(
    trace: Trace, selection: Selection, attention: AttentionRecord, address: str
) -> Receipt:
    name = selection.head_name
    assert attention.q_plain is not None
    assert attention.k_plain is not None
    mask = attention_heads.mask(attention)[selection.token]
    plain_q = row(attention.q_plain[0, selection.head, selection.token], "φ(q)")
    keys: list[int] = to_list(mask.nonzero().flatten())
    terms = [
        apply("dot", plain_q, row(attention.k_plain[0, selection.head, key], f"φ(k{key})"))
        for key in keys
    ]
    terms_shown, remaining = terms[:TERMS_SHOWN], [evaluate(term) for term in terms[TERMS_SHOWN:]]
    denominator = added(total(terms_shown, remaining), constant(EPS, "eps"))
    q = vector(trace, at(f"{name}.q", selection.token), "q")
    k = vector(trace, at(f"{name}.k", selection.other), "k")
    hidden = not bool(mask[selection.other])
    return receipt(
        trace,
        title=f"share of {selection.pair(trace)}",
        formula="0: the mask hides this key" if hidden else "q · k / (Σ φ(q) · φ(k) + eps)",
        expression=constant(0.0, "masked")
        if hidden
        else apply("div", apply("dot", q, k), denominator),
        address=address,
        source=source_line(LinearAttention, "attended / (normaliser + EPS)"),
    )


def _added_by_positions(attention: AttentionRecord, weights: torch.Tensor) -> torch.Tensor:
    zeros = torch.zeros_like(attention.outputs[:, :1])
    with torch.no_grad():
        return attention.positions.add_values(zeros, weights[None, None].to(zeros), attention.view)[
            0, 0
        ]


def _out_source(attention: AttentionRecord) -> str:
    match attention.facts:
        case NeuralMemoryFacts():
            return source_line(NeuralMemory, "torch.lerp(")
        case LinearAttentionFacts():
            return source_line(LinearAttention, "attended / (normaliser + EPS)")
        case SoftmaxAttentionFacts():
            return source_line(gather, "return _fused(q, read, scoring, bias, view)")
        case _:
            assert_never(attention.facts)


def _partner(feature: int, n_rotated: int, pairing: str) -> tuple[int, int]:
    """The feature it is turned with, and the sign with which that one comes in."""
    if pairing == "half_split":
        half = n_rotated // 2
        return (feature + half, -1) if feature < half else (feature - half, 1)
    return (feature + 1, -1) if feature % 2 == 0 else (feature - 1, 1)
