"""Layers of a block with a low-rank update: their names, and a record of their three products."""

from __future__ import annotations

from contextlib import ExitStack

from torch import Tensor, nn

from pellucid.explain.addresses.block_parts import PROJECTIONS, SOURCE_PROJECTIONS, find_part
from pellucid.model import LoRALinear

#: Linear layers whose update has addresses of its own.
ADAPTABLE = (
    *PROJECTIONS,
    "attention.output",
    "cross_attention.output",
    "feed_forward.up",
    "feed_forward.gate",
    "feed_forward.down",
)
#: Those that read the encoder's states.
SOURCE_ADAPTABLE = SOURCE_PROJECTIONS
#: The methods of such a layer that make its products, and what addresses call the products.
_PRODUCTS = {"apply_base": "base", "apply_down": "lora_down", "apply_up": "lora_up"}


def find_adapter(block: nn.Module, name: str) -> LoRALinear | None:
    """A linear layer whose low-rank update acts now beside its weight; None of any other part."""
    part = find_part(block, name)
    if not isinstance(part, LoRALinear):
        return None
    facts = part.facts()
    return part if facts.active and not facts.merged else None


def record_adapters(hooks: ExitStack, block: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Record what W x + b, down x and up (down x) are in each layer whose update acts.

    Args:
        hooks: when it closes, the layers are as they were.
        block: whose layers.
        tensors: gets (1, time, features) of each product, under names such as
            attention.query.lora_down.
    """
    for name in (*ADAPTABLE, *SOURCE_ADAPTABLE):
        layer = find_adapter(block, name)
        if layer is None:
            continue
        for method, part in _PRODUCTS.items():
            _record_call(hooks, layer, method, f"{name}.{part}", tensors)


def _record_call(
    hooks: ExitStack, layer: nn.Module, method: str, name: str, tensors: dict[str, Tensor]
) -> None:
    call, is_own = getattr(layer, method), method in layer.__dict__

    def record(x: Tensor) -> Tensor:
        tensors[name] = call(x)
        return tensors[name]

    layer.__dict__[method] = record
    if is_own:
        hooks.callback(layer.__dict__.__setitem__, method, call)
    else:
        hooks.callback(layer.__dict__.pop, method)
