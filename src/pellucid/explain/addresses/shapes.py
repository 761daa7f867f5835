"""Whether a model has an address, and how long its axes are; nothing is computed for it."""

from __future__ import annotations

from typing import Any, assert_never, cast

from torch import nn

from pellucid.explain import experts
from pellucid.explain.addresses.block_parts import find_part
from pellucid.explain.addresses.site import Site, block_at
from pellucid.explain.forward_pass import attention_at
from pellucid.explain.losses.types import (
    ClassLoss,
)
from pellucid.explain.part_facts import (
    KnownAttention,
    known_attention,
)
from pellucid.explain.trace_types import Shape, Trace
from pellucid.model.disentangled import Disentangled
from pellucid.model.facts import (
    AddedPositionFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    ExpertsFacts,
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    NoPositionFacts,
    RotaryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    position_facts,
)


def axis_sizes(trace: Trace, site: Site, axes: tuple[str, ...]) -> Shape:
    """How long each axis of an address is."""
    return tuple(_axis_size(trace, site, axis) for axis in axes)


def _axis_size(trace: Trace, site: Site, axis: str) -> int:
    stack_pass = trace.stack_pass(site.side)
    match axis:
        case "time" | "query":
            return stack_pass.ids.shape[1]
        case "key":
            return trace.stack_pass("encoder" if site.cross else site.side).ids.shape[1]
        case "source":
            return trace.stack_pass("encoder").ids.shape[1]
        case "one":
            return 1
        case "heads":
            return attention_facts_at(trace, site).n_heads
        case "row":
            return _distances(trace, site).table.num_embeddings
        case "places":
            loss = trace.loss
            return 1 if loss is None or isinstance(loss, ClassLoss) else len(loss.places)
        case "outputs":
            return _axis_size(
                trace, site, "classes" if isinstance(trace.loss, ClassLoss) else "vocabulary"
            )
        case "d_model":
            return stack_pass.final.shape[-1]
        case "d_entry":
            return stack_pass.entry[site.part].shape[-1]
        case "d_embedding":
            return trace.model.token_embedding.embedding_dim
        case "d_positions":
            return _axis_size(trace, site, "d_embedding" if stack_pass.maps_later else "d_model")
        case "d_head_input":
            return trace.model.head_weight.shape[1]
        case "d_classes":
            return _class_width(trace, site)
        case "d_ff":
            return d_feed_forward(trace, site) or _axis_size(trace, site, "d_model")
        case "experts":
            return cast("ExpertsFacts", experts_facts(trace, site)).n_experts
        case "active":
            return cast("ExpertsFacts", experts_facts(trace, site)).rule.n_active
        case "heads x d_head":
            return cast("Any", find_part(block_at(trace, site), site.part)).out_features
        case "adapted":
            return cast("Any", find_part(block_at(trace, site), _adapted(site))).out_features
        case "rank":
            return cast("Any", find_part(block_at(trace, site), _adapted(site))).rank
        case "latent":
            latent = site.part.removesuffix(".in").removesuffix("_norm")
            return cast("Any", find_part(block_at(trace, site), latent)).out_features
        case "d_head":
            return attention_facts_at(trace, site).d_head
        case "d_value":
            facts = attention_facts_at(trace, site)
            match facts:
                case SoftmaxAttentionFacts(d_value=width) | LinearAttentionFacts(d_value=width):
                    return width
                case LatentAttentionFacts(d_value=width) | NeuralMemoryFacts(d_head=width):
                    return width
                case _:
                    assert_never(facts)
        case "vocabulary":
            return trace.model.head_weight.shape[0]
        case "classes":
            return cast("nn.Linear", trace.model.classifier).out_features
        case _:
            raise ValueError(f"no axis is called {axis!r}")


def _adapted(site: Site) -> str:
    """The linear layer that a part of a low-rank update belongs to."""
    return site.part.rpartition(".")[0]


def count_heads(trace: Trace, site: Site) -> int:
    """How many heads an attention has; 0 if pellucid cannot read its heads."""
    facts = known_attention(attention_at(trace.model, site.as_head()))
    return 0 if facts is None or (site.cross and len(trace.sides) < 2) else facts.n_heads


def count_experts(trace: Trace, site: Site) -> int:
    """How many experts the feed-forward has; 0 if it is no mixture."""
    facts = experts_facts(trace, site)
    return 0 if facts is None else facts.n_experts


def experts_facts(trace: Trace, site: Site) -> ExpertsFacts | None:
    """The facts of the layer's mixture of experts, if it has one."""
    return experts.experts_facts(block_at(trace, site))


def expert_sizes(trace: Trace, site: Site) -> Shape:
    """The shape of a part of an expert."""
    inner = site.part.endswith((".up", ".gate", ".units"))
    return axis_sizes(trace, site, ("time", "d_ff" if inner else "d_model"))


def disentangled_facts(trace: Trace, site: Site) -> DisentangledFacts | None:
    """The facts of the layer's positions, if they compare content with vectors of distances."""
    facts = position_facts(trace.stack_pass(site.side).positions(site.layer))
    match facts:
        case DisentangledFacts():
            return facts
        case AddedPositionFacts() | RotaryFacts() | DistanceBiasFacts() | DistanceVectorFacts():
            return None
        case NoPositionFacts() | UnknownFacts():
            return None
        case _:
            assert_never(facts)


def _distances(trace: Trace, site: Site) -> Disentangled:
    return cast("Disentangled", trace.stack_pass(site.side).positions(site.layer))


def _class_width(trace: Trace, site: Site) -> int:
    parts = {"pooler": "pooler", "classifier_transform.dense": "classifier_transform.dense"}
    if site.part in parts:
        return cast("Any", find_part(trace.model, parts[site.part])).out_features
    return cast("nn.Linear", trace.model.classifier).in_features


def attention_facts_at(trace: Trace, site: Site) -> KnownAttention:
    """The facts of the attention that a head belongs to."""
    facts = known_attention(attention_at(trace.model, site.as_head()))
    assert facts is not None  # a site of a head is one whose heads can be read
    return facts


def d_feed_forward(trace: Trace, site: Site) -> int | None:
    """How many units a feed-forward has; None if it has none between two matrices."""
    facts = experts.dense_facts(block_at(trace, site), feed_forward_holder(site.part))
    return None if facts is None else facts.d_ff


def feed_forward_holder(part: str) -> str:
    """The feed-forward that a part belongs to: itself, an expert of it, or its shared layer."""
    return part.removesuffix(".in").removesuffix(".up").removesuffix(".gate").removesuffix(".units")
