"""How much each part of the stream adds to one logit, the final norm's scale held as it is.

Direct contributions alone: what a part changes in later layers counts as theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor, nn

from pellucid.catalogue import message
from pellucid.explain.equations.equation import stack_prefix
from pellucid.explain.norms import scale_of
from pellucid.explain.part_facts import is_identity, norms_one_token, where_positions_act
from pellucid.explain.receipts.builder import cell
from pellucid.explain.residual_sums import list_sums, why_no_sums
from pellucid.explain.trace_types import Trace
from pellucid.model import Transformer
from pellucid.model.facts import (
    HeadTransformFacts,
    IdentityFacts,
    UnknownFacts,
    transform_facts,
)


@dataclass(frozen=True, slots=True)
class Contributions:
    """Parts and their shares of a logit, in the order of the model; `total` is their sum."""

    names: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def total(self) -> float:
        """The logit, before a cap."""
        return sum(self.values)


def why_no_contributions(trace: Trace) -> str | None:
    """Why a logit cannot be taken apart in this model; None where it can."""
    model = trace.model
    if not model.has_head:
        return message("contributions.the-model-has-no-head")
    facts = transform_facts(model.head_transform)
    match facts:
        case IdentityFacts():
            pass
        case HeadTransformFacts() if _is_linear(model.head_transform, facts):
            pass
        case HeadTransformFacts():
            return message("contributions.the-head-bends-the-states")
        case UnknownFacts(part=part):
            return message("contributions.pellucid-does-not-know-what", part=part)
        case _:
            assert_never(facts)
    norm = trace.stack_pass(trace.side).stack.final_norm
    if not is_identity(norm) and norms_one_token(norm) is None:
        kind, scale = type(norm).__name__, scale_of(norm)
        return message(
            "contributions.is-the-final-norm",
            kind=kind,
            scale=scale or message("contributions.unknown-norm"),
        )
    return why_no_sums(trace, trace.side)


@torch.no_grad()
def contributions(trace: Trace, token: int, word: int) -> Contributions:
    """The logit of `word` after `token`, taken apart; see `why_no_contributions` first."""
    side = trace.side
    names, parts = _start(trace, token)
    for layer in range(trace.n_layers(side)):
        for stream_sum in list_sums(trace, side, layer):
            for sublayer, address in stream_sum.terms:
                layer_name = address.partition(".")[0]
                names.append(message("residual.part", layer=layer_name, part=sublayer))
                parts.append(stream_sum.multiplier * trace[cell(address, token)].double())
    model = trace.model
    stream = trace.stack_pass(side).states[-1][0, token].double()
    norm = trace.stack_pass(side).stack.final_norm
    w, transform_bias = _read_row(model, word)
    terms = [float(w @ _apply_norm_scale(norm, part, stream)) for part in parts]
    facts = norms_one_token(norm)
    bias = None if facts is None or facts.bias is None else norm.get_parameter(facts.bias)
    if bias is not None:
        names.append(message("contributions.final-norm-bias"))
        terms.append(float(w @ bias.double()))
    if transform_bias is not None:
        names.append(message("contributions.bias-of-the-head-transform"))
        terms.append(transform_bias)
    if model.head_bias is not None:
        names.append(message("contributions.head-bias"))
        terms.append(float(model.head_bias[word]))
    return Contributions(tuple(names), tuple(terms))


def _is_linear(transform: nn.Module, facts: HeadTransformFacts) -> bool:
    """Whether the transform of the head is a matrix alone."""
    return facts.activation == "identity" and is_identity(transform.get_submodule(facts.norm))


def _read_row(model: Transformer, word: int) -> tuple[Tensor, float | None]:
    """The row of a word as it reads the states, and what the bias of a linear transform adds."""
    w = model.head_weight[word].double() * model.head_scale
    facts = transform_facts(model.head_transform)
    if not isinstance(facts, HeadTransformFacts):
        return w, None
    dense = model.head_transform.get_submodule(facts.dense)
    zero = model.head_weight.new_zeros(model.d_model)
    bias = dense(zero).double()
    columns = dense(torch.eye(len(zero)).to(zero)).double() - bias
    return columns @ w, float(bias @ w)


def _start(trace: Trace, token: int) -> tuple[list[str], list[Tensor]]:
    """What enters the first block: embedding and position apart, where no norm mixes them."""
    stack_pass = trace.stack_pass(trace.side)
    stack, first = stack_pass.stack, stack_pass.states[0][0, token].double()
    unknown = where_positions_act(stack.positions.for_layer(0)) == "unknown"
    if stack_pass.maps_later or unknown or not is_identity(stack.input_norm):
        return [message("word.input")], [first]
    if stack_pass.added_positions is None:
        return [message("word.embedding")], [first]
    added = trace[cell(f"{stack_prefix(trace, trace.side)}positions", token)].double()
    return [message("word.embedding"), message("word.position")], [first - added, added]


def _apply_norm_scale(norm: nn.Module, part: Tensor, stream: Tensor) -> Tensor:
    """What a norm makes of a part, by the scale that it has for the whole stream."""
    facts = norms_one_token(norm)
    if facts is None:
        return part
    if facts.centred:
        part, variance = part - part.mean(), stream.var(correction=0)
    else:
        variance = stream.square().mean()
    scaled = part * torch.rsqrt(variance + facts.eps)
    if facts.gain is None:
        return scaled
    return scaled * (norm.get_parameter(facts.gain).double() + facts.gain_offset)
