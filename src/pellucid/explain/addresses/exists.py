"""Whether a trace has an address: each function asks the facts of the parts."""

from __future__ import annotations

from typing import Any, assert_never, cast

from pellucid.explain.addresses.adapters import find_adapter
from pellucid.explain.addresses.block_parts import find_part
from pellucid.explain.addresses.shapes import (
    attention_facts_at,
    d_feed_forward,
    disentangled_facts,
    experts_facts,
)
from pellucid.explain.addresses.site import Site, block_at
from pellucid.explain.addresses.syntax import find_weight
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
)
from pellucid.explain.part_facts import (
    is_identity,
    is_sandwich,
    where_positions_act,
    writes_in_sequence,
)
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import (
    ClassificationHeadFacts,
    HeadTransformFacts,
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
    head_facts,
    transform_facts,
)


def adds_positions(trace: Trace, site: Site) -> bool:
    """Whether the positions are added to the embedding."""
    return trace.stack_pass(site.side).added_positions is not None


def entry_part_exists(trace: Trace, site: Site) -> bool:
    """Whether the stack has this part before its first block."""
    part = getattr(trace.stack_pass(site.side).stack, site.part.removesuffix(".in"))
    return part is not None and not is_identity(part)


def has_distances(trace: Trace, site: Site) -> bool:
    """Whether the scores of the layer compare content with vectors of distances."""
    return disentangled_facts(trace, site) is not None


def has_distance_vectors(trace: Trace, site: Site) -> bool:
    """Whether a head has keys, or queries, of the rows of distances."""
    facts = disentangled_facts(trace, site)
    if facts is None or site.cross:
        return False
    if site.part == "distance_keys":
        return facts.content_to_position
    return facts.position_to_content


def turns_before_norm(trace: Trace, site: Site) -> bool:
    """Whether positions turn queries and keys before a norm of theirs."""
    facts = attention_facts_at(trace, site)
    after = isinstance(facts, SoftmaxAttentionFacts) and facts.norms_after_rotation
    return after and rotates(trace, site)


def has_memory_steps(trace: Trace, site: Site) -> bool:
    """Whether a memory is written while it is read."""
    facts = attention_facts_at(trace, site)
    return isinstance(facts, NeuralMemoryFacts) and not facts.frozen


def has_dense(trace: Trace, site: Site) -> bool:
    """Whether the head has a transform with a dense layer."""
    return isinstance(transform_facts(trace.model.head_transform), HeadTransformFacts) and has_head(
        trace, site
    )


def has_class_part(trace: Trace, site: Site) -> bool:
    """Whether the classifier has this part before its matrix."""
    facts = head_facts(trace.model.output_head)
    if not isinstance(facts, ClassificationHeadFacts):
        return False
    if site.part == "pooler":
        return facts.pooler
    return site.part == "class_state" or isinstance(facts.transform, HeadTransformFacts)


def has_part(trace: Trace, site: Site) -> bool:
    """Whether a layer has a part of that name which is called itself."""
    part = find_part(block_at(trace, site), site.part.removesuffix(".in"))
    return part is not None and not ("norm" in site.part and is_sandwich(part))


def has_adapter(trace: Trace, site: Site) -> bool:
    """Whether a low-rank update acts beside the weight of a linear layer."""
    return find_adapter(block_at(trace, site), site.part.rpartition(".")[0]) is not None


def has_units(trace: Trace, site: Site) -> bool:
    """Whether the feed-forward, or an expert of it, has units between two matrices."""
    return d_feed_forward(trace, site) is not None


def has_experts(trace: Trace, site: Site) -> bool:
    """Whether the feed-forward is a mixture of experts."""
    return experts_facts(trace, site) is not None


def has_sum(trace: Trace, site: Site) -> bool:
    """Whether the stream exists between two sublayers of the block."""
    block = block_at(trace, site)
    crosses = cast("Any", block).cross_attention is not None
    return writes_in_sequence(block) and (crosses or site.part == "after_attention")


def rotates(trace: Trace, site: Site) -> bool:
    """Whether positions turn queries and keys."""
    acts = where_positions_act(trace.stack_pass(site.side).positions(site.layer))
    facts = attention_facts_at(trace, site)
    match facts:
        case LatentAttentionFacts():
            return False  # its projections have an address of their own each
        case SoftmaxAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts():
            return not site.cross and acts == "queries and keys"
        case _:
            assert_never(facts)


def has_scores(trace: Trace, site: Site) -> bool:
    """Whether the head has scores: linear attention has none."""
    facts = attention_facts_at(trace, site)
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
    facts = attention_facts_at(trace, site)
    match facts:
        case NeuralMemoryFacts():
            return True
        case SoftmaxAttentionFacts() | LatentAttentionFacts() | LinearAttentionFacts():
            return False
        case _:
            assert_never(facts)


def has_output_gate(trace: Trace, site: Site) -> bool:
    """Whether a gate multiplies the head's output."""
    facts = attention_facts_at(trace, site)
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


def has_log_z(trace: Trace, site: Site) -> bool:
    """Whether the loss reads the log of the sum over the vocabulary."""
    loss = trace.loss
    return (isinstance(loss, TokenLoss) and not loss.is_plain) or has_entropy(trace, site)


def has_entropy(trace: Trace, site: Site) -> bool:
    """Whether the loss has a bonus for the entropy."""
    return isinstance(trace.loss, TokenLoss | PolicyLoss) and trace.loss.entropy_bonus != 0.0


def has_teacher(trace: Trace, site: Site) -> bool:
    """Whether the loss compares with a teacher."""
    return isinstance(trace.loss, DistillationLoss)


def has_reference(trace: Trace, site: Site) -> bool:
    """Whether the loss compares with a reference model."""
    return isinstance(trace.loss, PreferenceLoss | PolicyLoss)


def has_margin(trace: Trace, site: Site) -> bool:
    """Whether the loss is of a pair of answers."""
    return isinstance(trace.loss, PreferenceLoss)


def has_log_p(trace: Trace, site: Site) -> bool:
    """Whether the loss reads probabilities at the temperature of sampling."""
    return isinstance(trace.loss, PolicyLoss)


def has_classes(trace: Trace, site: Site) -> bool:
    """Whether the model is a classifier."""
    return trace.model.classifier is not None


def has_weight(trace: Trace, site: Site) -> bool:
    """Whether the model has a weight or buffer of that name."""
    return find_weight(trace.model, site.part) is not None


def is_tied(trace: Trace, site: Site) -> bool:
    """Whether the embedding is the matrix of the output head too, and is trained."""
    is_shared = trace.model.head is None and has_head(trace, site)
    return is_shared and "token_embedding.weight" in trace.backward().norms
