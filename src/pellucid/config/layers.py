"""The layers of a stack, if not all are alike: which parts each has, and which share weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import lcm
from typing import Any, Generic, NamedTuple, TypeVar, overload

from pellucid.config.attention import Alternating, Attention, OneAttention
from pellucid.config.blocks import AlternatingFeedForward, FeedForward, OneFeedForward
from pellucid.config.checks import Checked, Count
from pellucid.config.positions import AlternatingPositions, OnePositions, Positions
from pellucid.errors import ConfigError

Part = TypeVar("Part")


class Layer(NamedTuple):
    """What one layer of a stack has.

    Attributes:
        attention: how its tokens gather from each other.
        feed_forward: what transforms each token alone.
        positions: how it knows the order of tokens.
    """

    attention: OneAttention
    feed_forward: OneFeedForward
    positions: OnePositions


class Turns(NamedTuple, Generic[Part]):
    """What the first layers have, one each, and what the layers after them have in turn."""

    first: tuple[Part, ...]
    layers: tuple[Part, ...]

    def part(self, layer: int) -> Part:
        """What a layer has; the first layer is 0."""
        n = len(self.first)
        return self.first[layer] if layer < n else self.layers[(layer - n) % len(self.layers)]


@dataclass(frozen=True, slots=True)
class LayerPattern:
    """How attention, feed-forward and positions change from layer to layer."""

    attention: Turns[OneAttention]
    feed_forward: Turns[OneFeedForward]
    positions: Turns[OnePositions]

    def layer(self, index: int) -> Layer:
        """What a layer has; the first layer is 0."""
        return Layer(
            self.attention.part(index), self.feed_forward.part(index), self.positions.part(index)
        )

    def layer_counts(self, n_layers: int) -> dict[Layer, int]:
        """How many of `n_layers` layers are alike, in the order in which a token meets them."""
        parts = (self.attention, self.feed_forward, self.positions)
        start = max(len(turns.first) for turns in parts)
        period = lcm(*(len(turns.layers) for turns in parts))
        counts: dict[Layer, int] = {}
        for index in range(
            min(n_layers, start + period)
        ):  # never layer by layer: there may be many
            repeats = 1 if index < start else (n_layers - index - 1) // period + 1
            layer = self.layer(index)
            counts[layer] = counts.get(layer, 0) + repeats
        return counts


@overload
def map_kinds(part: Attention, change: Callable[[OneAttention], OneAttention]) -> Attention: ...
@overload
def map_kinds(
    part: FeedForward, change: Callable[[OneFeedForward], OneFeedForward]
) -> FeedForward: ...
@overload
def map_kinds(part: Positions, change: Callable[[OnePositions], OnePositions]) -> Positions: ...
def map_kinds(part: Any, change: Callable[[Any], Any]) -> Any:
    """`part` with `change` applied to its kind, or to each kind of its pattern."""
    if isinstance(part, Alternating | AlternatingFeedForward | AlternatingPositions):
        layers, first = (tuple(map(change, kinds)) for kinds in (part.layers, part.first))
        return replace(part, layers=layers, first=first)
    return change(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLayers(Checked):
    """Several layers use the same weights, as in ALBERT.

    Source: Lan et al. 2020, "ALBERT", section 3.1.

    Attributes:
        groups: the layers are cut into this many runs of neighbours, as equal as possible; each run
            has weights of its own.
        layers_per_group: how many different layers a run has; it uses them in turn.
    """

    groups: Count
    layers_per_group: Count = 1

    def check_depth(self, n_layers: int) -> None:
        """Refuse a number of layers that the groups cannot cover.

        Raises:
            ConfigError: it is no multiple of `layers_per_group`, or there are more groups.
        """
        rounds, left = divmod(n_layers, self.layers_per_group)
        if left or rounds < self.groups:
            raise ConfigError(
                f"shared_layers needs a number of layers that is a multiple of layers_per_group "
                f"and at least groups x layers_per_group; n_layers was {n_layers}, groups "
                f"{self.groups} and layers_per_group {self.layers_per_group}"
            )

    def owner(self, layer: int, n_layers: int) -> int:
        """The first layer that has the weights of `layer`; the first layer is 0.

        Args:
            layer: The layer. n_layers: The depth of the stack.
        """
        rounds = n_layers // self.layers_per_group
        turn, place = divmod(layer, self.layers_per_group)
        group = turn * self.groups // rounds
        first_turn = -(-group * rounds // self.groups)
        return first_turn * self.layers_per_group + place
