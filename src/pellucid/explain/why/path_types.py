"""The graph of paths: streams of tokens, heads that carry between them, and where it all begins."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.forward_pass import Side
from pellucid.explain.why.types import PartKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The stream of one token before a layer, and how much of the difference passes it."""

    side: Side
    layer: int
    token: int
    piece: str
    share: float

    @property
    def name(self) -> str:
        """Such as L2[5]."""
        return f"{stack_letter(self.side)}{self.layer}[{self.token}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One head that carries something from a token to another: its weight, and the share."""

    head: str
    side: Side
    layer: int
    source: str
    target: str
    #: the stream that is read: of this stack before this layer, or of the encoder after its last
    key_side: Side
    key_layer: int
    key: int
    query: int
    weight: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """Where a part of the difference begins: an embedding, a position or a feed-forward."""

    name: str
    kind: PartKind
    side: Side
    layer: int | None
    token: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The graph, and the sums over all of it.

    `end` is the node that the difference is read from. `tokens` are the leaves by token, of the
    embedding and positions alone; `feed_forwards` the same of feed-forwards; `constants` the biases
    and what no token's value explains. The three add up to the difference.
    """

    end: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    leaves: tuple[Leaf, ...]
    tokens: dict[Side, tuple[float, ...]]
    feed_forwards: dict[Side, tuple[float, ...]]
    constants: float

    @property
    def total(self) -> float:
        """The sum of all leaves and constants."""
        by_token = (*self.tokens.values(), *self.feed_forwards.values())
        return sum(map(sum, by_token)) + self.constants


@dataclass(slots=True)
class Branch:
    """A head that reads a token, or what a stream begins with; its children add up to its share.

    `token` and `side` are of the stream that the head reads; `weight` is the head's. A part that
    was not followed has no children.
    """

    name: str
    share: float
    side: Side
    token: int | None = None
    weight: float | None = None
    children: tuple[Branch, ...] = ()

    def plain(self) -> dict[str, object]:
        """Its fields and its children's."""
        return {
            "name": self.name,
            "share": self.share,
            "side": self.side,
            "token": self.token,
            "weight": self.weight,
            "children": [child.plain() for child in self.children],
        }
