"""Where each number of a trace stands: names, shapes, and what is said of a name there is not.

    L2.H1.scores          head 1 of layer 2 of the decoder: after scaling, before the mask
    E0.H1.weights         an encoder's
    L0.H1.cross.weights   a decoder's, looking at an encoder
    L0.residual           the state that enters block 0; that after the last of n blocks is Ln
    L0.attention          what a sublayer made; L0.attention.in what it was given

Comes in: a model's parts. Goes out: names and shapes. It computes nothing of a sentence.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.explain.forward_pass import HeadPlace, Side
from pellucid.explain.record_block import KNOWN, LINEAR, PARTS
from pellucid.model import LinearAttention, NeuralMemory, Positions, Sandwich, Stack

_LAYER = re.compile(r"([LE])(\d+)\.(?:H(\d+)\.(cross\.)?)?(\S+)\Z")
_HEAD = re.compile(r"([LE])(\d+)\.H(\d+)(\.cross)?\Z")
_POINTED = re.compile(r"(.+?)\[([-\d:, ]+)\]\Z")
_STEP = re.compile(r"(-?\d*)(:?)(-?\d*)\Z")
_LETTERS: dict[str, Side] = {"L": "decoder", "E": "encoder"}

Shape = tuple[int, ...]
Index = tuple[int | slice, ...]


class Address(NamedTuple):
    """A place within a stack: what, of which layer, of which head where it is one."""

    side: Side
    layer: int
    head: int | None
    cross: bool
    what: str


def parsed(address: str) -> Address | None:
    """The parts of an address within a layer; None for one that belongs to the whole."""
    match = _LAYER.match(address)
    if match is None:
        return None
    letter, layer, head, cross, part = match.groups()
    number = None if head is None else int(head)
    return Address(_LETTERS[letter], int(layer), number, cross is not None, part)


def pointed(address: str) -> tuple[str, Index]:
    """An address and the place within it that it points to: L2.H1.scores[7, 1], L2.H1.v[:, 3]."""
    match = _POINTED.match(address)
    if match is None:
        return address, ()
    steps = [_STEP.match(part.strip()) for part in match[2].split(",")]
    if any(step is None or not step[0] for step in steps):
        return address, ()
    return match[1], tuple(_step(*step.groups()) for step in steps if step is not None)


def taken(found: Tensor, address: str) -> Tensor:
    """Of what is at an address, the numbers at the place that it points to.

    Raises:
        PellucidError: the place lies outside.
    """
    name, index = pointed(address)
    try:
        return found[index] if index else found
    except IndexError:
        raise PellucidError(
            f"{address} lies outside: {name} has the shape {tuple(found.shape)}"
        ) from None


def _step(first: str, between: str, last: str) -> int | slice:
    if not between:
        return int(first)
    return slice(int(first) if first else None, int(last) if last else None)


def weight(model: nn.Module, name: str) -> Tensor | None:
    """A weight or a buffer of a model by its name; None where there is none."""
    part: Any = model
    for step in name.split("."):
        part = getattr(part, step, None)
    return part.detach() if isinstance(part, Tensor) else None


def head_place(name: str) -> HeadPlace:
    """A head by its name, such as L2.H1 or L0.H1.cross.

    Raises:
        PellucidError: it is no name of a head.
    """
    match = _HEAD.match(name)
    if match is None:
        raise PellucidError(f"{name!r} names no head: write L2.H1, E0.H1 or L0.H1.cross")
    letter, layer, head, cross = match.groups()
    return HeadPlace(_LETTERS[letter], int(layer), int(head), cross is not None)


def letter_of(side: Side) -> str:
    """What a stack's layers begin with: L for a decoder's, E for an encoder's."""
    return "L" if side == "decoder" else "E"


def refuse_unknown(address: str, known: Iterable[str]) -> PellucidError:
    """What is said of a name that there is not."""
    near = difflib.get_close_matches(address, known, n=3)
    hint = f"; did you mean {', '.join(near)}" if near else ""
    return PellucidError(
        f"there is no {address!r} in this trace{hint}; trace.addresses() lists all there is"
    )


def of_stack(
    side: Side, stack: Stack, time: int, width: int, source: int | None
) -> Iterator[tuple[str, Shape]]:
    """Names and shapes of all layers of a stack; `source` is how many tokens an encoder read."""
    letter = letter_of(side)
    for number, block in enumerate(stack.blocks):
        at = f"{letter}{number}"
        yield f"{at}.residual", (time, width)
        for name, shape in _of_block(block, time, width):
            yield f"{at}.{name}", shape
        for name, shape in _of_heads(block, stack, time, source):
            yield f"{at}.{name}", shape
    yield f"{letter}{len(stack.blocks)}.residual", (time, width)


def _of_block(block: nn.Module, time: int, width: int) -> Iterator[tuple[str, Shape]]:
    untyped = cast("Any", block)
    inner: int | None = getattr(getattr(untyped.feed_forward, "down", None), "in_features", None)
    for name in PARTS:
        part: Any = block
        for step in name.split("."):
            part = getattr(part, step, None)
        # a sandwich is two norms and is not called itself
        unheard = isinstance(part, Sandwich) or name == "feed_forward.down"
        if unheard or not isinstance(part, nn.Module):
            continue
        if name in LINEAR:
            yield name, (time, cast("Any", part).out_features)
            continue
        widened = inner is not None and name in ("feed_forward.up", "feed_forward.gate")
        out_width = inner if widened else width
        yield name, (time, out_width or width)
        yield f"{name}.in", (time, width)
    if inner is not None:
        yield "feed_forward.units", (time, inner)
    if sums_up(block):
        yield "after_attention", (time, width)
        if untyped.cross_attention is not None:
            yield "after_cross_attention", (time, width)


def sums_up(block: nn.Module) -> bool:
    """Whether the sublayers come one after another: in a parallel block both read one state."""
    return type(block).__name__ != "ParallelBlock"


def _of_heads(
    block: nn.Module, stack: Stack, time: int, source: int | None
) -> Iterator[tuple[str, Shape]]:
    untyped = cast("Any", block)
    if isinstance(untyped.attention, KNOWN):
        for head in range(untyped.attention.n_heads):
            for part, shape in _of_head(untyped.attention, stack.positions, time, time):
                yield f"H{head}.{part}", shape
    crossed = untyped.cross_attention
    if isinstance(crossed, KNOWN) and source is not None:
        for head in range(untyped.cross_attention.n_heads):
            for part, shape in _of_head(crossed, None, time, source):
                yield f"H{head}.cross.{part}", shape


def _of_head(
    layer: nn.Module, positions: Positions | None, time: int, keys: int
) -> Iterator[tuple[str, Shape]]:
    untyped = cast("Any", layer)
    d_head = untyped.query.out_features // untyped.n_heads
    d_value = untyped.output.in_features // untyped.n_heads
    yield "q", (time, d_head)
    yield "k", (keys, d_head)
    if positions is not None and type(positions).rotate is not Positions.rotate:
        yield "q_plain", (time, d_head)
        yield "k_plain", (keys, d_head)
    yield "v", (keys, d_value)
    if not isinstance(layer, LinearAttention):
        yield "scores", (time, keys)
        if positions is not None and type(positions).bias is not Positions.bias:
            yield "bias", (time, keys)
    yield "mask", (time, keys)
    yield "weights", (time, keys)
    yield "out", (time, d_value)
    if isinstance(layer, NeuralMemory):
        yield "memory", (time, d_value)
        yield "gate", (time,)
