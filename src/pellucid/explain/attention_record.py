"""What one attention of a block did, by head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, assert_never, cast

from torch import Tensor, nn

from pellucid.explain.part_facts import KnownAttention
from pellucid.model import (
    Positions,
    View,
)
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)
from pellucid.model.scores import Scoring


@dataclass(slots=True)
class AttentionRecord:
    """The tensors of one attention, by head: (1, heads, time, features)."""

    layer: nn.Module
    facts: KnownAttention
    q: Tensor
    k: Tensor
    v: Tensor
    #: the heads' outputs, before the output projection
    outputs: Tensor
    positions: Positions
    view: View
    #: the same side by side, the input of that projection: (1, time, heads * features)
    joined: Tensor
    #: before rotation, if positions rotate
    q_plain: Tensor | None = None
    k_plain: Tensor | None = None
    #: after rotation, if a norm follows it
    q_turned: Tensor | None = None
    k_turned: Tensor | None = None
    #: of a layer with a memory: what it reads, the norm of that, and its share
    memory_read: Tensor | None = None
    memory: Tensor | None = None
    gate: Tensor | None = None
    #: its projections and the logits of its gates, by their names in the layer
    memory_parts: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    #: of a layer with an output gate: the factor of each feature
    output_gate: Tensor | None = None

    @property
    def n_heads(self) -> int:
        """Heads of queries; keys and values may have fewer."""
        return self.q.shape[1]

    def head_tensors(self) -> dict[str, Tensor]:
        """The tensors of all heads by their name in an address: (1, heads, time, features).

        `joined` is the one that is not split into heads.
        """
        tensors = {
            "q": self.q,
            "k": self.k,
            "q_plain": self.q_plain,
            "k_plain": self.k_plain,
            "q_turned": self.q_turned,
            "k_turned": self.k_turned,
            "v": self.v,
            "out": self.outputs,
            "memory_read": self.memory_read,
            "memory": self.memory,
            "joined": self.joined,
        }
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    @property
    def scoring(self) -> Scoring | None:
        """How scores are computed; None of an attention without them."""
        match self.facts:
            case SoftmaxAttentionFacts() | LatentAttentionFacts() | NeuralMemoryFacts():
                return cast("Any", self.layer).scoring()
            case LinearAttentionFacts():
                return None
            case _:
                assert_never(self.facts)

    @property
    def window(self) -> int | None:
        """How many keys a query sees at most; None without a window."""
        match self.facts:
            case SoftmaxAttentionFacts(window=window) | NeuralMemoryFacts(window=window):
                return window
            case LatentAttentionFacts() | LinearAttentionFacts():
                return None
            case _:
                assert_never(self.facts)
