"""The stream: what enters the first block, what each norm and sublayer reads, and every sum."""

from __future__ import annotations

from typing import assert_never

from torch import nn

from pellucid.catalogue import message
from pellucid.explain.addresses.block_parts import SUBLAYERS
from pellucid.explain.addresses.site import Site, block_at
from pellucid.explain.equations import attention, feed_forward
from pellucid.explain.equations.entry import entering
from pellucid.explain.equations.equation import (
    AXES,
    Equation,
    Source,
    block_path,
    copy,
    layer_name,
    read_stream,
)
from pellucid.explain.equations.norms import norm_of
from pellucid.explain.formulas.nodes import Formula, setting
from pellucid.explain.trace_types import Trace
from pellucid.model import ParallelBlock, Stack
from pellucid.model import residuals as rules
from pellucid.model.facts import (
    BlockFacts,
    ResidualFacts,
    UnknownFacts,
    block_facts,
)
from pellucid.model.latent_attention import LatentAttention

#: What the model adds to the stream, and the line that adds, by the place of the norm.
_LINES: dict[str, Source] = {
    "input": (rules.pre_norm, "return x + layer(norm(x))"),
    "output": (rules.output_norm, "return x + norm(layer(x))"),
    "sandwich": (rules.sandwich_norm, "return x + norm.after("),
    "sum": (rules.post_norm, "return norm(x + layer(x))"),
}


def residual(trace: Trace, site: Site) -> Equation | str:
    """The stream before a block."""
    if site.layer == 0:
        return entering(trace, site)
    return _after(trace, site._replace(layer=site.layer - 1), "feed_forward")


def sum_within_layer(trace: Trace, site: Site) -> Equation | str:
    """The stream between two sublayers."""
    return _after(trace, site, site.part.removeprefix("after_"))


def norm(trace: Trace, site: Site) -> Equation | str:
    """A feature after a norm of a layer."""
    width = trace[f"{site.address}.in"].shape[-1]
    return norm_of(trace, f"{block_path(site)}.{site.part}", f"{site.address}.in", width)


def final_norm(trace: Trace, site: Site) -> Equation | str:
    """A feature after the final norm."""
    last = f"{layer_name(site._replace(layer=trace.n_layers(site.side)))}.residual"
    stack = trace.stack_pass(site.side).stack
    if isinstance(stack.final_norm, nn.Identity):
        return copy(last, AXES, (Stack.forward, "return self.final_norm(x)"))
    return norm_of(
        trace, f"{site.side}.final_norm", last, trace.stack_pass(site.side).final.shape[-1]
    )


def _facts(trace: Trace, site: Site) -> tuple[BlockFacts, ResidualFacts] | str:
    facts = block_facts(block_at(trace, site))
    if isinstance(facts, UnknownFacts):
        return f"the block does not say how it adds its sublayers: {facts.reason}"
    if isinstance(facts.residual, UnknownFacts):
        return f"the block does not say how it adds its sublayers: {facts.residual.reason}"
    return facts, facts.residual


def _sublayers(facts: BlockFacts) -> list[str]:
    return [name for name in SUBLAYERS if name != "cross_attention" or facts.cross_attention]


def _before(site: Site, facts: BlockFacts, sublayer: str) -> str:
    """The address of the stream before a sublayer."""
    names = _sublayers(facts)
    place = names.index(sublayer)
    if facts.order == "parallel" or place == 0:
        return f"{layer_name(site)}.residual"
    return f"{layer_name(site)}.after_{names[place - 1]}"


def norm_input(trace: Trace, site: Site) -> Equation | str:
    """What a norm of a layer reads: the stream, the sublayer's output, or their sum."""
    stated = _facts(trace, site)
    if isinstance(stated, str):
        return stated
    facts, rule = stated
    sublayer, _, place = site.part.removesuffix(".in").partition("_norm")
    stream, addend = _before(site, facts, sublayer), f"{layer_name(site)}.{sublayer}"
    source = _source(facts, rule)
    match rule.norm:
        case "input":
            return copy(stream, AXES, source)
        case "output":
            return copy(addend, AXES, source)
        case "sandwich":
            return copy(addend if place == ".after" else stream, AXES, source)
        case "sum":
            return _sum(site, _weigh(stream, addend, rule), _sum_text(rule), source)
        case _:
            assert_never(rule.norm)


