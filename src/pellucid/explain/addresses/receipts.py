"""The receipt of each address: one number of it, with its formula and operands; or why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from pellucid.explain import optimiser_step
from pellucid.explain import receipts as of_number
from pellucid.explain.addresses.row import Cell
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.part_facts import rotation_of
from pellucid.explain.receipts import optimiser_step as of_step
from pellucid.explain.receipts.linear import matrix_receipt, projection_receipt
from pellucid.explain.residual_sums import list_sums
from pellucid.explain.selection import SelectedWeight
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import (
    FeedForwardFacts,
    UnknownFacts,
    feed_forward_facts,
)


def embedding(trace: Trace, cell: Cell) -> Receipt:
    """A token's row, scaled."""
    return of_number.embedding_receipt(trace, cell.selection())


def residual(trace: Trace, cell: Cell) -> Receipt | str:
    """The stream before the last sum, and what a sublayer added."""
    side, layer = cell.site.side, cell.site.layer
    if layer > 0:
        return _sum_at(trace, cell, layer - 1, f"{stack_letter(side)}{layer}.residual")
    receipt = of_number.position_receipt(trace, cell.selection())
    return receipt or "the embedding enters the first block as it is, or through a norm"


def sum_within_layer(trace: Trace, cell: Cell) -> Receipt | str:
    """The stream between two sublayers."""
    return _sum_at(trace, cell, cell.site.layer, cell.site.address)


def _sum_at(trace: Trace, cell: Cell, layer: int, address: str) -> Receipt | str:
    for stream_sum in list_sums(trace, cell.site.side, layer):
        if stream_sum.after == address:
            return of_number.residual_receipt(trace, cell.selection(), stream_sum)
    return "the block does not simply add a sublayer to the stream"


def norm(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature after a norm of a layer."""
    site = cell.site
    module = f"{site.side}.blocks.{site.layer}.{site.part}"
    return _norm(trace, cell, module, f"{site.address}.in")


def final_norm(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature after the final norm."""
    side = cell.site.side
    entering = f"{stack_letter(side)}{trace.n_layers(side)}.residual"
    return _norm(trace, cell, f"{side}.final_norm", entering)


def _norm(trace: Trace, cell: Cell, module: str, entering: str) -> Receipt | str:
    token, feature = cell.index
    receipt = of_number.norm_receipt(
        trace,
        norm=module,
        input_address=entering,
        output_address=cell.site.address,
        token=token,
        feature=feature,
    )
    return receipt or "pellucid has no formula for this norm"


def sublayer(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature of what the feed-forward writes."""
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
    receipt = of_number.activation_receipt(trace, cell.selection(), cell.index[1])
    return receipt or "pellucid has no formula for this activation"


def projection(trace: Trace, cell: Cell) -> Receipt:
    """A row of the matrix that makes queries, keys or values."""
    kind, _, name = cell.site.part.partition(".")
    selection = replace(cell.selection(), cross=kind == "cross_attention")
    return projection_receipt(trace, selection, kind, name, feature=cell.index[1])


def rotated(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature of a query or key, turned by the angle of its position."""
    scheme = trace.stack_pass(cell.site.side).positions
    facts = rotation_of(scheme)
    is_rotated = facts is not None and cell.index[1] < facts.n_rotated
    if cell.site.cross or not is_rotated:
        return "positions do not turn it: it is a part of {layer}.attention.query or .key"
    return of_number.rotation_receipt(trace, cell.selection(), cell.site.part)


def score(trace: Trace, cell: Cell) -> Receipt:
    """q . k, scaled, capped and with its bias."""
    return of_number.score_receipt(trace, cell.selection())


def weight(trace: Trace, cell: Cell) -> Receipt:
    """The softmax of a query's scores, at one key."""
    return of_number.weight_receipt(trace, cell.selection())


def head_output(trace: Trace, cell: Cell) -> Receipt:
    """The values of all keys, times their weights."""
    return of_number.out_receipt(trace, cell.selection())


def by_index(make: Callable[..., Receipt]) -> Callable[[Trace, Cell], Receipt]:
    """A receipt that takes the index of its number alone."""
    return lambda trace, cell: make(trace, *cell.index)


def update(trace: Trace, cell: Cell) -> Receipt | str:
    """What the optimiser makes of one weight."""
    row, column = (*cell.index, None)[:2]
    if row is None or len(cell.index) > 2:
        return "receipts of a step are of matrices and vectors"
    selected = SelectedWeight(name=cell.site.part, row=row, column=column)
    settings = optimiser_step.choose_settings(trace, selected.name)
    part = cell.site.address.rpartition(".")[2]
    match settings.kind, part:
        case "AdamW", "next":
            return of_step.next_receipt(trace, selected, settings)
        case "AdamW", "m" | "v":
            return of_step.moment_receipts(trace, selected, settings)[part == "v"]
        case "Muon", "next":
            return of_step.muon_receipt(trace, selected, settings)
        case "Muon", "m":
            return of_step.momentum_receipt(trace, selected, settings)
        case _:
            return "pellucid shows the formulas of AdamW and Muon; Muon's direction has none"
