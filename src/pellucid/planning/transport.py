"""The collectives of an update: the bytes that a device sends, and the seconds.

In a ring of n devices, each sends (n - 1) / n of the bytes that are gathered or scattered, and
twice as much for a sum that all receive. A ring within a node uses its links. A ring over several
nodes crosses each border as often as a node has devices, each time through another network card.

A collective of a ring passes n - 1 hops one after another. Their latencies are those that NCCL
itself chooses its algorithms by: src/graph/tuning.cc, `hwLat`, ring, protocol "Simple".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.counting import parameter_count, weight_groups
from pellucid.counting.activations import bytes_of
from pellucid.counting.trained import count_trained
from pellucid.planning.setting import Setting
from pellucid.planning.work import OFFLOADED, Work

#: The share of its bandwidth that a link reaches.
_LINK_SHARE = 0.8
#: Seconds that a message takes to the next device of a ring: in a node, and in another node.
_HOP, _NETWORK_HOP = 3.4e-6, 14e-6
#: The share of a collective's time that computing loses to it while both run: they compete for
#: memory and processors.
_CONTENTION = 0.5


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation, as one device takes part in it.

    Attributes:
        name: The operation and its operands.
        n_bytes: The bytes that a device sends in an update.
        seconds: Their time in an update, on a device that does not compute.
        formula: Of the bytes.
        hides: Whether it runs while the device computes.
        each_part: Whether it is in every pass of an update; else once.
    """

    name: str
    n_bytes: int
    seconds: float
    formula: str
    hides: bool
    each_part: bool


def collectives(setting: Setting) -> list[Collective]:
    """All collectives of an update."""
    return [
        collective
        for collective in (*_of_shards(setting), *_of_sums(setting), *_of_products(setting))
        if collective.n_bytes
    ]


def step_seconds(
    setting: Setting, work: Work, transport: Sequence[Collective], *, gathers_early: bool = True
) -> float:
    """The seconds of an update: passes with their collectives, the last sums, the optimiser.

    Args:
        setting: The training and its layout.
        work: The work of a pass.
        transport: All collectives of an update.
        gathers_early: Whether weights are gathered while the device computes with others.
    """
    parts = setting.parts
    hidden = sum(item.seconds for item in transport if item.hides and item.each_part) / parts
    visible = sum(item.seconds for item in transport if not item.hides) / parts
    if setting.layout.offload:
        visible += 8 * parameter_count(setting.run.model) / setting.layout.parts / OFFLOADED
    overlapped = (
        max(work.part + _CONTENTION * hidden, hidden) if gathers_early else work.part + hidden
    )
    pass_seconds = overlapped + visible
    last = sum(item.seconds for item in transport if item.hides and not item.each_part)
    # the sums of an update begin with the backward pass of its last part
    last = max(_CONTENTION * last, last - 2 / 3 * work.part)
    return parts * pass_seconds + last + work.update


def _of_shards(setting: Setting) -> list[Collective]:
    """Weights gathered for both directions, and gradients scattered, in every part."""
    layout, parts = setting.layout, setting.parts
    n = layout.shards
    if n == 1:
        return []
    groups = weight_groups(setting.run.model, layout.tensor)
    width, share = bytes_of(layout.gather), (n - 1) / n
    hops = 2 * _n_groups(setting) * _latency(setting, n)
    weight_bytes = int(parts * share * width * (2 * groups.blocks + groups.root))
    gradient_bytes = int(
        parts * share * bytes_of(layout.reduce) * _trained(setting) / layout.tensor
    )
    speed = _speed(setting, n)
    return [
        Collective(
            "all-gather of weights",
            weight_bytes,
            weight_bytes / speed + parts * hops,
            f"{parts} parts x (n - 1) / n x {width} bytes x (2 x blocks + root), n = {n}",
            hides=True,
            each_part=True,
        ),
        Collective(
            "reduce-scatter of gradients",
            gradient_bytes,
            gradient_bytes / speed + parts * hops / 2,
            f"{parts} parts x (n - 1) / n x {bytes_of(layout.reduce)} bytes x trained, n = {n}",
            hides=True,
            each_part=True,
        ),
    ]


def _of_sums(setting: Setting) -> list[Collective]:
    """Gradients summed over ranks that hold the same weights, once an update."""
    layout = setting.layout
    n = layout.data // layout.shards
    if n == 1:
        return []
    gradients = _trained(setting) / layout.parts
    n_bytes = int(2 * (n - 1) / n * bytes_of(layout.reduce) * gradients)
    crosses = layout.shards > 1  # each rank has its own card, and only one of a node is in the ring
    speed = _LINK_SHARE * setting.kind.network if crosses else _speed(setting, n)
    formula = f"2 (n - 1) / n x {bytes_of(layout.reduce)} bytes x own trained, n = {n}"
    hops = (n - 1) * _NETWORK_HOP if crosses else _latency(setting, n)
    seconds = n_bytes / speed + 2 * hops
    name = "all-reduce of gradients"
    return [Collective(name, n_bytes, seconds, formula, hides=True, each_part=False)]


def _of_products(setting: Setting) -> list[Collective]:
    """Partial products summed by tensor ranks: two a block in each direction."""
    layout, size, model = setting.layout, setting.size, setting.run.model
    n = layout.tensor
    if n == 1:
        return []
    n_layers = sum(stack.n_layers for stack in model.stacks)
    times = 4 if layout.recompute in ("none", "selective") else 6
    width = bytes_of(setting.precision)
    numbers = size.sequences * max(size.encoder, size.decoder) * model.d_model
    n_bytes = int(setting.parts * times * n_layers * 2 * (n - 1) / n * width * numbers)
    hops = setting.parts * times * n_layers * 2 * _latency(setting, n)
    seconds = n_bytes / _speed(setting, n) + hops
    formula = (
        f"{setting.parts} parts x {times} x n_layers x 2 (n - 1) / n x {width} bytes x tokens x "
        f"d_model, n = {n}"
    )
    name = "all-reduce of partial products"
    return [Collective(name, n_bytes, seconds, formula, hides=False, each_part=True)]


def _speed(setting: Setting, ranks: int) -> float:
    """Bytes a second that a device sends in a ring of so many ranks, of neighbours first."""
    kind = setting.kind
    if _nodes(setting, ranks) == 1:
        return _LINK_SHARE * kind.link
    cards = kind.node // setting.layout.tensor  # rings of one node share its cards
    return _LINK_SHARE * min(kind.link, kind.network * cards)


def _latency(setting: Setting, ranks: int) -> float:
    """Seconds of the hops of a ring of so many ranks, of neighbours first."""
    crossings = _nodes(setting, ranks) - 1
    return (ranks - 1 - crossings) * _HOP + crossings * _NETWORK_HOP


def _nodes(setting: Setting, ranks: int) -> int:
    """The nodes that a ring of so many ranks goes through."""
    tensor = setting.layout.tensor
    spread = ranks * (tensor if ranks != tensor else 1)
    return max(1, spread // setting.kind.node)


def _trained(setting: Setting) -> int:
    return count_trained(setting.run.model, setting.run.trained).trained


def _n_groups(setting: Setting) -> int:
    """The groups that are gathered one after another: blocks, and the root."""
    return 1 + sum(stack.n_layers for stack in setting.run.model.stacks)
