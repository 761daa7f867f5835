"""Queries, keys and values of a head: projected, normalised, rotated."""

from __future__ import annotations

from typing import assert_never

import torch

from pellucid.catalogue import message
from pellucid.explain.addresses.shapes import attention_facts_at
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import (
    Equation,
    Source,
    Text,
    block_path,
    format_text,
    head_name,
    layer_name,
    stretch,
)
from pellucid.explain.equations.norms import normalise, source_of
from pellucid.explain.equations.rotation import rotate
from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Index,
    Masked,
    Places,
    Read,
    Series,
)
from pellucid.explain.forward_pass import attention_at
from pellucid.explain.part_facts import (
    KnownAttention,
    is_identity,
    where_positions_act,
)
from pellucid.explain.trace_types import Trace
from pellucid.model import LinearAttention, Rotary
from pellucid.model.attention import split_heads
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)

LINEAR_SOURCE: Source = (LinearAttention, "attended / (normaliser + EPS)")
_SPLIT: Source = (split_heads, "return x.view(")


def turns(trace: Trace, site: Site) -> bool:
    """Whether positions turn the whole queries and keys of this attention."""
    latent = isinstance(attention_facts_at(trace, site), LatentAttentionFacts)
    return not site.cross and not latent and _rotates(trace, site)


def _rotates(trace: Trace, site: Site) -> bool:
    positions = trace.stack_pass(site.side).positions(site.layer)
    return where_positions_act(positions) == "queries and keys"


def query_or_key(trace: Trace, site: Site) -> Equation | str:
    """A query or key as the scores use it."""
    facts, name = attention_facts_at(trace, site), site.part
    time = "q" if name == "q" else "k"
    source: Source = _SPLIT
    match facts:
        case LatentAttentionFacts():
            formula, text = _latent(trace, site, facts, time)
            source = (Rotary, "x * cos +")
        case SoftmaxAttentionFacts(norms_after_rotation=True) if _has_norm(trace, site):
            result = _normed(trace, site, facts, time, f"{name}_turned", all_heads=True)
            if result is None:
                return "pellucid has no formula for this norm"
            formula, text, source = result
        case SoftmaxAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts():
            if turns(trace, site):
                return _rotated(trace, site, time)
            result = _plain(trace, site, facts, time)
            if result is None:
                return "pellucid has no formula for this norm"
            formula, text, source = result
        case _:
            assert_never(facts)
    return _vector(site, time, formula, text, source)


def plain_query_or_key(trace: Trace, site: Site) -> Equation | str:
    """A query or key before rotation: a part of its projection, normalised or clipped."""
    facts = attention_facts_at(trace, site)
    time = "q" if site.part.startswith("q") else "k"
    result = _plain(trace, site, facts, time)
    if result is None:
        return "pellucid has no formula for this norm"
    return _vector(site, time, *result)


def turned_query_or_key(trace: Trace, site: Site) -> Equation | str:
    """A query or key after rotation, before the norm that follows."""
    return _rotated(trace, site, "q" if site.part.startswith("q") else "k")


def _vector(site: Site, time: str, formula: Formula, text: Text, source: Source) -> Equation:
    return Equation(
        formula=formula,
        axes=(time, "d"),
        title=lambda env: message(
            "equations.feature-of-of-head", d=env["d"], part=site.part, head=site.head
        ),
        text=text,
        source=source,
    )


def _rotated(trace: Trace, site: Site, time: str) -> Equation:
    """Each feature rotated with its partner by the angle of its position."""
    name = site.part[0]
    plain = f"{head_name(site)}.{name}_plain"
    width = attention_facts_at(trace, site).d_head
    formula, text = rotate(
        trace,
        site,
        lambda index: Read(plain, (time, index), name),
        features=torch.arange(width),
        time=time,
    )
    return _vector(site, time, formula, text, (Rotary, "x * cos +"))


def _latent(
    trace: Trace, site: Site, facts: LatentAttentionFacts, time: str
) -> tuple[Formula, Text]:
    """[a_h, rotate(b_h)] of a query, [K_h c, rotate(R x)] of a key."""
    address, d_plain = f"{layer_name(site)}.attention", facts.d_head - facts.d_rotated
    numbers = torch.arange(facts.d_head)
    is_plain = Constant((numbers < d_plain).double(), ("d",), "plain")
    if site.part == "q":
        first, plain_width, rotated_part = site.head * facts.d_head, facts.d_head, "query"
        rotated_first = first + d_plain
        plain_part = "query"
    else:
        first, plain_width, rotated_part = site.head * d_plain, d_plain, "rotated_key"
        rotated_first, plain_part = 0, "key"
    plain_places = Places(first + numbers.clamp(max=plain_width - 1), ("d",))
    plain = Read(f"{address}.{plain_part}", (time, plain_places), "x")

    def rotated(index: Index) -> Formula:
        assert isinstance(index, Places)
        places = Places(index.values + rotated_first, index.axes)
        return Read(f"{address}.{rotated_part}", (time, places), "x")

    formula, text = rotate(
        trace, site, rotated, features=(numbers - d_plain).clamp(min=0), time=time
    )
    is_turned = Constant((numbers >= d_plain).double(), ("d",), "rotated")
    return (
        Series((Masked(is_plain, plain), Masked(is_turned, formula))),
        lambda env: "x" if env["d"] < d_plain else format_text(text, env),
    )


