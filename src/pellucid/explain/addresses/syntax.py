"""How an address is written, and how to read one.

    L2.H1.scores          head 1 of layer 2 of the decoder: scaled scores before the mask
    E0.H1.weights         a head of an encoder
    L0.H1.cross.weights   a head of the decoder's cross-attention
    L0.residual           the state that enters block 0; that after the last of n is Ln.residual
    L0.attention          the output of a sublayer; L0.attention.in is its input
    L2.H1.scores[7, 1]    one number of it

Square brackets pick numbers of a tensor, as in torch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.explain.forward_pass import HeadPlace, Side

_LAYER = re.compile(r"([LE])(\d+)\.(?:H(\d+)\.(cross\.)?)?(\S+)\Z")
_HEAD = re.compile(r"([LE])(\d+)\.H(\d+)(\.cross)?\Z")
_INDEXED = re.compile(r"(.+?)\[([-\d:, ]+)\]\Z")
_STEP = re.compile(r"(-?\d*)(:?)(-?\d*)\Z")
_SIDES: dict[str, Side] = {"L": "decoder", "E": "encoder"}

Index = tuple[int | slice, ...]


class AddressParts(NamedTuple):
    """An address within a layer: its stack, layer, head (if it names one) and part."""

    side: Side
    layer: int
    head: int | None
    cross: bool
    part: str


def parse_address(address: str) -> AddressParts | None:
    """The parts of an address within a layer; None for one outside of the layers."""
    match = _LAYER.match(address)
    if match is None:
        return None
    letter, layer, head, cross, part = match.groups()
    number = None if head is None else int(head)
    return AddressParts(_SIDES[letter], int(layer), number, cross is not None, part)


def split_index(address: str) -> tuple[str, Index]:
    """An address and its index: L2.H1.scores[7, 1] or L2.H1.v[:, 3]."""
    match = _INDEXED.match(address)
    if match is None:
        return address, ()
    steps = [_STEP.match(step.strip()) for step in match[2].split(",")]
    if any(step is None or not step[0] for step in steps):
        return address, ()
    return match[1], tuple(_parse_step(*step.groups()) for step in steps if step is not None)


def take_index(tensor: Tensor, address: str) -> Tensor:
    """The part of a tensor that the index of its address names.

    Raises:
        PellucidError: the index lies outside of the tensor.
    """
    name, index = split_index(address)
    try:
        return tensor[index] if index else tensor
    except IndexError:
        raise PellucidError(
            f"{address} lies outside: {name} has the shape {tuple(tensor.shape)}"
        ) from None


def _parse_step(first: str, colon: str, last: str) -> int | slice:
    if not colon:
        return int(first)
    return slice(int(first) if first else None, int(last) if last else None)


def find_weight(model: nn.Module, name: str) -> Tensor | None:
    """A weight or a buffer of a model by its name; None if the model has none of that name."""
    part: Any = model
    for step in name.split("."):
        part = getattr(part, step, None)
    return part.detach() if isinstance(part, Tensor) else None


def parse_head(name: str) -> HeadPlace:
    """A head by its name, such as L2.H1 or L0.H1.cross.

    Raises:
        PellucidError: it is not the name of a head.
    """
    match = _HEAD.match(name)
    if match is None:
        raise PellucidError(f"{name!r} names no head: write L2.H1, E0.H1 or L0.H1.cross")
    letter, layer, head, cross = match.groups()
    return HeadPlace(_SIDES[letter], int(layer), int(head), cross is not None)


def stack_letter(side: Side) -> str:
    """The letter of a stack's layers: L of a decoder, E of an encoder."""
    return "L" if side == "decoder" else "E"


def unknown_address_error(address: str, addresses: Iterable[str]) -> PellucidError:
    """The refusal of an address that a trace does not have, with those that look alike."""
    similar = difflib.get_close_matches(address, addresses, n=3)
    hint = f"; did you mean {', '.join(similar)}" if similar else ""
    return PellucidError(
        f"there is no {address!r} in this trace{hint}; trace.addresses() lists all there is"
    )
