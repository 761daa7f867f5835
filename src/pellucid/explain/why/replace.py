"""The output of one part replaced, and the rest of the model computed again: what really changes.

Rows of one batch have a part replaced each, so that one forward pass measures many.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.experts import expert_number
from pellucid.explain.forward_pass import (
    ONE_AT_A_TIME,
    HeadPlace,
    attention_at,
    evaluating,
    scaled,
)
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.types import Part, Rivals
from pellucid.model import Encoded, Transformer
from pellucid.model.experts.routing import Routing
from pellucid.typed import to_list

#: Tokens of one forward pass, at most: more rows than this go one after another.
_TOKENS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A part, and (time, features), what it gives instead; None leaves it as it is.

    `places` are the tokens where it is replaced.
    """

    part: Part | None = None
    vectors: Tensor | None = None
    places: Sequence[int] = ()


@torch.no_grad()
def part_vectors(trace: Trace, part: Part) -> Tensor:
    """(time, features): what a part gives in a sentence, as `Part.direction` reads it.

    Raises:
        PellucidError: the part is a constant.
    """
    match part.kind:
        case "head":
            assert part.layer is not None
            assert part.head is not None
            attention = trace.attention(part.side, part.layer, cross=part.cross)
            return attention.outputs[0, part.head]
        case "feed-forward" | "layer":
            return trace[part.name]
        case "expert":
            return _expert_vectors(trace, part)
        case "embedding":
            rows = trace.model.token_embedding(trace.stack_pass(part.side).ids)[0]
            return rows * trace.model.embedding_scale
        case "positions":
            return trace[part.name]
        case "constant":
            raise PellucidError(message("why.is-the-same-in-every", name=part.name))
        case _:
            assert_never(part.kind)


def _expert_vectors(trace: Trace, part: Part) -> Tensor:
    assert part.layer is not None
    if not part.name.endswith(".shared"):
        return trace[f"{part.name}.written"]
    gate = f"{part.name.removesuffix('.shared')}.shared_gate"
    outputs = trace[part.name]
    return outputs * trace[gate].sigmoid() if gate in trace.addresses() else outputs


