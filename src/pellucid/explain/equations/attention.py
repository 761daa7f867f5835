"""Attention of one head: from the projections to its output, and from all heads to the layer's."""

from __future__ import annotations

from typing import assert_never, cast

import torch
from torch import nn

from pellucid.catalogue import message
from pellucid.explain.addresses.shapes import attention_facts_at
from pellucid.explain.addresses.site import Site
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.equations.distances import adds_to_values, bias_formula
from pellucid.explain.equations.equation import (
    Env,
    Equation,
    Source,
    block_path,
    dot,
    head_name,
    label,
    layer_name,
    sigmoid,
    softmax,
    stretch,
)
from pellucid.explain.equations.heads import LINEAR_SOURCE, turns
from pellucid.explain.equations.linear import product, source_in
from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Index,
    Masked,
    Places,
    Read,
    Series,
    Total,
    setting,
)
from pellucid.explain.forward_pass import attention_at
from pellucid.explain.part_facts import (
    known_attention,
)
from pellucid.explain.trace_types import Trace
from pellucid.model import MultiHeadAttention, NeuralMemory
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)
from pellucid.model.scores import gather, scores_of, visible, weights_of

_SOFTMAX_SOURCE: Source = (weights_of, "torch.softmax(scores, dim=-1)")


def score(trace: Trace, site: Site) -> Equation:
    """scale q . k, with its cap and bias if it has them, before the mask."""
    facts, name = attention_facts_at(trace, site), head_name(site)
    assert not isinstance(facts, LinearAttentionFacts)
    scale = facts.scale
    q, k = Read(f"{name}.q", ("q", "d"), "q"), Read(f"{name}.k", ("k", "d"), "k")
    formula: Formula = dot("d", facts.d_head, q, k) * setting(scale, "scale")
    text = "q · k × scale"
    if isinstance(facts, SoftmaxAttentionFacts) and facts.soft_cap is not None:
        cap = setting(facts.soft_cap, "cap")
        formula, text = cap * (formula / cap).apply("tanh"), "cap × tanh(q · k × scale / cap)"
    if f"{name}.bias" in trace.addresses():
        formula, text = formula + Read(f"{name}.bias", ("q", "k"), "bias"), f"{text} + bias"
    return Equation(
        formula=formula,
        axes=("q", "k"),
        title=lambda env: message("equations.score-of", pair=_pair(trace, site, env)),
        text=text,
        source=(scores_of, "* scoring.scale"),
    )


def bias(trace: Trace, site: Site) -> Equation | str:
    """What positions add to a score."""
    facts = attention_facts_at(trace, site)
    assert not isinstance(facts, LinearAttentionFacts)
    result = bias_formula(trace, site, facts.scale, facts.d_head, facts.n_heads)
    if isinstance(result, str):
        return result
    formula, text, source = result
    return Equation(
        formula=formula,
        axes=("q", "k"),
        title=lambda env: message(
            "equations.what-distance-adds-to-the", pair=_pair(trace, site, env)
        ),
        text=text,
        source=source,
    )


def mask(trace: Trace, site: Site) -> Equation:
    """1 where the query sees the key: no later key in a decoder, and none beyond a window."""
    attention = trace.attention(site.side, site.layer, cross=site.cross)
    n_queries, n_keys = attention.q.shape[2], attention.k.shape[2]
    query = Constant(torch.arange(n_queries).double(), ("q",), "query")
    key = Constant(torch.arange(n_keys).double(), ("k",), "key")
    is_seen: Formula = query * 0.0 + key * 0.0 + 1.0
    conditions: list[str] = []
    is_causal = not site.cross and trace.stack_pass(site.side).stack.causal
    if is_causal:
        is_seen = (query - key + 1.0).apply("step")
        conditions.append("[key <= query]")
    if attention.window is not None and n_keys > attention.window:
        distance = (query - key).clamp_min(0.0) + (key - query).clamp_min(0.0)
        in_window = (setting(attention.window, "window") - distance).apply("step")
        is_seen = is_seen * in_window
        conditions.append("[distance < window]")
    return Equation(
        formula=is_seen,
        axes=("q", "k"),
        title=lambda env: message(
            "equations.whether-the-query-sees-the", pair=_pair(trace, site, env)
        ),
        text=" × ".join(conditions) or "1",
        source=(visible, "return distances(view.start"),
    )


