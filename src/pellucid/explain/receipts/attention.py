"""Receipts of attention: a rotated pair, a score, a weight, the output of a head.

They show each step between scores and output: a soft cap, a bias, a sink, a gated memory.
"""

from __future__ import annotations

from typing import assert_never, cast

import torch

from pellucid.explain import attention_heads
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, Number, constant, evaluate
from pellucid.explain.part_facts import first_rotated, rotation_of
from pellucid.explain.receipts.builder import (
    TERMS_SHOWN,
    ReceiptBuilder,
    Source,
    cell,
    row,
    softmax_share,
    total,
)
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model import LinearAttention, MultiHeadAttention, NeuralMemory, Rotary
from pellucid.model.disentangled import DisentangledInLayer
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)
from pellucid.model.linear_attention import EPS
from pellucid.model.scores import gather, scores_of, weights_of
from pellucid.typed import to_list

_LINEAR_SOURCE: Source = (LinearAttention, "attended / (normaliser + EPS)")
_SOFTMAX_SOURCE: Source = (weights_of, "torch.softmax(scores, dim=-1)")


def score_receipt(trace: Trace, selection: Selection) -> Receipt:
    """scale q . k, with its cap and bias if it has them, before the mask."""
    build, attention, name = ReceiptBuilder(trace), selection.attention(trace), selection.head_name
    token, other = selection.token, selection.other
    scoring = attention.scoring
    assert scoring is not None
    q, k = build.vector("q", f"{name}.q", token), build.vector("k", f"{name}.k", other)
    expression, formula = q @ k * constant(scoring.scale, "scale"), "q · k × scale"
    if scoring.soft_cap is not None:
        cap = constant(scoring.soft_cap, "cap")
        expression, formula = cap * (expression / cap).tanh(), "cap × tanh(q · k × scale / cap)"
    if attention_heads.bias(attention, selection.head) is not None:
        expression += build.number("bias", f"{name}.bias", token, other)
        formula += " + bias"
    return build.receipt(
        cell(f"{name}.scores", token, other),
        title=f"score of {selection.pair(trace)}",
        formula=formula,
        expression=expression,
        source=(scores_of, "* scoring.scale"),
    )


def bias_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """Content times the vectors of a distance; None if the bias is read from a table."""
    build, attention, name = ReceiptBuilder(trace), selection.attention(trace), selection.head_name
    scheme, scoring, head = attention.positions, attention.scoring, selection.head
    if not isinstance(scheme, DisentangledInLayer) or scoring is None:
        return None
    rows = scheme.rows_of(attention.q.shape[2], attention.view, attention.q.device)
    place = int(rows[selection.token, selection.other])
    products: list[tuple[str, Expression]] = []
    for letter, token, vectors, other in (
        ("q", selection.token, scheme.keys, "k"),
        ("k", selection.other, scheme.queries, "q"),
    ):
        if vectors is not None:
            group = head * len(vectors) // attention.n_heads
            of_distance = row(vectors[group, place], f"P_{other}[{place}]")
            content = build.vector(letter, f"{name}.{letter}", token)
            products.append((f"{letter} · P_{other}[{place}]", content @ of_distance))
    expression = products[0][1] if len(products) == 1 else products[0][1] + products[1][1]
    return build.receipt(
        cell(f"{name}.bias", selection.token, selection.other),
        title=f"what distance adds to the score of {selection.pair(trace)}",
        formula=f"({' + '.join(formula for formula, _ in products)}) × scale",
        expression=expression * constant(scoring.scale, "scale"),
        source=(DisentangledInLayer, "torch.stack(terms).sum(0) * scale"),
    )


def weight_receipt(trace: Trace, selection: Selection) -> Receipt:
    """exp(s - max) over its sum over all visible keys; a sink is one more term."""
    attention, name, key = selection.attention(trace), selection.head_name, selection.other
    scoring = attention.scoring
    if scoring is None:
        return _linear_weight_receipt(trace, selection, attention)
    visible_keys: list[int] = to_list(
        attention_heads.mask(attention)[selection.token].nonzero().flatten()
    )
    scores = trace[f"{name}.scores"][selection.token]
    sinks = scoring.sinks
    sink = None if sinks is None else constant(float(sinks[selection.head].detach()), "sink")

    def term(place: int) -> Number:
        key = visible_keys[place]
        address = cell(f"{name}.scores", selection.token, key)
        return Number(float(scores[key]), f"s{key}", address)

    expression: Expression = constant(0.0, "masked")
    formula = "0: the mask hides this key from the query"
    if key in visible_keys:
        own_term = term(visible_keys.index(key))
        expression = softmax_share(own_term, scores[visible_keys], term, sink)
        formula = "exp(s - max) / Σ exp(s - max)" + (", the sink counted" if sink else "")
    return ReceiptBuilder(trace).receipt(
        cell(f"{name}.weights", selection.token, key),
        title=f"weight of {selection.pair(trace)}",
        formula=formula,
        expression=expression,
        source=_SOFTMAX_SOURCE,
    )


