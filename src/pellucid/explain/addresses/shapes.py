"""Whether a model has an address, and how long its axes are; nothing is computed for it."""

from __future__ import annotations

from typing import Any, assert_never, cast

from torch import nn

from pellucid.explain import experts
from pellucid.explain.addresses.row import Site
from pellucid.explain.addresses.syntax import find_weight
from pellucid.explain.forward_pass import attention_at
from pellucid.explain.losses.types import ClassLoss
from pellucid.explain.part_facts import (
    KnownAttention,
    is_sandwich,
    known_attention,
    where_positions_act,
    writes_in_sequence,
)
from pellucid.explain.record_block import find_part
from pellucid.explain.trace_types import Shape, Trace
from pellucid.model.facts import (
    ExpertsFacts,
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
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
        case "one":
            return 1
        case "places":
            loss = trace.loss
            return 1 if loss is None or isinstance(loss, ClassLoss) else len(loss.places)
        case "outputs":
            return _axis_size(
                trace, site, "classes" if isinstance(trace.loss, ClassLoss) else "vocabulary"
            )
        case "d_model":
            return stack_pass.final.shape[-1]
        case "d_embedding":
            return trace.model.token_embedding.embedding_dim
        case "d_positions":
            return _axis_size(trace, site, "d_embedding" if stack_pass.maps_later else "d_model")
        case "d_head_input":
            return trace.model.head_weight.shape[1]
        case "d_ff":
            return _d_ff(trace, site) or _axis_size(trace, site, "d_model")
        case "experts":
            return cast("ExpertsFacts", experts_facts(trace, site)).n_experts
        case "active":
            return cast("ExpertsFacts", experts_facts(trace, site)).rule.n_active
        case "heads x d_head":
            return cast("Any", find_part(_block(trace, site), site.part)).out_features
        case "latent":
            latent = site.part.removesuffix(".in").removesuffix("_norm")
            return cast("Any", find_part(_block(trace, site), latent)).out_features
        case "d_head":
            return _attention(trace, site).d_head
        case "d_value":
            facts = _attention(trace, site)
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


def count_heads(trace: Trace, site: Site) -> int:
    """How many heads an attention has; 0 if pellucid cannot read its heads."""
    facts = known_attention(attention_at(trace.model, site.as_head()))
    return 0 if facts is None or (site.cross and len(trace.sides) < 2) else facts.n_heads


def adds_positions(trace: Trace, site: Site) -> bool:
    """Whether the positions are added to the embedding."""
    return trace.stack_pass(site.side).added_positions is not None


def has_projection(trace: Trace, site: Site) -> bool:
    """Whether a linear map brings the embedding to d_model."""
    return trace.stack_pass(site.side).stack.input_projection is not None


def has_part(trace: Trace, site: Site) -> bool:
    """Whether a layer has a part of that name which is called itself."""
    part = find_part(_block(trace, site), site.part.removesuffix(".in"))
    return part is not None and not ("norm" in site.part and is_sandwich(part))


def has_units(trace: Trace, site: Site) -> bool:
    """Whether the feed-forward, or an expert of it, has units between two matrices."""
    return _d_ff(trace, site) is not None


def has_experts(trace: Trace, site: Site) -> bool:
    """Whether the feed-forward is a mixture of experts."""
    return experts_facts(trace, site) is not None


def count_experts(trace: Trace, site: Site) -> int:
    """How many experts the feed-forward has; 0 if it is no mixture."""
    facts = experts_facts(trace, site)
    return 0 if facts is None else facts.n_experts


def experts_facts(trace: Trace, site: Site) -> ExpertsFacts | None:
    """The facts of the layer's mixture of experts, if it has one."""
    return experts.experts_facts(_block(trace, site))


def expert_sizes(trace: Trace, site: Site) -> Shape:
    """The shape of a part of an expert."""
    inner = site.part.endswith((".up", ".gate", ".units"))
    return axis_sizes(trace, site, ("time", "d_ff" if inner else "d_model"))


def has_sum(trace: Trace, site: Site) -> bool:
    """Whether the stream exists between two sublayers of the block."""
    block = _block(trace, site)
    crosses = cast("Any", block).cross_attention is not None
    return writes_in_sequence(block) and (crosses or site.part == "after_attention")


def rotates(trace: Trace, site: Site) -> bool:
    """Whether positions turn queries and keys."""
    acts = where_positions_act(trace.stack_pass(site.side).positions(site.layer))
    facts = _attention(trace, site)
    match facts:
        case LatentAttentionFacts():
            return False  # its projections have an address of their own each
        case SoftmaxAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts():
            return not site.cross and acts == "queries and keys"
        case _:
            assert_never(facts)


def has_scores(trace: Trace, site: Site) -> bool:
    """Whether the head has scores: linear attention has none."""
    facts = _attention(trace, site)
    match facts:
        case SoftmaxAttentionFacts() | LatentAttentionFacts() | NeuralMemoryFacts():
            return True
        case LinearAttentionFacts():
            return False
        case _:
            assert_never(facts)


def has_bias(trace: Trace, site: Site) -> bool:
    """Whether positions add to the scores."""
    acts = where_positions_act(trace.stack_pass(site.side).positions(site.layer))
    return not site.cross and acts == "scores" and has_scores(trace, site)


def has_memory(trace: Trace, site: Site) -> bool:
    """Whether the head reads a memory in addition to its window."""
    facts = _attention(trace, site)
    match facts:
        case NeuralMemoryFacts():
            return True
        case SoftmaxAttentionFacts() | LatentAttentionFacts() | LinearAttentionFacts():
            return False
        case _:
            assert_never(facts)


def has_output_gate(trace: Trace, site: Site) -> bool:
    """Whether a gate multiplies the head's output."""
    facts = _attention(trace, site)
    match facts:
        case SoftmaxAttentionFacts(output_gate=gate):
            return gate is not None
        case LatentAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts():
            return False
        case _:
            assert_never(facts)


def has_softmax_gradient(trace: Trace, site: Site) -> bool:
    """Whether the gradient passes scores and weights: they are formed by softmax alone."""
    return has_scores(trace, site) and not has_memory(trace, site)


def has_head(trace: Trace, site: Site) -> bool:
    """Whether the model has logits over a vocabulary."""
    return trace.model.classifier is None and trace.model.has_head


def has_loss(trace: Trace, site: Site) -> bool:
    """Whether the text has a loss."""
    return trace.loss is not None


def has_token_losses(trace: Trace, site: Site) -> bool:
    """Whether the terms of the loss belong to tokens."""
    return trace.loss is not None and not isinstance(trace.loss, ClassLoss)


def has_classes(trace: Trace, site: Site) -> bool:
    """Whether the model is a classifier."""
    return trace.model.classifier is not None


def has_weight(trace: Trace, site: Site) -> bool:
    """Whether the model has a weight or buffer of that name."""
    return find_weight(trace.model, site.part) is not None


def is_tied(trace: Trace, site: Site) -> bool:
    """Whether the embedding is the matrix of the output head too, and is trained."""
    return trace.model.head is None and "token_embedding.weight" in trace.backward().norms


def _block(trace: Trace, site: Site) -> nn.Module:
    return trace.stack_pass(site.side).stack.blocks[site.layer]


def _attention(trace: Trace, site: Site) -> KnownAttention:
    facts = known_attention(attention_at(trace.model, site.as_head()))
    assert facts is not None  # a site of a head is one whose heads can be read
    return facts


def _d_ff(trace: Trace, site: Site) -> int | None:
    facts = experts.dense_facts(_block(trace, site), feed_forward_holder(site.part))
    return None if facts is None else facts.d_ff


def feed_forward_holder(part: str) -> str:
    """The feed-forward that a part belongs to: itself, an expert of it, or its shared layer."""
    return part.removesuffix(".in").removesuffix(".up").removesuffix(".gate").removesuffix(".units")