def weight(trace: Trace, site: Site) -> Equation:
    """exp(s - max) over its sum over all visible keys; a sink is one more term."""
    facts, name = attention_facts_at(trace, site), head_name(site)
    own_mask, n_keys = Read(f"{name}.mask", ("q", "k"), "mask"), _n_keys(trace, site)
    mask = Read(f"{name}.mask", ("q", "m"), "mask")
    match facts:
        case LinearAttentionFacts(d_head=d_head, eps=eps):
            plain = "_plain" if turns(trace, site) else ""
            q, k = (
                Read(f"{name}.q{plain}", ("q", "e"), "φ(q)"),
                Read(f"{name}.k{plain}", ("m", "e"), "φ(k)"),
            )
            total = Total("m", n_keys, dot("e", d_head, q, k), mask) + setting(eps, "eps")
            content = dot(
                "d", d_head, Read(f"{name}.q", ("q", "d"), "q"), Read(f"{name}.k", ("k", "d"), "k")
            )
            shares, text, source = content / total, "q · k / (Σ φ(q) · φ(k) + eps)", LINEAR_SOURCE
        case SoftmaxAttentionFacts() | LatentAttentionFacts() | NeuralMemoryFacts():
            sink: Formula | None = None
            text, source = "exp(s - max) / Σ exp(s - max)", _SOFTMAX_SOURCE
            if isinstance(facts, SoftmaxAttentionFacts) and facts.sinks is not None:
                kind = "cross_attention" if site.cross else "attention"
                sink = Read(f"{block_path(site)}.{kind}.{facts.sinks}", (site.head,), "sink")
                text = "exp(s - max) / (Σ exp(s - max) + exp(sink - max))"
            shares = softmax(
                Read(f"{name}.scores", ("q", "k"), "s"),
                lambda axis: Read(f"{name}.scores", ("q", axis), "s"),
                n_keys,
                mask,
                sink,
            )
        case _:
            assert_never(facts)

    def is_seen(env: Env) -> bool:
        return bool(trace[f"{name}.mask"][env["q"], env["k"]])

    def title(env: Env) -> str:
        key = "weight-of" if is_seen(env) else "weight-that-the-mask-hides"
        return message(f"equations.{key}", pair=_pair(trace, site, env))

    return Equation(
        formula=Masked(own_mask, shares),
        axes=("q", "k"),
        title=title,
        text=lambda env: text if is_seen(env) else "0",
        source=source,
    )


def output(trace: Trace, site: Site) -> Equation:
    """One feature of a head's output: the values, weighted; then gates and an ablation."""
    facts, name = attention_facts_at(trace, site), head_name(site)
    attention = trace.attention(site.side, site.layer, cross=site.cross)
    n_queries, n_keys = attention.q.shape[2], attention.k.shape[2]
    scale = trace.scales.get(site.as_head(), 1.0)
    query = "q'" if scale == "mean" else "q"
    weights = Read(f"{name}.weights", (query, "k"), "w")
    formula: Formula = dot("k", n_keys, weights, Read(f"{name}.v", ("k", "d"), "v"))
    text = "w · v"
    if attention.positions.adds_values:
        added = adds_to_values(trace, site, weights, query, n_keys)
        if added is not None:
            formula, text = formula + added, f"{text} + w · a[distance]"
    if scale == "mean":
        formula = Total(query, n_queries, formula) / setting(n_queries, "n")
        text = f"Σ ({text}) / n"
    match facts:
        case NeuralMemoryFacts():
            gate = Read(f"{name}.gate", ("q",), "g")
            memory = Read(f"{name}.memory", ("q", "d"), "memory")
            formula, text = (
                (1.0 - gate) * formula + gate * memory,
                f"(1 - g) × ({text}) + g × memory",
            )
        case SoftmaxAttentionFacts(output_gate=str()):
            formula, text = formula * Read(f"{name}.output_gate", ("q", "d"), "g"), f"({text}) × g"
        case SoftmaxAttentionFacts() | LatentAttentionFacts() | LinearAttentionFacts():
            pass
        case _:
            assert_never(facts)
    if scale != "mean" and scale != 1.0:
        formula, text = formula * setting(scale, "ablation"), f"({text}) × ablation"
    return Equation(
        formula=formula,
        axes=("q", "d"),
        title=lambda env: message(
            "equations.feature-of-head-output-for",
            d=env["d"],
            head=site.head,
            token=label(trace.pieces(site.side), env["q"]),
        ),
        text=text,
        source=_out_source(attention),
    )


