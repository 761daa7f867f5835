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
    positions: Positions, *, context_length: int, n_heads: int, d_head: int
) -> PositionTables:
    """The tables of a scheme.

    Args:
        positions: The scheme. context_length: The longest text. n_heads, d_head: Of the attention.

    Raises:
        CannotCompile: There is no instruction for the scheme.
    """
    facts = position_facts(positions)
    match facts:
        case RotaryFacts(n_rotated=n_rotated, pairing=pairing):
            cos, sin = tensor_at(positions, facts.cos), tensor_at(positions, facts.sin)
            return PositionTables(n_rotated, pairing == "interleaved", cos, sin)
        case DistanceBiasFacts():
            query = torch.zeros(1, n_heads, 1, d_head)
            keys = query.expand(-1, -1, context_length, -1)
            view = look(1, torch.device("cpu"), causal=True, start=context_length - 1)
            with torch.no_grad():
                bias = positions.bias(query, keys, view, 1.0)  # it depends on distances alone
            assert bias is not None
            return PositionTables(by_distance=bias[:, 0].flip(-1).contiguous())
        case NoPositionFacts() | AddedPositionFacts():
            return PositionTables()
        case DistanceVectorFacts() | DisentangledFacts() | UnknownFacts():
            return refuse(positions)
        case _:
            assert_never(facts)
