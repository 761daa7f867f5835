"""Maps of the model with their scales held: a reading after a map, as a reading before it.

A norm divides by a scale that depends on its whole input. Held at the value that it has in this
sentence, the norm is A x + c, and a sum that goes in comes out as a sum. Likewise an activation is
s x + c if the slope s from 0 to its input is held. Each function here takes a direction u, one row
for each token, and gives A^T u and u · c, in float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple, assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.model.facts import (
    IdentityFacts,
    LinearFacts,
    NormFacts,
    SandwichFacts,
    UnknownFacts,
    linear_facts,
    norm_facts,
    tensor_at,
)


class Pulled(NamedTuple):
    """A^T u, (tokens, features), and u · c, (tokens,)."""

    direction: Tensor
    constants: Tensor

    @property
    def constant(self) -> float:
        """u · c of all tokens."""
        return float(self.constants.sum())


def read_matrix(linear: nn.Module) -> tuple[Tensor, Tensor | None]:
    """W, (outputs, inputs), and b of a linear layer in float64, adapters and rounding included."""
    facts = linear_facts(linear)
    weights = cast("Any", linear)
    if isinstance(facts, LinearFacts) and not facts.computed:
        bias = None if facts.bias is None else tensor_at(linear, facts.bias).double()
        return tensor_at(linear, facts.weight).double(), bias
    if isinstance(facts, UnknownFacts):
        raise PellucidError(
            message("why.pellucid-does-not-know-the-2", part=facts.part, reason=facts.reason)
        )
    eye = torch.eye(facts.n_inputs).to(weights.weight)
    bias = linear(torch.zeros_like(eye[:1]))[0].double()
    return (linear(eye).double() - bias).mT, bias


def pull_linear(linear: nn.Module, direction: Tensor) -> Pulled:
    """u through W x + b: W^T u, and u · b."""
    matrix, bias = read_matrix(linear)
    constants = direction.new_zeros(len(direction)) if bias is None else direction @ bias
    return Pulled(direction @ matrix, constants)


def pull_norm(norm: nn.Module, states: Tensor, places: list[int], direction: Tensor) -> Pulled:
    """u through a norm whose scale is held.

    The mean over a token's features is linear, and goes along. A mean over other tokens or texts
    is a constant here.

    Args:
        norm: the part in the place of a norm.
        states: (time, features), its input for the whole text.
        places: the tokens that are read.
        direction: (tokens, features), u of each of them.

    Raises:
        PellucidError: pellucid does not know what the part does.
    """
    facts = norm_facts(norm)
    match facts:
        case IdentityFacts():
            return Pulled(direction, direction.new_zeros(len(direction)))
        case NormFacts():
            return _pull_known(norm, facts, states.double(), places, direction)
        case SandwichFacts():
            raise PellucidError(message("why.a-sandwich-of-two-norms"))
        case UnknownFacts(part=part, reason=reason):
            raise PellucidError(
                message("why.pellucid-does-not-know-what", part=part, reason=reason)
            )
        case _:
            assert_never(facts)


def _pull_known(
    norm: nn.Module, facts: NormFacts, states: Tensor, places: list[int], direction: Tensor
) -> Pulled:
    bias = None if facts.bias is None else tensor_at(norm, facts.bias).double()
    constants = direction.new_zeros(len(direction)) if bias is None else direction @ bias
    if facts.gain is not None:
        direction = direction * (tensor_at(norm, facts.gain).double() + facts.gain_offset)
    match facts.mean_over:
        case "features":
            shape = (len(places), facts.n_groups, -1)
            groups, x = direction.view(shape), states[places].view(shape)
            scaled_direction = groups * torch.rsqrt(
                _variance(x, -1, centred=facts.centred) + facts.eps
            )
            if facts.centred:
                scaled_direction = scaled_direction - scaled_direction.mean(-1, keepdim=True)
            return Pulled(scaled_direction.flatten(1), constants)
        case "sequence":
            mean = states.mean(0) * facts.centred
            variance = _variance(states, 0, centred=facts.centred)[0]
        case "batch":
            assert facts.running_mean is not None
            assert facts.running_variance is not None
            mean = tensor_at(norm, facts.running_mean).double()
            variance = tensor_at(norm, facts.running_variance).double()
        case _:
            assert_never(facts.mean_over)
    scaled_direction = direction * torch.rsqrt(variance + facts.eps)
    return Pulled(scaled_direction, constants - scaled_direction @ mean)


def _variance(x: Tensor, axis: int, *, centred: bool) -> Tensor:
    if centred:
        return x.var(axis, correction=0, keepdim=True)
    return x.square().mean(axis, keepdim=True)


def pull_activation(inputs: Tensor, outputs: Tensor, at_zero: float, direction: Tensor) -> Pulled:
    """u through f(x) = f(0) + s x, where the slope s = (f(x) - f(0)) / x of each number is held.

    Args:
        inputs, outputs: (tokens, features), x and f(x).
        at_zero: f(0).
        direction: (tokens, features), u.
    """
    slopes = torch.where(
        inputs == 0, 0.0, (outputs - at_zero) / torch.where(inputs == 0, 1.0, inputs)
    )
    return Pulled(direction * slopes, (direction * at_zero).sum(-1))
