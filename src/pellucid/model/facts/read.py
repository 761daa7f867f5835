"""Read the facts of a part: one function for each slot of a model."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn
from torch.nn.utils import parametrize

from pellucid.model.facts.layers import (
    AttentionPart,
    EmbeddingFacts,
    FeedForwardPart,
    IdentityFacts,
    LinearFacts,
    LinearPart,
    NormPart,
    PositionPart,
    UnknownFacts,
)
from pellucid.model.facts.structure import (
    BlockPart,
    HeadPart,
    ModelPart,
    PartFacts,
    StackPart,
    TransformPart,
)


def facts_of(part: nn.Module) -> PartFacts:
    """What a part states of itself, or what torch's own plain modules are known to do.

    A subclass that replaces a method without stating facts of its own has none: what its parent
    states may no longer hold.
    """
    kind = type(part)
    stating = next((parent for parent in kind.__mro__ if "facts" in vars(parent)), None)
    if stating is None:
        return _facts_of_torch(part)
    for parent in kind.__mro__[: kind.__mro__.index(stating)]:
        replaced = [n for n in vars(parent) if not n.startswith("__") and hasattr(stating, n)]
        if replaced:
            reason = f"it replaces {replaced[0]} of {stating.__name__} and states no facts"
            return UnknownFacts(part=kind.__name__, reason=reason)
    return cast("PartFacts", cast("Any", part).facts())


def _facts_of_torch(part: nn.Module) -> PartFacts:
    computed = parametrize.is_parametrized(part)
    kind = type(part).__bases__[0] if computed else type(part)
    if kind is nn.Identity:
        return IdentityFacts()
    if kind is nn.Linear:
        linear = cast("nn.Linear", part)
        bias = "bias" if cast("Any", linear).bias is not None else None
        return LinearFacts(
            n_inputs=linear.in_features, n_outputs=linear.out_features, bias=bias, computed=computed
        )
    if kind is nn.Embedding and not computed:
        table = cast("nn.Embedding", part)
        return EmbeddingFacts(n_rows=table.num_embeddings, width=table.embedding_dim)
    return UnknownFacts(part=kind.__name__, reason="it states no facts")


def tensor_at(part: nn.Module, path: str) -> Tensor:
    """The parameter or buffer that a fact names."""
    holder, _, name = path.rpartition(".")
    return cast("Tensor", getattr(part.get_submodule(holder), name))


def norm_facts(part: nn.Module) -> NormPart:
    """What the part in the place of a norm does."""
    return cast("NormPart", _only(part, NormPart, "a norm"))


def attention_facts(part: nn.Module) -> AttentionPart:
    """What the part in the place of attention does."""
    return cast("AttentionPart", _only(part, AttentionPart, "attention"))


def feed_forward_facts(part: nn.Module) -> FeedForwardPart:
    """What the part in the place of a feed-forward layer does."""
    return cast("FeedForwardPart", _only(part, FeedForwardPart, "a feed-forward layer"))


def position_facts(part: nn.Module) -> PositionPart:
    """What a scheme of positions does."""
    return cast("PositionPart", _only(part, PositionPart, "a scheme of positions"))


def linear_facts(part: nn.Module) -> LinearPart:
    """What the part in the place of a linear layer does."""
    return cast("LinearPart", _only(part, LinearPart, "a linear layer"))


def block_facts(part: nn.Module) -> BlockPart:
    """How a block joins its layers."""
    return cast("BlockPart", _only(part, BlockPart, "a block"))


def stack_facts(part: nn.Module) -> StackPart:
    """How deep a stack is, and whether it is causal."""
    return cast("StackPart", _only(part, StackPart, "a stack"))


def model_facts(part: nn.Module) -> ModelPart:
    """Which stacks a model has; unknown for a model that is not pellucid's."""
    return cast("ModelPart", _only(part, ModelPart, "a pellucid model"))


def transform_facts(part: nn.Module) -> TransformPart:
    """What happens to the states before the matrix of a language head."""
    return cast("TransformPart", _only(part, TransformPart, "the transform of a head"))


def head_facts(part: nn.Module) -> HeadPart:
    """What an output head does with the last states."""
    return cast("HeadPart", _only(part, HeadPart, "an output head"))


def _only(part: nn.Module, slot_kinds: Any, slot: str) -> PartFacts:
    facts = facts_of(part)
    if isinstance(facts, slot_kinds):
        return facts
    return UnknownFacts(part=type(part).__name__, reason=f"it is not {slot}")
