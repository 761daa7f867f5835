"""What an edit does while the model runs: hooks that change a tensor, and scores with a bias.

Each is a frozen value with `apply(model)`, a context within which the model computes with it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from pellucid.explain.addresses.syntax import Index
from pellucid.model import Positions, Stack, Transformer, View
from pellucid.model.experts.routing import Routing
from pellucid.model.facts import PartFacts, facts_of
from pellucid.model.positions import ProjectsPositions
from pellucid.model.scores import scores_of, visible, weights_of

Operation = Literal["set", "scale", "add"]
#: A number, "mean" for the mean over the sentence's tokens, or a tensor that broadcasts.
Value = float | Literal["mean"] | Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change: an address, which may end with an index, and what happens there.

    `value` is a number, "mean", a tensor that broadcasts, or the text of a token.

    Attributes:
        address: such as "L2.H1.weights[6, 1]".
        operation: set, scale or add.
    """

    address: str
    operation: Operation = "set"
    value: Value | str = 0.0


def apply_operation(x: Tensor, index: Index, operation: Operation, value: Value) -> Tensor:
    """A copy of (batch, time, features) with what the index names set, scaled or added to."""
    copy = x.clone()
    place = (slice(None), *index)
    if isinstance(value, str):
        copy[place] = x.mean(1, keepdim=True).expand_as(x)[place]
        return copy
    number = torch.as_tensor(value, dtype=copy.dtype, device=copy.device)
    match operation:
        case "set":
            copy[place] = number
        case "scale":
            copy[place] = x[place] * number
        case "add":
            copy[place] = x[place] + number
    return copy


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEdit:
    """The input or output of one part, changed: `features` are one head's, if it is one."""

    address: str
    stack: Literal["encoder", "decoder"]
    #: the part's path in the stack, such as blocks.2.feed_forward.down
    part: str
    at: Literal["input", "output"]
    index: Index
    operation: Operation
    value: Value
    features: tuple[int, int] | None = None

    def apply(self, hooks: ExitStack, model: Transformer) -> None:
        """Register the hook."""
        part = cast("nn.Module", getattr(model, self.stack)).get_submodule(self.part)
        if self.at == "input":
            hooks.enter_context(part.register_forward_pre_hook(self._on_input))
        else:
            hooks.enter_context(part.register_forward_hook(self._on_output))

    def _change(self, x: Tensor) -> Tensor:
        if self.features is None:
            return apply_operation(x, self.index, self.operation, self.value)
        features, x = slice(*self.features), x.clone()
        x[..., features] = apply_operation(x[..., features], self.index, self.operation, self.value)
        return x

    def _on_input(self, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._change(inputs[0]), *inputs[1:])

    def _on_output(self, _: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return self._change(output)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertEdit:
    """The weight of one expert, scaled at every token that uses it; the others keep theirs."""

    address: str
    stack: Literal["encoder", "decoder"]
    layer: int
    expert: int
    factor: float

    def apply(self, hooks: ExitStack, model: Transformer) -> None:
        """Register the hook."""
        rule = getattr(model, self.stack).blocks[self.layer].feed_forward.rule
        hooks.enter_context(rule.register_forward_hook(self._on_routing))

    def _on_routing(self, _: nn.Module, inputs: Any, routing: Routing) -> Routing:
        is_mine = routing.experts == self.expert
        return routing._replace(
            weights=torch.where(is_mine, routing.weights * self.factor, routing.weights)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightEdit:
    """One attention weight set to a share; the others keep their proportions.

    It adds logit(share) - logit(w) to the score, so softmax gives exactly that share.
    """

    address: str
    stack: Literal["encoder", "decoder"]
    layer: int
    head: int
    query: int
    key: int
    share: float

    def apply(self, hooks: ExitStack, model: Transformer) -> None:
        """Put a scheme of positions that adds the bias in the place of the stack's."""
        hooks.enter_context(_with_edited_scores(getattr(model, self.stack), self))

    def bias(self, weight: Tensor) -> Tensor:
        """The number to add to the score, from the weight that it gives now."""
        share = torch.as_tensor(self.share, dtype=weight.dtype, device=weight.device)
        return torch.logit(share) - torch.logit(weight)


class _EditedLayer(Positions):
    """A scheme that adds a bias to one score of one head."""

    def __init__(self, scheme: Positions, layer: nn.Module, edit: WeightEdit) -> None:
        super().__init__()
        self.scheme, self.edit = scheme, edit
        self.adds_values = scheme.adds_values
        self._layer = (layer,)

    def in_layer(self, layer: ProjectsPositions) -> Positions:
        return _EditedLayer(self.scheme.in_layer(layer), self._layer[0], self.edit)

    def rotate(self, x: Tensor, view: View) -> Tensor:
        return self.scheme.rotate(x, view)

    def add_values(self, mixed: Tensor, weights: Tensor, view: View) -> Tensor:
        return self.scheme.add_values(mixed, weights, view)

    def bias(self, q: Tensor, k: Tensor, view: View, scale: float) -> Tensor | None:
        bias, edit = self.scheme.bias(q, k, view, scale), self.edit
        layer: Any = self._layer[0]
        n_heads, group = layer.n_heads, edit.head * k.shape[1] // layer.n_heads
        full = q.new_zeros(len(q), n_heads, q.shape[2], k.shape[2])
        full = full if bias is None else full + bias
        if q.shape[1] != n_heads:  # one head alone was asked for: `bias` below is of all
            return full
        scoring = layer.scoring()
        if scoring.sinks is not None:
            scoring = scoring._replace(sinks=scoring.sinks[edit.head : edit.head + 1])
        of_head = full[:, edit.head : edit.head + 1]
        scores = scores_of(
            q[:, edit.head : edit.head + 1], k[:, group : group + 1], scoring, of_head
        )
        window = getattr(layer, "window", None)
        mask = visible(view.in_window(window, q.shape[2], q.device), q)
        weights = weights_of(scores, scoring, mask)[:, 0]
        full = full.clone()
        if edit.share == 1.0:
            full[:, edit.head, edit.query, :] = -torch.inf
            full[:, edit.head, edit.query, edit.key] = 0.0
        else:
            full[:, edit.head, edit.query, edit.key] += edit.bias(weights[:, edit.query, edit.key])
        return full

    def facts(self) -> PartFacts:
        return facts_of(self.scheme)


class _EditedScheme(Positions):
    """The scheme of a stack, with one layer's edited."""

    def __init__(self, scheme: Positions, edited: Positions, layer: int) -> None:
        super().__init__()
        self.scheme, self.edited, self.layer = scheme, edited, layer

    def embed(self, x: Tensor, view: View) -> Tensor:
        return self.scheme.embed(x, view)

    def for_layer(self, layer: int) -> Positions:
        return self.edited if layer == self.layer else self.scheme.for_layer(layer)

    def changes(self, before: int, after: int) -> bool:
        return self.scheme.changes(before, after)


@contextmanager
def _with_edited_scores(stack: Stack, edit: WeightEdit) -> Generator[None]:
    scheme = stack.positions
    attention = stack.blocks[edit.layer].get_submodule("attention")
    edited = _EditedLayer(scheme.for_layer(edit.layer), attention, edit)
    stack.positions = _EditedScheme(scheme, edited, edit.layer)
    try:
        yield
    finally:
        stack.positions = scheme
