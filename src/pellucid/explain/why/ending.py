"""From two logits back to the last states: the direction whose product with them is the difference.

What a language head reads is the state of one token; what a classification head reads may be the
mean over all tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.part_facts import is_identity
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.held import (
    Pulled,
    pull_activation,
    pull_linear,
    pull_norm,
    read_matrix,
)
from pellucid.explain.why.types import Part, Rivals
from pellucid.model.facts import (
    ClassificationHeadFacts,
    HeadTransformFacts,
    IdentityFacts,
    LanguageHeadFacts,
    NoHeadFacts,
    UnknownFacts,
    head_facts,
    transform_facts,
)


@dataclass(slots=True)
class Ending:
    """The tokens that the head reads, and for each the direction of the difference.

    `direction` is (tokens, d_model), of the states before the final norm, in float64. `constants`
    are what the head and its norms add in any text. `held_scales` names all that
    is fixed at its value.
    """

    places: list[int]
    direction: Tensor
    constants: list[Part] = field(default_factory=list[Part])
    held_scales: list[str] = field(default_factory=list[str])

    def pull(self, name: str, pulled: Pulled) -> None:
        """Go back through one map, and keep what it adds in any text."""
        self.direction = pulled.direction
        self.add(name, pulled.constant)

    def add(self, name: str, share: float) -> None:
        """Keep a constant; 0 is none."""
        if share:
            self.constants.append(
                Part(name=name, kind="constant", side="decoder", layer=None, share=share)
            )


@torch.no_grad()
def find_ending(trace: Trace, rivals: Rivals) -> Ending:
    """The direction of the difference of two logits, before the final norm.

    Raises:
        PellucidError: the head or the final norm does something that pellucid does not know.
    """
    ending = _read_head(trace, rivals)
    stack_pass = trace.stack_pass(trace.side)
    norm, states = stack_pass.stack.final_norm, stack_pass.states[-1][0]
    ending.pull("final_norm", pull_norm(norm, states, ending.places, ending.direction))
    if not is_identity(norm):
        ending.held_scales.insert(0, message("why.the-scale-of-the-final"))
    for number, part in enumerate(ending.constants):
        ending.constants[number] = Part(
            name=part.name, kind="constant", side=trace.side, layer=None, share=part.share
        )
    return ending


def _read_head(trace: Trace, rivals: Rivals) -> Ending:
    facts = head_facts(trace.model.output_head)
    match facts:
        case LanguageHeadFacts():
            assert rivals.token is not None
            return _read_words(trace, rivals, rivals.token)
        case ClassificationHeadFacts():
            return _read_classes(trace, rivals, facts)
        case NoHeadFacts():
            raise PellucidError(
                trace.model.output_head.no_token_logits or message("why.there-is-no-head")
            )
        case UnknownFacts(part=part, reason=reason):
            raise PellucidError(message("why.pellucid-does-not-know-the", part=part, reason=reason))
        case _:
            assert_never(facts)


def _read_words(trace: Trace, rivals: Rivals, place: int) -> Ending:
    model, (word, other) = trace.model, rivals.ids
    rows = model.head_weight[[word, other]].double() * model.head_scale
    ending = Ending([place], (rows[0] - rows[1])[None])
    if model.head_bias is not None:
        ending.add("head_bias", float(model.head_bias[word] - model.head_bias[other]))
    if model.soft_cap is not None:
        ending.held_scales.append(
            message("why.the-logits-before-their-cap", soft_cap=model.soft_cap)
        )
    _pull_transform(ending, model.head_transform, trace.last[[place]].double(), "head_transform")
    return ending


def _read_classes(trace: Trace, rivals: Rivals, facts: ClassificationHeadFacts) -> Ending:
    model, time = trace.model, len(trace.ids)
    assert model.classifier is not None
    match facts.pooling:
        case "first":
            places = [0]
        case "last":
            places = [time - 1]
        case "mean":
            places = list(range(time))
        case _:
            assert_never(facts.pooling)
    pooled = trace.last[places].double().mean(0, keepdim=True)
    matrix, bias = read_matrix(model.classifier)
    word, other = rivals.ids
    ending = Ending(places, (matrix[word] - matrix[other])[None])
    if bias is not None:
        ending.add("classifier.bias", float(bias[word] - bias[other]))
    pooler = model.pooler if facts.pooler else None
    into_transform = pooled if pooler is None else torch.tanh(_apply(pooler, pooled))
    if model.classifier_transform is not None:
        _pull_transform(ending, model.classifier_transform, into_transform, "classifier_transform")
    if pooler is not None:
        bent = _apply(pooler, pooled)
        ending.pull("pooler", pull_activation(bent, torch.tanh(bent), 0.0, ending.direction))
        ending.pull("pooler.bias", pull_linear(pooler, ending.direction))
        ending.held_scales.append(message("why.the-slope-of-the-pooler"))
    ending.direction = ending.direction.expand(len(places), -1) / len(places)
    return ending


def _pull_transform(ending: Ending, transform: nn.Module, states: Tensor, name: str) -> None:
    """Back through norm(activation(dense(x))), its scale and its slopes held."""
    facts = transform_facts(transform)
    match facts:
        case IdentityFacts():
            return
        case HeadTransformFacts():
            pass
        case UnknownFacts(part=part, reason=reason):
            raise PellucidError(
                message("why.pellucid-does-not-know-what", part=part, reason=reason)
            )
        case _:
            assert_never(facts)
    dense, norm = (transform.get_submodule(part) for part in (facts.dense, facts.norm))
    raw = _apply(dense, states)
    activate = None if facts.activation == "identity" else cast("Any", transform).activation
    bent = raw if activate is None else activate(raw)
    ending.pull(f"{name}.norm", pull_norm(norm, bent, [0], ending.direction))
    if not is_identity(norm):
        ending.held_scales.append(message("why.the-scale-of-the-norm"))
    if activate is not None:
        at_zero = float(activate(torch.zeros(1, dtype=torch.float64)))
        ending.pull(f"{name}.activation", pull_activation(raw, bent, at_zero, ending.direction))
        ending.held_scales.append(message("why.the-slopes-of-the-activation"))
    ending.pull(f"{name}.dense.bias", pull_linear(dense, ending.direction))


def _apply(linear: nn.Module, x: Tensor) -> Tensor:
    """W x + b in float64."""
    matrix, bias = read_matrix(linear)
    product = x @ matrix.mT
    return product if bias is None else product + bias