@torch.no_grad()
def measure_differences(
    trace: Trace, rivals: Rivals, replacements: Sequence[Replacement]
) -> list[float]:
    """The difference of the two logits, before a cap, with each replacement alone.

    Args:
        trace: the sentence.
        rivals: the two words or classes.
        replacements: one for each result.
    """
    time = len(trace.ids)
    n_rows_at_once = max(1, _TOKENS_AT_ONCE // time)
    differences: list[float] = []
    for start in range(0, len(replacements), n_rows_at_once):
        differences += _measure_rows(trace, rivals, replacements[start : start + n_rows_at_once])
    return differences


def _measure_rows(trace: Trace, rivals: Rivals, replacements: Sequence[Replacement]) -> list[float]:
    model, n_rows = trace.model, len(replacements)
    ids = trace.ids.expand(n_rows, -1)
    encoded = None
    if len(trace.sides) == 2:
        encoded = Encoded(trace.stack_pass("encoder").final.expand(n_rows, -1, -1))
    with (
        ONE_AT_A_TIME,
        evaluating(model),
        scaled(model, trace.scales, trace.edits),
        ExitStack() as hooks,
    ):
        for row, replacement in enumerate(replacements):
            _hook(hooks, trace, replacement, row)
        states = model.states(ids, encoded=encoded)
        return read_differences(model, rivals, states)


def read_differences(model: Transformer, rivals: Rivals, states: Tensor) -> list[float]:
    """The difference of two logits of each row, (rows, time, d_model) after the final norm."""
    pair = list(rivals.ids)
    if rivals.token is None:
        logits = model.output_head(states)[:, pair].double()
        return to_list(logits[:, 0] - logits[:, 1])
    hidden = model.readable(states[:, rivals.token]).double()
    rows = model.head_weight[pair].double()
    differences = hidden @ (rows[0] - rows[1])
    if model.head_bias is not None:
        bias = model.head_bias[pair].double()
        differences = differences + bias[0] - bias[1]
    return to_list(differences)


# where a part is replaced


@dataclass(frozen=True, slots=True)
class _Spot:
    """One row of the batch, and its tokens where something is replaced."""

    row: int
    places: list[int]
    vectors: Tensor

    @property
    def replaced_vectors(self) -> Tensor:
        """(places, features): the vectors to put there."""
        return self.vectors[self.places]


def _hook(hooks: ExitStack, trace: Trace, replacement: Replacement, row: int) -> None:
    part, vectors = replacement.part, replacement.vectors
    if part is None:
        return
    assert vectors is not None
    spot = _Spot(row, list(replacement.places), vectors)
    stack = trace.stack_pass(part.side).stack
    match part.kind:
        case "head":
            assert part.layer is not None
            assert part.head is not None
            place = HeadPlace(part.side, part.layer, part.head, part.cross)
            output = cast("Any", attention_at(trace.model, place)).output
            hook = _set_features(spot, part.head * vectors.shape[-1])
            hooks.enter_context(output.register_forward_pre_hook(hook))
        case "feed-forward" | "layer":
            assert part.layer is not None
            layer = stack.blocks[part.layer].get_submodule(part.name.partition(".")[2])
            hooks.enter_context(layer.register_forward_hook(_set_output(spot)))
        case "expert":
            assert part.layer is not None
            mixture = stack.blocks[part.layer].get_submodule("feed_forward")
            _replace_expert(hooks, mixture, part, spot)
        case "embedding" | "positions":
            added = replace(spot, vectors=vectors - part_vectors(trace, part).to(vectors))
            if part.kind == "positions" and stack.projection_place == "first":
                first = cast("nn.Module", stack.input_projection)
                hooks.enter_context(first.register_forward_hook(_add_output(added)))
            else:
                hooks.enter_context(stack.register_forward_pre_hook(_add_input(added)))
        case "constant":
            raise PellucidError(message("why.is-the-same-in-every", name=part.name))
        case _:
            assert_never(part.kind)


def _set_features(spot: _Spot, first: int) -> Any:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        joined = inputs[0].clone()
        width = spot.vectors.shape[-1]
        joined[spot.row, spot.places, first : first + width] = spot.replaced_vectors.to(joined)
        return (joined,)

    return hook


def _set_output(spot: _Spot) -> Any:
    def hook(_: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        output = output.clone()
        output[spot.row, spot.places] = spot.replaced_vectors.to(output)
        return output

    return hook


def _add_output(spot: _Spot) -> Any:
    def hook(_: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        output = output.clone()
        output[spot.row, spot.places] += spot.replaced_vectors.to(output)
        return output

    return hook


def _add_input(spot: _Spot) -> Any:
    def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x = inputs[0].clone()
        x[spot.row, spot.places] += spot.replaced_vectors.to(x)
        return (x, *inputs[1:])

    return hook


def _replace_expert(hooks: ExitStack, mixture: nn.Module, part: Part, spot: _Spot) -> None:
    """Take away what an expert adds to the tokens that use it, and add something else."""
    routings: list[Routing] = []

    def keep(_: nn.Module, inputs: Any, routing: Routing) -> None:
        routings[:] = [routing]

    def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        tokens = inputs[0][spot.row, spot.places]
        weights = routings[0].weights_of_all.view(*inputs[0].shape[:2], -1)
        added = _expert_output(layer, part, tokens, weights[spot.row, spot.places])
        output = output.clone()
        output[spot.row, spot.places] += spot.replaced_vectors.to(output) - added.to(output)
        return output

    hooks.enter_context(mixture.get_submodule("rule").register_forward_hook(keep))
    hooks.enter_context(mixture.register_forward_hook(hook))


def _expert_output(mixture: nn.Module, part: Part, tokens: Tensor, weights: Tensor) -> Tensor:
    """What an expert, or the shared layer, adds to the output of its mixture."""
    layer, number = cast("Any", mixture), expert_number(part.name)
    if number is None:
        shared = layer.shared(tokens)
        return shared if layer.shared_gate is None else layer.shared_gate(tokens).sigmoid() * shared
    weight = weights[:, [number]].to(tokens.dtype)
    if layer.weights_on == "output":
        return weight * layer.experts[number](tokens)
    return torch.where(weight != 0, layer.experts[number](tokens * weight), 0.0)
