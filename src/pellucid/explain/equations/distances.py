"""What the distance of a query and a key adds: to a score, and with some schemes to a value."""

from __future__ import annotations

from typing import assert_never, cast

import torch
from torch import Tensor

from pellucid.catalogue import message
from pellucid.explain.addresses.shapes import attention_facts_at
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import (
    Equation,
    Source,
    block_path,
    dot,
    head_name,
    layer_name,
)
from pellucid.explain.equations.linear import product
from pellucid.explain.equations.norms import norm_of
from pellucid.explain.formulas.nodes import Constant, Formula, Places, Read, Series, setting
from pellucid.explain.trace_types import Trace
from pellucid.model import ALiBi, BucketedBias, ShawRelative
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.disentangled import Disentangled, DisentangledInLayer
from pellucid.model.facts import (
    AddedPositionFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    NoPositionFacts,
    RotaryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    position_facts,
)


def _path(trace: Trace, site: Site) -> str:
    return f"{site.side}.{trace.stack_pass(site.side).positions_path(site.layer)}"


def _distance(trace: Trace, site: Site) -> Tensor:
    """(queries, keys): the key's place minus the query's."""
    places = torch.arange(trace.stack_pass(site.side).ids.shape[1])
    return places - places[:, None]


def bias_formula(
    trace: Trace, site: Site, scale: float, d_head: int, n_heads: int
) -> tuple[Formula, str, Source] | str:
    """The formula of a head's bias, its text and its line."""
    scheme = trace.stack_pass(site.side).positions(site.layer)
    facts, path, name = position_facts(scheme), _path(trace, site), head_name(site)
    distance, scaling = _distance(trace, site), setting(scale, "scale")
    match facts:
        case DistanceBiasFacts(rule="bucket"):
            table = cast("BucketedBias", scheme)
            buckets = table.buckets.cpu()[distance + table.furthest]
            places = Places(buckets, ("q", "k"))
            read = Read(f"{path}.table.weight", (places, site.head), "table")
            return read, "table[bucket(distance)]", (BucketedBias.bias, "self.table(buckets)")
        case DistanceBiasFacts():
            slope = Read(f"{path}.slopes", (site.head,), "slope")
            return _slope_formula(facts, slope, distance, scaling)
        case DistanceVectorFacts(keys=keys):
            q = Read(f"{name}.q", ("q", "d"), "q")
            a = Read(f"{path}.{keys}", (_vector_of(facts, distance), "d"), "a")
            formula = dot("d", d_head, q, a) * scaling
            return formula, "q · a[distance] × scale", (ShawRelative.bias, "by_distance = (q @")
        case DisentangledFacts():
            rows = Places(
                cast("Disentangled", scheme).rows.cpu()[
                    distance + cast("Disentangled", scheme).furthest
                ],
                ("q", "k"),
            )
            terms: list[Formula] = []
            if facts.content_to_position:
                of_distance = Read(f"{name}.distance_keys", (rows, "d"), "P_k")
                terms.append(dot("d", d_head, Read(f"{name}.q", ("q", "d"), "q"), of_distance))
            if facts.position_to_content:
                of_distance = Read(f"{name}.distance_queries", (rows, "d"), "P_q")
                terms.append(dot("d", d_head, Read(f"{name}.k", ("k", "d"), "k"), of_distance))
            texts = ["q · P_k"] * facts.content_to_position + [
                "k · P_q"
            ] * facts.position_to_content
            text = f"({' + '.join(texts)}) × scale"
            source: Source = (DisentangledInLayer, "torch.stack(terms).sum(0) * scale")
            return Series(tuple(terms)) * scaling, text, source
        case AddedPositionFacts() | RotaryFacts() | NoPositionFacts():
            return "these positions add nothing to scores"
        case UnknownFacts(reason=reason):
            return f"pellucid has no formula for these positions: {reason}"
        case _:
            assert_never(facts)


def _slope_formula(
    facts: DistanceBiasFacts, slope: Read, distance: Tensor, scaling: Formula
) -> tuple[Formula, str, Source]:
    if facts.by == "key":
        place = Constant(torch.arange(distance.shape[1]).double(), ("k",), "key")
        line: Formula = (slope.apply("bfloat16") * place).apply("bfloat16")
        line = line + Constant(torch.zeros(len(distance)), ("q",), "")
        text, source = "bfloat16(slope × key)", "penalty ="
    else:
        line = -(slope * Constant(distance.abs().double(), ("q", "k"), "distance"))
        text, source = "-slope × distance", "penalty = -slopes"
    if facts.scaled:
        line, text = line * scaling, f"({text}) × scale"
    return line, text, (ALiBi.bias, source)


def _vector_of(facts: DistanceVectorFacts, distance: Tensor, query: str = "q") -> Places:
    clipped = distance.clamp(-facts.max_distance, facts.max_distance) + facts.max_distance
    return Places(clipped, (query, "k"))


def adds_to_values(
    trace: Trace, site: Site, weights: Read, query: str, n_keys: int
) -> Formula | None:
    """sum_k w[q, k] b[distance]: what the vectors of distances add to the output."""
    scheme = trace.stack_pass(site.side).positions(site.layer)
    facts = position_facts(scheme)
    match facts:
        case DistanceVectorFacts(values=str(values)):
            places = _vector_of(facts, _distance(trace, site), query)
            return dot(
                "k", n_keys, weights, Read(f"{_path(trace, site)}.{values}", (places, "d"), "b")
            )
        case DistanceVectorFacts() | DistanceBiasFacts() | DisentangledFacts():
            return None
        case AddedPositionFacts() | RotaryFacts() | NoPositionFacts() | UnknownFacts():
            return None
        case _:
            assert_never(facts)


def distances(trace: Trace, site: Site) -> Equation | str:
    """The vectors of all rows of distances, normalised."""
    facts = position_facts(trace.stack_pass(site.side).positions(site.layer))
    assert isinstance(facts, DisentangledFacts)
    path = _path(trace, site)
    width = trace.model.d_model
    equation = norm_of(trace, f"{path}.{facts.norm}", f"{path}.{facts.table}", width)
    if isinstance(equation, str):
        return equation
    return Equation(
        formula=equation.formula,
        axes=equation.axes,
        title=lambda env: message("equations.feature-of-the-vector-of", f=env["f"], t=env["t"]),
        text=equation.text,
        source=(Disentangled, "self.norm(self.table.weight)"),
    )


def of_distances(trace: Trace, site: Site) -> Equation:
    """A head's queries or keys of the rows of distances."""
    is_query = site.part == "distance_queries"
    facts = attention_facts_at(trace, site)
    assert isinstance(facts, SoftmaxAttentionFacts)  # no other kind compares with distances
    own_matrix = facts.position_query if is_query else facts.position_key
    projection = own_matrix or (facts.query if is_query else facts.key)
    path = f"{block_path(site)}.attention.{projection}"
    n_groups = facts.n_heads if is_query else facts.n_kv_heads
    first = site.head * n_groups // facts.n_heads * facts.d_head
    row = Places(torch.arange(first, first + facts.d_head), ("d",))
    formula, text = product(
        trace, path, lambda axis: Read(f"{layer_name(site)}.distances", ("r", axis), "x"), row
    )
    return Equation(
        formula=formula,
        axes=("r", "d"),
        title=lambda env: message(
            "equations.feature-of-the-of-the",
            d=env["d"],
            part=message("word.query") if is_query else message("word.key"),
            r=env["r"],
        ),
        text=text,
        source=(MultiHeadAttention, "split_heads(project("),
    )