def _linear_weight_receipt(
    trace: Trace, selection: Selection, attention: AttentionRecord
) -> Receipt:
    """q . k over the sum of all visible features, of attention without a softmax."""
    build, name = ReceiptBuilder(trace), selection.head_name
    assert attention.q_plain is not None
    assert attention.k_plain is not None
    mask = attention_heads.mask(attention)[selection.token]
    plain_q = row(attention.q_plain[0, selection.head, selection.token], "φ(q)")
    keys: list[int] = to_list(mask.nonzero().flatten())
    terms = [plain_q @ row(attention.k_plain[0, selection.head, key], f"φ(k{key})") for key in keys]
    remaining = [evaluate(term) for term in terms[TERMS_SHOWN:]]
    denominator = total(terms[:TERMS_SHOWN], remaining) + constant(EPS, "eps")
    q = build.vector("q", f"{name}.q", selection.token)
    k = build.vector("k", f"{name}.k", selection.other)
    hidden = not bool(mask[selection.other])
    return build.receipt(
        cell(f"{name}.weights", selection.token, selection.other),
        title=f"share of {selection.pair(trace)}",
        formula="0: the mask hides this key" if hidden else "q · k / (Σ φ(q) · φ(k) + eps)",
        expression=constant(0.0, "masked") if hidden else q @ k / denominator,
        source=_LINEAR_SOURCE,
    )


def out_receipt(trace: Trace, selection: Selection) -> Receipt:
    """One feature of a head's output: the values, weighted."""
    build, attention, name = ReceiptBuilder(trace), selection.attention(trace), selection.head_name
    feature, token = selection.feature % attention.outputs.shape[-1], selection.token
    scale = trace.scales.get(selection.as_head(), 1.0)
    if scale == "mean":
        mean_weights = trace[f"{name}.weights"].double().mean(0)
        weights = row(mean_weights, "w, the mean over queries", f"{name}.weights")
    else:
        weights = build.vector("w", f"{name}.weights", token)
    values = build.vector(f"v[:, {feature}]", f"{name}.v[:, {feature}]")
    expression, formula = weights @ values, f"w · v[:, {feature}]"
    if attention.positions.adds_values:
        added = _added_by_positions(attention, trace[f"{name}.weights"])[:, feature]
        added_value = float(added.mean() if scale == "mean" else added[token])
        expression += constant(added_value, "positions")
        formula += " + what positions add to the values"
    if attention.gate is not None:
        gate = build.number("g", f"{name}.gate", token)
        memory = build.number("memory", f"{name}.memory", token, feature)
        expression = (1.0 - gate) * expression + gate * memory
        formula = f"(1 - g) × ({formula}) + g × memory"
    if attention.output_gate is not None:
        expression *= build.number("g", f"{name}.output_gate", token, feature)
        formula = f"({formula}) × g"
    if scale != "mean" and scale != 1.0:
        expression, formula = expression * constant(scale, "ablation"), f"({formula}) × ablation"
    return build.receipt(
        cell(f"{name}.out", token, feature),
        title=f"feature {feature} of head {selection.head}'s output for {selection.query(trace)}",
        formula=formula,
        expression=expression,
        source=_out_source(attention),
    )


def output_gate_receipt(trace: Trace, selection: Selection) -> Receipt:
    """The factor of one feature of a head's output: a sigmoid."""
    build, attention = ReceiptBuilder(trace), selection.attention(trace)
    feature = selection.feature % attention.outputs.shape[-1]
    facts = attention.facts
    assert isinstance(facts, SoftmaxAttentionFacts)  # no other kind has the address
    row_of_head = selection.head
    if facts.gate_over == "features":
        row_of_head = selection.head * facts.d_value + feature
    projected = f"{selection.layer_name}.attention.output_gate"
    z = build.number("z", projected, selection.token, row_of_head)
    return build.receipt(
        cell(f"{selection.head_name}.output_gate", selection.token, feature),
        title=f"gate of feature {feature} of head {selection.head}",
        formula="1 / (1 + exp(-z))",
        expression=1.0 / (1.0 + (-z).exp()),
        source=(MultiHeadAttention.forward, "torch.sigmoid(self.output_gate(x))"),
    )


