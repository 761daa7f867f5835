"""The ways from the tokens to the difference: walks at all tokens, joined to one graph."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.forward_pass import HeadPlace, Side
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.attribution import Attribution
from pellucid.explain.why.ending import find_ending
from pellucid.explain.why.flow import FlowWalk
from pellucid.explain.why.held import pull_norm
from pellucid.explain.why.path_types import Node, Paths
from pellucid.explain.why.walk import walk_down
from pellucid.typed import to_list

#: Edges and leaves below this share of the difference are left out, and the largest are kept.
SMALLEST = 0.02
_N_LARGEST = 60


def read_back(
    trace: Trace, place: HeadPlace, attention: AttentionRecord, into_values: Tensor
) -> tuple[Tensor, float]:
    """The direction of the streams that an attention reads, and what its biases add.

    Args:
        trace: the sentence.
        place: a head of the attention.
        attention: its record.
        into_values: (groups, keys, d_value), the direction of the values.

    Returns (keys, d_model), of the stream before the layer, or of the encoder's last.
    """
    name = "cross_attention" if place.cross else "attention"
    n_keys = into_values.shape[1]
    walk = FlowWalk(
        trace=trace,
        side=place.side,
        layer=place.layer,
        places=list(range(n_keys)),
        direction=into_values.new_zeros(n_keys, 1),
    )
    direction = walk.through_values(name, attention, into_values)
    if place.cross:
        stack_pass = trace.stack_pass("encoder")
        norm, states = stack_pass.stack.final_norm, stack_pass.states[-1][0]
        pulled = pull_norm(norm, states, walk.places, direction)
        direction = walk.constant("final_norm", pulled)
    else:
        direction = walk.through_entry_norm(name, direction)
    return direction, sum(part.share for part in walk.parts)


@torch.no_grad()
def find_paths(trace: Trace, attribution: Attribution) -> Paths:
    """The ways from the tokens to the difference.

    Args:
        attribution: the answer whose difference is followed.

    Raises:
        PellucidError: a part states no facts.
    """
    ending = find_ending(trace, attribution.rivals)
    n_layers, time = trace.n_layers(trace.side), len(trace.ids)
    direction = ending.direction.new_zeros(time, ending.direction.shape[-1])
    direction[ending.places] = ending.direction
    smallest = SMALLEST * abs(attribution.rivals.difference)
    walks = [_walk(trace, trace.side, direction, smallest)]
    constants = sum(part.share for part in ending.constants)
    if walks[0].encoded is not None:
        encoder = trace.stack_pass("encoder")
        places = list(range(len(trace.pieces("encoder"))))
        pulled = pull_norm(
            encoder.stack.final_norm, encoder.states[-1][0], places, walks[0].encoded
        )
        constants += pulled.constant
        walks.append(_walk(trace, "encoder", pulled.direction, smallest))
    letter = stack_letter(trace.side)
    return _join(trace, walks, constants, tuple(f"{letter}{n_layers}[{p}]" for p in ending.places))


def _walk(trace: Trace, side: Side, direction: Tensor, smallest: float) -> FlowWalk:
    walk = FlowWalk(
        trace=trace,
        side=side,
        layer=trace.n_layers(side),
        places=list(range(len(direction))),
        direction=direction,
        smallest=smallest,
    )
    walk.record()
    walk_down(walk)
    return walk


def _join(trace: Trace, walks: list[FlowWalk], constants: float, end: tuple[str, ...]) -> Paths:
    edges = sorted(
        (edge for walk in walks for edge in walk.edges), key=lambda edge: -abs(edge.share)
    )[:_N_LARGEST]
    leaves = sorted(
        (leaf for walk in walks for leaf in walk.leaves), key=lambda leaf: -abs(leaf.share)
    )[:_N_LARGEST]
    used = {name for edge in edges for name in (edge.source, edge.target)} | set(end)
    nodes = [
        Node(
            side=walk.side,
            layer=layer,
            token=token,
            piece=trace.pieces(walk.side)[token],
            share=float(shares[token]),
        )
        for walk in walks
        for layer, shares in walk.passing.items()
        for token in range(len(shares))
    ]
    constants += sum(part.share for walk in walks for part in walk.parts)
    return Paths(
        end=end,
        nodes=tuple(node for node in nodes if node.name in used),
        edges=tuple(edges),
        leaves=tuple(leaves),
        tokens={walk.side: _sum_leaves(walk, entry=True) for walk in walks},
        feed_forwards={walk.side: _sum_leaves(walk, entry=False) for walk in walks},
        constants=constants,
    )


def _sum_leaves(walk: FlowWalk, *, entry: bool) -> tuple[float, ...]:
    rows = [
        shares for name, shares in walk.leaf_shares.items() if name.startswith("None.") == entry
    ]
    return tuple(to_list(torch.stack(rows).sum(0))) if rows else ()
