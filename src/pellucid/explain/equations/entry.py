"""What enters the first block: embedding, positions, and the norm and map before it."""

from __future__ import annotations

import math
from typing import assert_never

import torch

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import (
    AXES,
    Equation,
    label,
    read_stream,
    stack_prefix,
)
from pellucid.explain.equations.linear import linear
from pellucid.explain.equations.norms import norm_of
from pellucid.explain.formulas.nodes import Formula, Places, Read, setting
from pellucid.explain.part_facts import is_identity
from pellucid.explain.trace_types import Trace
from pellucid.model import Stack, Transformer
from pellucid.model.facts import (
    AddedPositionFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    NoPositionFacts,
    RotaryFacts,
    UnknownFacts,
    position_facts,
)
from pellucid.model.positions import at_places


def token_embedding(trace: Trace, site: Site) -> Equation:
    """A token's row of the table."""
    ids = trace.stack_pass(site.side).ids[0].cpu()
    prefix = stack_prefix(trace, site.side)
    return Equation(
        formula=Read("token_embedding.weight", (Places(ids, ("t",), f"{prefix}ids"), "f"), "E"),
        axes=AXES,
        title=lambda env: message(
            "equations.feature-of-the-row-of",
            f=env["f"],
            token=label(trace.pieces(site.side), env["t"]),
        ),
        text=lambda env: f"E[{int(ids[env['t']])}, {env['f']}]",
        source=(Transformer.embed, "x = self.token_embedding(ids)"),
    )


def embedding(trace: Trace, site: Site) -> Equation:
    """A token's row, scaled, plus the vector of its segment."""
    model = trace.model
    formula: Formula = read_stream(f"{stack_prefix(trace, site.side)}token_embedding", "E")
    text = "E"
    if model.embedding_scale != 1.0:
        name = embedding_scale_name(model)
        formula, text = formula * setting(model.embedding_scale, name), f"{text} × {name}"
    if model.segment_embedding is not None:
        formula = formula + Read("segment_embedding.weight", (0, "f"), "S")
        text += " + S[0]"
    return Equation(
        formula=formula,
        axes=AXES,
        title=lambda env: message(
            "equations.feature-of-the-embedding-of",
            f=env["f"],
            token=label(trace.pieces(site.side), env["t"]),
        ),
        text=text,
        source=(Transformer.embed, "x = self.token_embedding(ids)"),
    )


def embedding_scale_name(model: Transformer) -> str:
    """What the factor of the embeddings is called."""
    width = model.token_embedding.weight.shape[1]
    return "√d_model" if math.isclose(model.embedding_scale, math.sqrt(width)) else "multiplier"


def positions(trace: Trace, site: Site) -> Equation | str:
    """A row of the table of positions."""
    stack_pass = trace.stack_pass(site.side)
    scheme = stack_pass.added_positions
    assert scheme is not None
    facts = position_facts(scheme)
    match facts:
        case AddedPositionFacts(table=table, first_row=first_row):
            pass
        case RotaryFacts() | DistanceBiasFacts() | DistanceVectorFacts() | DisentangledFacts():
            return "these positions are not added to the embedding"
        case NoPositionFacts() | UnknownFacts():
            return "pellucid has no formula for these positions"
        case _:
            assert_never(facts)
    is_embedding = scheme is stack_pass.stack.embedding_positions
    path = "embedding_positions" if is_embedding else stack_pass.positions_path(0)
    rows = Places(torch.arange(stack_pass.ids.shape[1]) + first_row, ("t",))
    return Equation(
        formula=Read(f"{site.side}.{path}.{table}", (rows, "f"), "row"),
        axes=AXES,
        title=lambda env: message("equations.feature-of-the-vector-of-2", f=env["f"], t=env["t"]),
        text=lambda env: f"table[{env['t'] + first_row}, {env['f']}]",
        source=(at_places, "return table[view.start + first"),
    )


def entering(trace: Trace, site: Site) -> Equation:
    """What a part before the first block reads, or the first block itself.

    In the order of `Stack.enter`: map, positions, map, norm, map; each if the model has it.
    """
    stack_pass, prefix = trace.stack_pass(site.side), stack_prefix(trace, site.side)
    stack, stop = stack_pass.stack, site.part
    current: Formula = read_stream(f"{prefix}embedding", "embedding")
    text, place = "embedding", stack.projection_place if stack.input_projection else None

    def maps(stage: str) -> bool:
        return place == stage

    stages: list[tuple[str, bool]] = [
        ("input_projection", maps("first")),
        ("positions", stack_pass.added_positions is not None),
        ("input_projection", maps("before_norm")),
        ("input_norm", not is_identity(stack.input_norm)),
        ("input_projection", maps("last")),
    ]
    for name, is_there in stages:
        if not is_there:
            continue
        if f"{name}.in" == stop:
            break
        if name == "positions":
            current, text = (
                current + read_stream(f"{prefix}positions", "position"),
                f"{text} + position",
            )
        else:
            current, text = read_stream(f"{prefix}{name}"), name
    return Equation(
        formula=current,
        axes=AXES,
        title=lambda env: message(
            "equations.feature-of-on-its-way",
            f=env["f"],
            token=label(trace.pieces(site.side), env["t"]),
        ),
        text=text,
        source=(Stack.enter, "x = self.positions.embed(x, view)"),
    )


def input_norm(trace: Trace, site: Site) -> Equation | str:
    """A feature after the norm before the first block."""
    width = trace[f"{site.address}.in"].shape[1]
    return norm_of(trace, f"{site.side}.input_norm", f"{site.address}.in", width)


def input_projection(trace: Trace, site: Site) -> Equation:
    """A row of the map of the embedding to d_model."""
    return linear(
        trace,
        site,
        layer=f"{site.side}.input_projection",
        reads=f"{site.address}.in",
        title=lambda env: message("equations.mapped-embedding", f=env["f"]),
        line="return self.input_projection(x)",
    )