def _plain(
    trace: Trace, site: Site, facts: KnownAttention, time: str
) -> tuple[Formula, str, Source] | None:
    """A head's part of a projection: normalised if norms come first, clipped, or its features."""
    name = "query" if site.part.startswith("q") else "key"
    slice_, text = _slice(trace, site, name, time), f"{name}[head]"
    match facts:
        case SoftmaxAttentionFacts():
            source: Source = _SPLIT
            formula: Formula = slice_
            if _has_norm(trace, site) and not facts.norms_after_rotation:
                result = _normed(trace, site, facts, time, name, all_heads=False)
                if result is None:
                    return None
                formula, text, source = result
            return *_clip(formula, text, facts.clip), source
        case LinearAttentionFacts():
            features = slice_.clamp_min(0.0) + slice_.clamp_max(0.0).apply("exp")
            return features, "max(x, 0) + exp(min(x, 0))", LINEAR_SOURCE
        case NeuralMemoryFacts() | LatentAttentionFacts():
            return slice_, text, _SPLIT
        case _:
            assert_never(facts)


def _clip(formula: Formula, text: str, clip: float | None) -> tuple[Formula, str]:
    if clip is None:
        return formula, text
    return formula.clamp_max(clip).clamp_min(-clip), f"{text}, within ±{clip:g}"


def _slice(trace: Trace, site: Site, name: str, time: str, width: int | None = None) -> Read:
    """The features of a head in a projection of all heads."""
    address, first, width = _place(trace, site, name)
    return Read(address, (time, stretch("d", width, first)), "x")


def _place(trace: Trace, site: Site, name: str) -> tuple[str, int, int]:
    """The address of a projection, the first feature of a head's group in it, and its width."""
    facts = attention_facts_at(trace, site)
    kind = "cross_attention" if site.cross else "attention"
    n_groups = facts.n_heads
    width = facts.d_head
    match facts:
        case SoftmaxAttentionFacts(n_kv_heads=n_kv_heads, d_value=d_value):
            n_groups = facts.n_heads if name == "query" else n_kv_heads
            width = d_value if name == "value" else facts.d_head
        case LatentAttentionFacts(d_value=d_value) | LinearAttentionFacts(d_value=d_value):
            width = d_value if name == "value" else facts.d_head
        case NeuralMemoryFacts():
            pass
        case _:
            assert_never(facts)
    group = site.head * n_groups // facts.n_heads
    return f"{layer_name(site)}.{kind}.{name}", group * width, width


def _norm_name(trace: Trace, site: Site) -> str | None:
    facts = attention_facts_at(trace, site)
    if not isinstance(facts, SoftmaxAttentionFacts):
        return None
    return facts.query_norm if site.part.startswith("q") else facts.key_norm


def _has_norm(trace: Trace, site: Site) -> bool:
    name = _norm_name(trace, site)
    layer = attention_at(trace.model, site.as_head())
    return name is not None and not is_identity(layer.get_submodule(name))


def _normed(
    trace: Trace, site: Site, facts: SoftmaxAttentionFacts, time: str, part: str, *, all_heads: bool
) -> tuple[Formula, str, Source] | None:
    """A norm over one head, or over all heads side by side.

    `part` is of the layer ("query"), or of each head ("q_turned") with `all_heads`.
    """
    name = _norm_name(trace, site)
    is_query = site.part.startswith("q")
    n_groups, d_head = (facts.n_heads if is_query else facts.n_kv_heads), facts.d_head
    group = site.head * n_groups // facts.n_heads
    norm = f"{block_path(site)}.attention.{name}"
    over_all = facts.norms_over_all_heads

    def x(token: str, index: Index) -> Formula:
        if not all_heads:
            if over_all:
                return Read(f"{layer_name(site)}.attention.{part}", (token, index), "x")
            places = _shifted(index, group * d_head, d_head)
            return Read(f"{layer_name(site)}.attention.{part}", (token, places), "x")
        if not over_all:
            return Read(f"{head_name(site)}.{part}", (token, index), "x")
        return _side_by_side(trace, site, part, token, index, n_groups, d_head)

    numbers = torch.arange(d_head) + (group * d_head if over_all else 0)
    width = n_groups * d_head if over_all else d_head
    result = normalise(trace, norm, x, numbers=numbers, width=width, axis="d", time=time)
    if result is None:
        return None
    return *result, source_of(trace.model.get_submodule(norm))


def _shifted(index: Index, first: int, size: int) -> Places:
    """An index within a head, as the index in all heads side by side."""
    if isinstance(index, Places):
        return Places(index.values + first, index.axes)
    assert isinstance(index, str)
    return stretch(index, size, first)


def _side_by_side(
    trace: Trace, site: Site, part: str, token: str, index: Index, n_groups: int, d_head: int
) -> Formula:
    """The numbers of all heads side by side, each read at the address of its head."""
    assert isinstance(index, str | Places)
    values = torch.arange(n_groups * d_head) if isinstance(index, str) else index.values
    axes = (index,) if isinstance(index, str) else index.axes
    n_heads = attention_facts_at(trace, site).n_heads
    terms: list[Formula] = []
    for group in range(n_groups):
        is_here = values // d_head == group
        if not bool(is_here.any()):
            continue
        head = head_name(site._replace(head=group * n_heads // n_groups))
        places = Places(torch.where(is_here, values % d_head, 0), axes)
        read = Read(f"{head}.{part}", (token, places), "x")
        terms.append(Masked(Constant(is_here.double(), axes, "head"), read))
    return Series(tuple(terms))


def value(trace: Trace, site: Site) -> Equation:
    """A head's part of the projected values, clipped if the layer clips."""
    facts = attention_facts_at(trace, site)
    clip = facts.clip if isinstance(facts, SoftmaxAttentionFacts) else None
    formula, text = _clip(_slice(trace, site, "value", "k"), "value[head]", clip)
    return _vector(site, "k", formula, text, _SPLIT)
