"""What the parts of a model state about themselves, as this room reads it."""

from __future__ import annotations

from typing import Literal, assert_never

from torch import nn

from pellucid.model.facts import (
    AddedPositionFacts,
    BlockFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    IdentityFacts,
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    NoPositionFacts,
    NormFacts,
    RotaryFacts,
    SandwichFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    block_facts,
    norm_facts,
    position_facts,
)

#: Attention whose heads can be read.
KnownAttention = (
    SoftmaxAttentionFacts | LatentAttentionFacts | LinearAttentionFacts | NeuralMemoryFacts
)


def known_attention(layer: nn.Module | None) -> KnownAttention | None:
    """The facts of an attention whose heads can be read; None of any other, or of no layer."""
    if layer is None:
        return None
    stated = attention_facts(layer)
    match stated:
        case UnknownFacts():
            return None
        case SoftmaxAttentionFacts() | LatentAttentionFacts() as facts:
            return facts
        case LinearAttentionFacts() | NeuralMemoryFacts() as facts:
            return facts
        case _:
            assert_never(stated)


def where_positions_act(
    positions: nn.Module,
) -> Literal["stream", "queries and keys", "scores", "nowhere", "unknown"]:
    """What a scheme of positions changes."""
    facts = position_facts(positions)
    match facts:
        case AddedPositionFacts():
            return "stream"
        case RotaryFacts():
            return "queries and keys"
        case DistanceBiasFacts() | DistanceVectorFacts() | DisentangledFacts():
            return "scores"
        case NoPositionFacts():
            return "nowhere"
        case UnknownFacts():
            return "unknown"
        case _:
            assert_never(facts)


def rotation_of(positions: nn.Module) -> RotaryFacts | None:
    """How a scheme turns queries and keys; None if it does not, or if that is unknown."""
    stated = position_facts(positions)
    match stated:
        case RotaryFacts() as facts:
            return facts
        case AddedPositionFacts() | DistanceBiasFacts() | DistanceVectorFacts():
            return None
        case DisentangledFacts():
            return None
        case NoPositionFacts() | UnknownFacts():
            return None
        case _:
            assert_never(stated)


def projection_input(layer: nn.Module, name: str) -> str:
    """What a projection of attention reads: "in", or the name of the norm before it."""
    facts = attention_facts(layer)
    match facts:
        case LatentAttentionFacts():
            of_queries = facts.query_latent_norm or "in"
            inputs = {facts.key: facts.latent_norm, facts.value: facts.latent_norm}
            return (inputs | {facts.query: of_queries}).get(name, "in")
        case SoftmaxAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts():
            return "in"
        case UnknownFacts():
            return "in"
        case _:
            assert_never(facts)


def first_rotated(layer: nn.Module) -> int:
    """The first feature of a query or key that positions can rotate."""
    facts = attention_facts(layer)
    match facts:
        case LatentAttentionFacts(d_head=d_head, d_rotated=d_rotated):
            return d_head - d_rotated
        case SoftmaxAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts():
            return 0
        case UnknownFacts():
            return 0
        case _:
            assert_never(facts)


def may_bias_by_query(positions: nn.Module) -> bool:
    """Whether the bias of a score depends on the query, or may."""
    facts = position_facts(positions)
    match facts:
        case DistanceVectorFacts() | DisentangledFacts() | UnknownFacts():
            return True
        case AddedPositionFacts() | RotaryFacts() | DistanceBiasFacts() | NoPositionFacts():
            return False
        case _:
            assert_never(facts)


def is_identity(norm: nn.Module) -> bool:
    """Whether the part in the place of a norm is known to return its input."""
    facts = norm_facts(norm)
    match facts:
        case IdentityFacts():
            return True
        case NormFacts() | SandwichFacts() | UnknownFacts():
            return False
        case _:
            assert_never(facts)


def norm_within(norm: nn.Module) -> str | None:
    """The name of the first norm of a sandwich; None for any other part."""
    facts = norm_facts(norm)
    match facts:
        case SandwichFacts(before=before):
            return before
        case NormFacts() | IdentityFacts() | UnknownFacts():
            return None
        case _:
            assert_never(facts)


def entry_norm(block: nn.Module, name: str) -> str:
    """The name of the norm that a sublayer reads through: a sandwich has two."""
    first = norm_within(block.get_submodule(name))
    return name if first is None else f"{name}.{first}"


def is_sandwich(part: nn.Module) -> bool:
    """Whether the part is two norms, and is not called itself."""
    return norm_within(part) is not None


def norms_one_token(norm: nn.Module) -> NormFacts | None:
    """The facts of a norm over all features of one token; None of any other part."""
    stated = norm_facts(norm)
    match stated:
        case NormFacts(mean_over="features", n_groups=1) as facts:
            return facts
        case NormFacts() | SandwichFacts() | IdentityFacts() | UnknownFacts():
            return None
        case _:
            assert_never(stated)


def writes_in_sequence(block: nn.Module) -> bool:
    """Whether the sublayers come one after another: in a parallel block both read one state."""
    facts = block_facts(block)
    match facts:
        case BlockFacts(order=order):
            return order == "sequential"
        case UnknownFacts():
            return True
        case _:
            assert_never(facts)
