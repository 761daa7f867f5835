"""What one step of decoding reads of a layer's scheme of positions."""

from __future__ import annotations

from typing import NamedTuple, assert_never

import torch
from torch import Tensor

from pellucid.generation.decode_program import refuse
from pellucid.model import Positions, look
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
    tensor_at,
)


class PositionTables(NamedTuple):
    """Tables of a scheme within attention; None if it has no such table."""

    n_rotated: int = 0
    interleaved: bool = False
    #: (context, n_rotated)
    cos: Tensor | None = None
    sin: Tensor | None = None
    #: (heads, context): the bias of a score by the distance of its key
    by_distance: Tensor | None = None


def position_tables(
    positions: Positions, attention: SoftmaxAttentionFacts, *, context_length: int
) -> PositionTables:
    """The tables of a scheme.

    Args:
        positions: The scheme. attention: Of the layer. context_length: The longest text.

    Raises:
        CannotCompile: There is no instruction for the scheme.
    """
    facts = position_facts(positions)
    match facts:
        case RotaryFacts(n_rotated=n_rotated, pairing=pairing, switch=None):
            cos, sin = tensor_at(positions, facts.cos), tensor_at(positions, facts.sin)
            return PositionTables(n_rotated, pairing == "interleaved", cos, sin)
        case DistanceBiasFacts(by="distance"):
            query = torch.zeros(1, attention.n_heads, 1, attention.d_head)
            keys = query.expand(-1, -1, context_length, -1)
            view = look(1, torch.device("cpu"), causal=True, start=context_length - 1)
            with torch.no_grad():  # the bias depends on distances alone
                bias = positions.bias(query, keys, view, attention.scale)
            assert bias is not None
            return PositionTables(by_distance=bias[:, 0].flip(-1).contiguous())
        case NoPositionFacts() | AddedPositionFacts():
            return PositionTables()
        case (
            RotaryFacts()
            | DistanceBiasFacts()
            | DistanceVectorFacts()
            | DisentangledFacts()
            | UnknownFacts()
        ):
            return refuse(positions)
        case _:
            assert_never(facts)