def output_gate(trace: Trace, site: Site) -> Equation:
    """The factor of one feature of a head's output: a sigmoid."""
    facts = attention_facts_at(trace, site)
    assert isinstance(facts, SoftmaxAttentionFacts)  # no other kind has the address
    row: Index = site.head
    if facts.gate_over == "features":
        row = stretch("d", facts.d_value, site.head * facts.d_value)
    z: Formula = Read(f"{layer_name(site)}.attention.output_gate", ("q", row), "z")
    if facts.gate_over == "heads":
        z = z + Constant(torch.zeros(facts.d_value), ("d",), "")
    return Equation(
        formula=sigmoid(z),
        axes=("q", "d"),
        title=lambda env: message("equations.gate-of-feature-of-head", d=env["d"], head=site.head),
        text="1 / (1 + exp(-z))",
        source=(MultiHeadAttention.forward, "torch.sigmoid(self.output_gate(x))"),
    )


def sublayer(trace: Trace, site: Site) -> Equation | str:
    """W_o [heads side by side] + b: what attention gives."""
    is_cross = site.part == "cross_attention"
    site = site._replace(cross=is_cross)
    layer = attention_at(trace.model, site.as_head())
    facts = known_attention(layer)
    if facts is None:
        return "pellucid cannot read the heads of this attention"
    path = f"{block_path(site)}.{site.part}.{facts.output}"
    width = cast("nn.Linear", layer.get_submodule(facts.output)).in_features // facts.n_heads

    def x(axis: str) -> Formula:
        return joined_heads(site, width, facts.n_heads, axis)

    parts = f"{layer_name(site)}.{site.part}.{facts.output}"
    formula, text = product(trace, path, x, parts=parts)
    return Equation(
        formula=formula,
        axes=("t", "f"),
        title=lambda env: message("equations.feature-of-the-layer-attention", f=env["f"]),
        text=text.replace("x", "heads"),
        source=source_in(layer, "return self.output("),
    )


def joined_heads(site: Site, width: int, n_heads: int, axis: str) -> Formula:
    """The outputs of all heads side by side, each at the address of its head."""
    terms: list[Formula] = []
    numbers = torch.arange(width * n_heads)
    for head in range(n_heads):
        is_here = numbers // width == head
        places = Places(torch.where(is_here, numbers % width, 0), (axis,))
        read = Read(f"{head_name(site._replace(head=head))}.out", ("t", places), "out")
        terms.append(Masked(Constant(is_here.double(), (axis,), "head"), read))
    return Series(tuple(terms))


def _n_keys(trace: Trace, site: Site) -> int:
    side = "encoder" if site.cross else site.side
    return trace.stack_pass(side).ids.shape[1]


def _pair(trace: Trace, site: Site, env: Env) -> str:
    keys = trace.pieces("encoder" if site.cross else site.side)
    query = label(trace.pieces(site.side), env["q"])
    return message("equations.query-key", query=query, token=label(keys, env["k"]))


def _out_source(attention: AttentionRecord) -> Source:
    match attention.facts:
        case NeuralMemoryFacts():
            return NeuralMemory, "torch.lerp("
        case LinearAttentionFacts():
            return LINEAR_SOURCE
        case SoftmaxAttentionFacts() | LatentAttentionFacts():
            return gather, "return _fused(q, read, scoring, bias, view)"
        case _:
            assert_never(attention.facts)