def sublayer_input(trace: Trace, site: Site) -> Equation | str:
    """What a sublayer reads: the output of its norm, or the stream."""
    stated = _facts(trace, site)
    if isinstance(stated, str):
        return stated
    facts, rule = stated
    sublayer = site.part.removesuffix(".in")
    own_norm = f"{layer_name(site)}.{sublayer}_norm"
    if facts.shared_norm:
        own_norm = f"{layer_name(site)}.attention_norm"
    match rule.norm:
        case "input":
            return copy(own_norm, AXES, _source(facts, rule))
        case "sandwich":
            return copy(f"{own_norm}.before", AXES, _source(facts, rule))
        case "output" | "sum":
            return copy(_before(site, facts, sublayer), AXES, _source(facts, rule))
        case _:
            assert_never(rule.norm)


def _after(trace: Trace, site: Site, sublayer: str) -> Equation | str:
    """The stream after a sublayer."""
    stated = _facts(trace, site)
    if isinstance(stated, str):
        return stated
    facts, rule = stated
    stream, layer = _before(site, facts, sublayer), layer_name(site)
    if facts.order == "parallel":
        formula = read_stream(stream, "stream") + read_stream(
            f"{layer}.attention", "written by attention"
        )
        return _sum(
            site,
            formula + read_stream(f"{layer}.feed_forward", "feed_forward"),
            "stream + attention + feed_forward",
            _source(facts, rule),
        )
    match rule.norm:
        case "input":
            text = _sum_text(rule)
            return _sum(
                site, _weigh(stream, f"{layer}.{sublayer}", rule), text, _source(facts, rule)
            )
        case "output" | "sandwich":
            after = f"{layer}.{sublayer}_norm" + (".after" if rule.norm == "sandwich" else "")
            return _sum(site, _weigh(stream, after, rule), _sum_text(rule), _source(facts, rule))
        case "sum":
            return copy(f"{layer}.{sublayer}_norm", AXES, _source(facts, rule))
        case _:
            assert_never(rule.norm)


def _weigh(stream: str, addend: str, rule: ResidualFacts) -> Formula:
    """carried stream + multiplier written."""
    added: Formula = read_stream(addend, "written")
    if rule.multiplier != 1:
        added = setting(rule.multiplier, "multiplier") * added
    if rule.carried == 0:
        return added
    carried: Formula = read_stream(stream, "stream")
    if rule.carried != 1:
        carried = setting(rule.carried, "alpha") * carried
    return carried + added


def _sum_text(rule: ResidualFacts) -> str:
    addend = "written" if rule.multiplier == 1 else "multiplier × written"
    if rule.carried == 0:
        return addend
    return f"stream + {addend}" if rule.carried == 1 else f"alpha × stream + {addend}"


def _sum(site: Site, formula: Formula, text: str, source: Source) -> Equation:
    return Equation(
        formula=formula,
        axes=AXES,
        title=lambda env: message(
            "equations.feature-of-the-stream-at", f=env["f"], t=env["t"], address=site.address
        ),
        text=text,
        source=source,
    )


def _source(facts: BlockFacts, rule: ResidualFacts) -> Source:
    if facts.order == "parallel":
        return ParallelBlock, "return x + self.dropout(attended)"
    if rule.multiplier != 1:
        return rules.scaled_pre_norm, "return x + multiplier * layer(norm(x))"
    if rule.carried == 0:
        return rules.no_residual, "return layer(norm(x))"
    if rule.norm == "sum" and rule.carried != 1:
        return rules.deep_norm, "return norm(alpha * x + layer(x))"
    return _LINES[rule.norm]


def sublayer(trace: Trace, site: Site) -> Equation | str:
    """A feature of the output of attention, cross-attention or the feed-forward."""
    if site.part == "feed_forward":
        return feed_forward.sublayer(trace, site)
    return attention.sublayer(trace, site)


def latent_norm_input(trace: Trace, site: Site) -> Equation:
    """The latents, as they are projected."""
    part = site.part.removesuffix(".in").removesuffix("_norm")
    line = "self.query_latent_norm(" if "query" in part else "self.latent_norm("
    return copy(f"{layer_name(site)}.{part}", AXES, (LatentAttention, line))
