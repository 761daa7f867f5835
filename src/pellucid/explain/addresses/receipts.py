"""The receipt of each address: one number of it, with its formula and operands; or why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from pellucid.explain import optimiser_step, receipts
from pellucid.explain.addresses.row import Cell, MakeReceipt
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.part_facts import first_rotated, norms_follow_rotation, rotation_of
from pellucid.explain.receipts import optimiser_step as step_receipts
from pellucid.explain.receipts.linear import matrix_receipt, projection_receipt
from pellucid.explain.residual_sums import list_sums
from pellucid.explain.selection import SelectedWeight, Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import FeedForwardFacts, UnknownFacts, feed_forward_facts


def by_index(make: Callable[..., Receipt]) -> MakeReceipt:
    """A receipt that takes the index of its number alone."""
    return lambda trace, cell: make(trace, *cell.index)


def by_selection(make: Callable[[Trace, Selection], Receipt]) -> MakeReceipt:
    """A receipt that takes the place of its number."""
    return lambda trace, cell: make(trace, cell.selection())


def residual(trace: Trace, cell: Cell) -> Receipt | str:
    """The stream before the last sum, plus the output of a sublayer."""
    side, layer = cell.site.side, cell.site.layer
    if layer > 0:
        return _sum_at(trace, cell, layer - 1, f"{stack_letter(side)}{layer}.residual")
    receipt = receipts.position_receipt(trace, cell.selection())
    return receipt or "the embedding enters the first block as it is, or through a norm or a map"


def input_projection(trace: Trace, cell: Cell) -> Receipt:
    """A row of the map of the embedding to d_model."""
    token, feature = cell.index
    return receipts.linear_receipt(
        trace,
        layer=f"{cell.site.side}.input_projection",
        input_address=f"{cell.site.address}.in",
        output_address=cell.site.address,
        token=token,
        feature=feature,
        title=f"feature {feature} of the embedding, mapped to d_model",
        line="return self.input_projection(x)",
    )


def sum_within_layer(trace: Trace, cell: Cell) -> Receipt | str:
    """The stream between two sublayers."""
    return _sum_at(trace, cell, cell.site.layer, cell.site.address)


def _sum_at(trace: Trace, cell: Cell, layer: int, address: str) -> Receipt | str:
    for stream_sum in list_sums(trace, cell.site.side, layer):
        if stream_sum.after == address:
            return receipts.residual_receipt(trace, cell.selection(), stream_sum)
    return "the block does not simply add a sublayer to the stream"


def norm(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature after a norm of a layer."""
    site = cell.site
    return _norm(trace, cell, f"blocks.{site.layer}.{site.part}", f"{site.address}.in")


def final_norm(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature after the final norm."""
    side = cell.site.side
    return _norm(trace, cell, "final_norm", f"{stack_letter(side)}{trace.n_layers(side)}.residual")


def _norm(trace: Trace, cell: Cell, module: str, input_address: str) -> Receipt | str:
    token, feature = cell.index
    receipt = receipts.norm_receipt(
        trace,
        norm=f"{cell.site.side}.{module}",
        input_address=input_address,
        output_address=cell.site.address,
        token=token,
        feature=feature,
    )
    return receipt or "pellucid has no formula for this norm"


def sublayer(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature of the output of the feed-forward."""
    if cell.site.part != "feed_forward":
        return "the heads' outputs are its operands, and these are at {layer}.{head}.out"
    return feed_forward_matrix(trace, cell)


def feed_forward_matrix(trace: Trace, cell: Cell) -> Receipt | str:
    """A row of a matrix of the feed-forward, times its input."""
    block = trace.stack_pass(cell.site.side).stack.blocks[cell.site.layer]
    facts = feed_forward_facts(block.get_submodule("feed_forward"))
    match facts:
        case FeedForwardFacts():
            pass
        case UnknownFacts():
            return "pellucid cannot read the units of this feed-forward"
        case _:
            assert_never(facts)
    name = cell.site.part.removeprefix("feed_forward").removeprefix(".") or "down"
    token, feature = cell.index
    return matrix_receipt(trace, cell.selection(), name, token=token, feature=feature)


def units(trace: Trace, cell: Cell) -> Receipt | str:
    """The activation of a unit, times its gate if it has one."""
    receipt = receipts.activation_receipt(trace, cell.selection(), cell.index[1])
    return receipt or "pellucid has no formula for this activation"


def projection(trace: Trace, cell: Cell) -> Receipt:
    """A row of the matrix that makes queries, keys or values."""
    kind, _, name = cell.site.part.partition(".")
    selection = replace(cell.selection(), cross=kind == "cross_attention")
    return projection_receipt(trace, selection, kind, name, feature=cell.index[1])


def output_gate(trace: Trace, cell: Cell) -> Receipt:
    """The sigmoid of the projection that makes a gate."""
    return receipts.output_gate_receipt(trace, cell.selection())


def rotated(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature of a query or key, rotated by the angle of its position."""
    facts = rotation_of(trace.stack_pass(cell.site.side).positions(cell.site.layer))
    layer = cell.selection().attention(trace).layer
    feature = cell.index[1] - first_rotated(layer)
    if cell.site.cross or facts is None or not 0 <= feature < facts.n_rotated:
        return "positions do not rotate it: it is a part of {layer}.attention.query or .key"
    if norms_follow_rotation(layer):
        return "a norm follows the rotation: it is that norm's output"
    return receipts.rotation_receipt(trace, cell.selection(), cell.site.part)


def position_bias(trace: Trace, cell: Cell) -> Receipt | str:
    """What the distance of a key adds to its score."""
    receipt = receipts.bias_receipt(trace, cell.selection())
    return receipt or "it is read from the positions' own table or slope"


def update(trace: Trace, cell: Cell) -> Receipt | str:
    """One weight after the step, or a moment of the optimiser."""
    row, column = (*cell.index, None)[:2]
    if row is None or len(cell.index) > 2:
        return "receipts of a step are of matrices and vectors"
    weight = SelectedWeight(name=cell.site.part, row=row, column=column)
    settings = optimiser_step.choose_settings(trace, weight.name)
    part = cell.site.address.rpartition(".")[2]
    match settings.kind, part:
        case "AdamW", "next":
            return step_receipts.next_receipt(trace, weight, settings)
        case "AdamW", "m" | "v":
            return step_receipts.moment_receipts(trace, weight, settings)[part == "v"]
        case "Muon", "next":
            return step_receipts.muon_receipt(trace, weight, settings)
        case "Muon", "m":
            return step_receipts.momentum_receipt(trace, weight, settings)
        case _:
            return "pellucid shows the formulas of AdamW and Muon; Muon's direction has none"
