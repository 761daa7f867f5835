"""The instructions from token ids to the input of the first block."""

from __future__ import annotations

from typing import assert_never

from torch import Tensor, nn

from pellucid.generation.decode_program import DecodeProgram
from pellucid.model import Positions, Stack
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
from pellucid.model.packed.layers import packed_of
from pellucid.native import Operation


def compile_entry(program: DecodeProgram, stack: Stack, x: int) -> None:
    """Append the embedding, with segments, positions, norm and projection, into the place `x`."""
    model, project = program.model, stack.input_projection
    width = model.token_embedding.embedding_dim
    place = x if project is None else program.place(width)
    program.write(
        Operation.EMBED,
        output=place,
        n_out=width,
        number=model.embedding_scale,
        **program.matrix(packed_of(model.token_embedding) or model.token_embedding.weight),
    )
    if model.segment_embedding is not None:
        _add_row(program, model.segment_embedding.weight, place, stride=0)
    if stack.projection_place == "first":
        place = _project(program, project, place, x)
    for positions in (stack.positions.for_layer(0), stack.embedding_positions):
        if positions is not None:
            _add_positions(program, positions, place)
    if stack.projection_place == "before_norm":
        place = _project(program, project, place, x)
    place = program.norm(stack.input_norm, input=place, output=place)
    if stack.projection_place == "last":
        _project(program, project, place, x)


def _project(program: DecodeProgram, project: nn.Module | None, place: int, x: int) -> int:
    """Map the embedding to x; without a map it is there already."""
    if project is not None:
        program.linear(project, input=place, output=x)
    return x


def _add_positions(program: DecodeProgram, positions: Positions, place: int) -> None:
    """Add positions to the embedding; each layer handles or refuses those that act within it."""
    facts = position_facts(positions)
    match facts:
        case AddedPositionFacts(table=name, first_row=first_row):
            table = tensor_at(positions, name)[first_row:]
            _add_row(program, table, place, stride=table.shape[1])
        case (
            NoPositionFacts()
            | RotaryFacts()
            | DistanceBiasFacts()
            | DistanceVectorFacts()
            | DisentangledFacts()
            | UnknownFacts()
        ):
            return
        case _:
            assert_never(facts)


def _add_row(program: DecodeProgram, table: Tensor, place: int, *, stride: int) -> None:
    """Add a row of a table: the first, or with a stride the one of the token's position."""
    gain, width = program.address(table.detach()), table.shape[1]
    program.write(Operation.PLACE, output=place, n_out=width, stride=stride, gain=gain)