def product_receipt(trace: Trace, selection: Selection) -> Receipt:
    """The weights of a head's keys sum to 1; with a sink, to less."""
    build, address = ReceiptBuilder(trace), f"{selection.head_name}.weights"
    return build.receipt(
        cell(address, selection.token),
        title="the weights together",
        formula="Σ w",
        expression=build.vector("w", address, selection.token).sum(),
        source=_SOFTMAX_SOURCE,
        model=float(trace[address][selection.token].double().sum()),
    )


def rotation_receipt(trace: Trace, selection: Selection, vector_name: str = "q") -> Receipt:
    """One feature of a query or key, rotated with its partner by the angle of its position."""
    build, scheme = ReceiptBuilder(trace), selection.attention(trace).positions
    facts = rotation_of(scheme)
    assert facts is not None
    attention = selection.attention(trace)
    first = first_rotated(attention.layer)
    feature = (selection.feature - first) % facts.n_rotated
    partner_feature, sign = _partner(feature, facts.n_rotated, facts.pairing)
    token = selection.token if vector_name == "q" else selection.other
    address = f"{selection.head_name}.{vector_name}"
    scheme_path = trace.stack_pass(selection.side).positions_path(selection.layer)
    table = f"{selection.side}.{scheme_path}"
    plain, offset = _before_rotation(attention, selection, vector_name)
    x, partner = (
        build.number(f"{vector_name}{first + number}", plain, token, offset + number)
        for number in (feature, partner_feature)
    )
    cos, sin = (build.number(f"{f} θ", f"{table}.{f}", token, feature) for f in ("cos", "sin"))
    length = trace.stack_pass(selection.side).ids.shape[1]
    if facts.switch is not None and length > facts.switch:  # no buffer has these angles
        cos, sin = (
            constant(float(angles[token, feature]), name)
            for angles, name in zip(
                cast("Rotary", scheme).tables(length), ("cos θ", "sin θ"), strict=True
            )
        )
    return build.receipt(
        cell(address, token, first + feature),
        title=f"feature {first + feature} of {vector_name}, rotated with feature "
        f"{first + partner_feature}",
        formula=f"{x.name} cos θ {'-' if sign < 0 else '+'} {partner.name} sin θ",
        expression=x * cos - partner * sin if sign < 0 else x * cos + partner * sin,
        source=(Rotary, "x * cos +"),
    )


def _before_rotation(
    attention: AttentionRecord, selection: Selection, vector_name: str
) -> tuple[str, int]:
    """The address of a query or key before it is rotated, and its first rotated feature there."""
    match attention.facts:
        case LatentAttentionFacts(d_head=d_head) if vector_name == "q":
            first = selection.head * d_head + first_rotated(attention.layer)
            return f"{selection.layer_name}.attention.query", first
        case LatentAttentionFacts():
            return f"{selection.layer_name}.attention.rotated_key", 0
        case SoftmaxAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts():
            return f"{selection.head_name}.{vector_name}_plain", 0
        case _:
            assert_never(attention.facts)


def _added_by_positions(attention: AttentionRecord, weights: torch.Tensor) -> torch.Tensor:
    zeros = torch.zeros_like(attention.outputs[:, :1])
    with torch.no_grad():
        return attention.positions.add_values(zeros, weights[None, None].to(zeros), attention.view)[
            0, 0
        ]


def _out_source(attention: AttentionRecord) -> Source:
    match attention.facts:
        case NeuralMemoryFacts():
            return NeuralMemory, "torch.lerp("
        case LinearAttentionFacts():
            return _LINEAR_SOURCE
        case SoftmaxAttentionFacts() | LatentAttentionFacts():
            return gather, "return _fused(q, read, scoring, bias, view)"
        case _:
            assert_never(attention.facts)


def _partner(feature: int, n_rotated: int, pairing: str) -> tuple[int, int]:
    """The feature that a feature is rotated with, and the sign of its term."""
    if pairing == "half_split":
        half = n_rotated // 2
        return (feature + half, -1) if feature < half else (feature - half, 1)
    return (feature + 1, -1) if feature % 2 == 0 else (feature - 1, 1)
