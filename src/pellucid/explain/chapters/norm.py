"""Norm: one token's features before and after, with mean and variance put in."""

from __future__ import annotations

import math
from typing import assert_never

from torch import nn

from pellucid.catalogue import join, message, messages
from pellucid.explain.chapter_types import Content, Lines, Table
from pellucid.explain.norms import leak_of, scale_of
from pellucid.explain.part_facts import entry_norm
from pellucid.explain.receipts import norm_receipt
from pellucid.explain.receipts.builder import cell
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import BlockPart, ResidualFacts, UnknownFacts, block_facts
from pellucid.typed import to_list

_FEATURES = 64


def build(trace: Trace, selection: Selection) -> Content:
    """The norm of the selected layer's attention, or the first of its two norms."""
    stack = trace.stack_pass(selection.side).stack
    block = stack.blocks[selection.layer]
    name = entry_norm(block, "attention_norm")
    address = f"{selection.layer_name}.{name}"
    module = block.get_submodule(name)
    inputs = trace[cell(f"{address}.in", selection.token)].double()
    outputs = trace[cell(address, selection.token)].double()
    n_shown = min(_FEATURES, len(inputs))
    cut = (
        message("norm.the-first-of", n_shown=n_shown, n_inputs=len(inputs))
        if n_shown < len(inputs)
        else ""
    )
    return Content(
        sentence=_describe_norm(module, selection.query(trace))
        + _describe_place(block_facts(block)),
        pictures=(
            Table(
                title=message("norm.over-the-features-of-this"),
                columns=(
                    "",
                    message("word.mean"),
                    message("word.variance"),
                    message("norm.root-mean-square"),
                ),
                rows=tuple(
                    (
                        name,
                        float(x.mean()),
                        float(x.var(correction=0)),
                        math.sqrt(float((x * x).mean())),
                    )
                    for name, x in (
                        (message("word.before"), inputs),
                        (message("word.after"), outputs),
                    )
                ),
            ),
            Lines(
                title=message("norm.features-before-and-after", cut=cut),
                names=messages("word.before", "word.after"),
                x=tuple(map(float, range(n_shown))),
                series=tuple(tuple(to_list(x[:n_shown])) for x in (inputs, outputs)),
                x_unit=message("word.feature"),
            ),
        ),
        receipts=(
            norm_receipt(
                trace,
                norm=f"{selection.side}.blocks.{selection.layer}.{name}",
                input_address=f"{address}.in",
                output_address=address,
                token=selection.token,
                feature=selection.feature,
            ),
        ),
        notes=(
            leak_of(module, causal=stack.causal),
            message(
                "norm.others", other_norms=join(", ", _list_other_norms(trace, selection, address))
            ),
        ),
    )


def _describe_norm(module: nn.Module, token: str) -> str:
    kind, scale = type(module).__name__, scale_of(module)
    if scale is None:
        return message("norm.has-the-place-of-a", kind=kind, token=token)
    return message("norm.brings-the-features-of-to", kind=kind, token=token, scale=scale)


def _describe_place(facts: BlockPart) -> str:
    """The places of the norms in a block; nothing about a block that does not state them."""
    residual = facts if isinstance(facts, UnknownFacts) else facts.residual
    match residual:
        case UnknownFacts():
            return ""
        case ResidualFacts(norm=norm, carried=carried):
            places = {
                "input": message("norm.before-each-sublayer"),
                "output": message("norm.on-the-output-of-each"),
                "sandwich": message("norm.before-each-sublayer-and-on"),
                "sum": message(
                    "norm.after-each-sum-of-stream",
                    scaled="" if carried == 1 else message("word.scaled"),
                ),
            }
            return message("norm.in-this-model-the-norms", places=places[norm])
        case _:
            assert_never(residual)


def _list_other_norms(trace: Trace, selection: Selection, address: str) -> list[str]:
    """The addresses of the layer's other norms, and of the last."""
    prefix = f"{selection.layer_name}."
    names = [
        name
        for name in trace.addresses()
        if name.startswith(prefix)
        and "norm" in name
        and not name.endswith(".in")
        and name != address
    ]
    return [*names, "final_norm"]
