"""The parts of a layer with a low-rank update: W x + b, down x, and up (down x).

Source:
    Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", eq. 3.
"""

from __future__ import annotations

from typing import cast

from pellucid.catalogue import message
from pellucid.explain.addresses.adapters import find_adapter
from pellucid.explain.addresses.block_parts import PROJECTIONS, SOURCE_PROJECTIONS
from pellucid.explain.addresses.site import Site, block_at
from pellucid.explain.equations.attention import joined_heads
from pellucid.explain.equations.equation import Equation, Source, block_path, dot, layer_name
from pellucid.explain.equations.linear import base_product, projection_reads
from pellucid.explain.experts import dense_facts
from pellucid.explain.formulas.nodes import Formula, Read
from pellucid.explain.forward_pass import attention_at
from pellucid.explain.part_facts import known_attention
from pellucid.explain.trace_types import Trace
from pellucid.model import LoRALinear


def adapter_part(trace: Trace, site: Site) -> Equation | str:
    """A product of the layer, by the last word of its address: base, lora_down or lora_up."""
    name, _, part = site.part.rpartition(".")
    layer, address = f"{block_path(site)}.{name}", f"{layer_name(site)}.{name}"
    module = cast("LoRALinear", find_adapter(block_at(trace, site), name))
    facts = module.facts()
    if part == "lora_up":
        up = Read(f"{layer}.{facts.up}", ("f", "r"), "up")
        down_x = Read(f"{address}.lora_down", ("t", "r"), "down x")
        source: Source = (LoRALinear.apply_up, "F.linear(x, self.lora_up)")
        text = "up · (down x)"
        return _equation(
            dot("r", facts.rank, up, down_x),
            text,
            message("equations.its-update", address=address),
            source,
        )
    x = _input(trace, site._replace(part=name), "j")
    if isinstance(x, str):
        return x
    if part == "lora_down":
        down = Read(f"{layer}.{facts.down}", ("f", "j"), "down")
        source = (LoRALinear.apply_down, "F.linear(x, self.lora_down)")
        title = message("equations.what-down-makes-of-its", address=address)
        return _equation(dot("j", facts.n_inputs, down, x), "down · x", title, source)
    formula, text = base_product(module, layer, x, weight=facts.weight)
    source = (LoRALinear.apply_base, "F.linear(x, self.weight")
    return _equation(
        formula, text, message("equations.without-its-update", address=address), source
    )


def _equation(formula: Formula, text: str, title: str, source: Source) -> Equation:
    return Equation(
        formula=formula,
        axes=("t", "f"),
        title=lambda env: message("equations.feature-of", f=env["f"], title=title),
        text=text,
        source=source,
    )


def _input(trace: Trace, site: Site, axis: str) -> Formula | str:
    """What a linear layer of a block reads, over an axis of features; or why it is unknown."""
    if site.part in (*PROJECTIONS, *SOURCE_PROJECTIONS):
        return Read(projection_reads(trace, site), ("t", axis), "x")
    kind, _, name = site.part.partition(".")
    if kind == "feed_forward":
        if dense_facts(block_at(trace, site), kind) is None:
            return "pellucid cannot read the units of this feed-forward"
        reads = "feed_forward.units" if name == "down" else f"{site.part}.in"
        return Read(f"{layer_name(site)}.{reads}", ("t", axis), "x")
    site = site._replace(cross=kind == "cross_attention")
    facts = known_attention(attention_at(trace.model, site.as_head()))
    if facts is None:
        return "pellucid cannot read the heads of this attention"
    width = trace.model.get_submodule(f"{block_path(site)}.{site.part}").in_features
    return joined_heads(site, cast("int", width) // facts.n_heads, facts.n_heads, axis)
