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
    UnknownFacts,
)
from pellucid.model.facts.positions import (
    PositionPart,
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
    """The facts that a part states, or the known facts of torch's own plain modules.

    A subclass that replaces a method without its own `facts` has none: its parent's facts may no
    longer hold.
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
    """The facts of a norm."""
    return cast("NormPart", _facts_in_slot(part, NormPart, "a norm"))


def attention_facts(part: nn.Module) -> AttentionPart:
    """The facts of an attention layer."""
    return cast("AttentionPart", _facts_in_slot(part, AttentionPart, "attention"))


def feed_forward_facts(part: nn.Module) -> FeedForwardPart:
    """The facts of a feed-forward layer."""
    return cast("FeedForwardPart", _facts_in_slot(part, FeedForwardPart, "a feed-forward layer"))


def position_facts(part: nn.Module) -> PositionPart:
    """The facts of one scheme of positions; of a layer's, if the layers of a stack differ."""
    return cast("PositionPart", _facts_in_slot(part, PositionPart, "a scheme of positions"))


def linear_facts(part: nn.Module) -> LinearPart:
    """The facts of a linear layer."""
    return cast("LinearPart", _facts_in_slot(part, LinearPart, "a linear layer"))


def block_facts(part: nn.Module) -> BlockPart:
    """The facts of a block."""
    return cast("BlockPart", _facts_in_slot(part, BlockPart, "a block"))


def stack_facts(part: nn.Module) -> StackPart:
    """The facts of a stack."""
    return cast("StackPart", _facts_in_slot(part, StackPart, "a stack"))


def model_facts(part: nn.Module) -> ModelPart:
    """The facts of a model; unknown if it is not pellucid's."""
    return cast("ModelPart", _facts_in_slot(part, ModelPart, "a pellucid model"))


def transform_facts(part: nn.Module) -> TransformPart:
    """The facts of the transform before a language head's matrix."""
    return cast("TransformPart", _facts_in_slot(part, TransformPart, "the transform of a head"))


def head_facts(part: nn.Module) -> HeadPart:
    """The facts of an output head."""
    return cast("HeadPart", _facts_in_slot(part, HeadPart, "an output head"))


def _facts_in_slot(part: nn.Module, slot_kinds: Any, slot: str) -> PartFacts:
    facts = facts_of(part)
    if isinstance(facts, slot_kinds):
        return facts
    return UnknownFacts(part=type(part).__name__, reason=f"it is not {slot}")
