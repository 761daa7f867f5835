"""The receipt of each address: one number of it, with its formula and operands; or why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pellucid.explain import optimiser_step, receipts
from pellucid.explain.addresses.row import Cell, MakeReceipt
from pellucid.explain.addresses.shapes import feed_forward_holder, has_experts, has_units
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.experts import expert_number
from pellucid.explain.part_facts import first_rotated, norms_follow_rotation, rotation_of
from pellucid.explain.receipts import experts as expert_receipts
from pellucid.explain.receipts import optimiser_step as step_receipts
from pellucid.explain.receipts.linear import matrix_receipt, projection_receipt
from pellucid.explain.residual_sums import list_sums
from pellucid.explain.selection import SelectedWeight, Selection
from pellucid.explain.trace_types import Trace


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
    if has_experts(trace, cell.site):
        return expert_receipts.mixture_receipt(trace, cell.selection())
    return feed_forward_matrix(trace, cell)


def feed_forward_matrix(trace: Trace, cell: Cell) -> Receipt | str:
    """A row of a matrix of a feed-forward, times its input."""
    holder = feed_forward_holder(cell.site.part)
    if not has_units(trace, cell.site):
        return "pellucid cannot read the units of this feed-forward"
    if _is_unused(trace, cell):
        return _NOT_USED
    name = cell.site.part.removeprefix(holder).removeprefix(".") or "down"
    token, feature = cell.index
    return matrix_receipt(
        trace, cell.selection(), name, token=token, feature=feature, holder=holder
    )


def units(trace: Trace, cell: Cell) -> Receipt | str:
    """The activation of a unit, times its gate if it has one."""
    if _is_unused(trace, cell):
        return _NOT_USED
    holder = feed_forward_holder(cell.site.part)
    receipt = receipts.activation_receipt(trace, cell.selection(), cell.index[1], holder)
    return receipt or "pellucid has no formula for this activation"


_NOT_USED = "this token does not use the expert, so nothing is computed"


def _is_unused(trace: Trace, cell: Cell) -> bool:
    expert = expert_number(cell.site.part)
    return expert is not None and not expert_receipts.uses_expert(trace, cell.selection(), expert)


def router_logit(trace: Trace, cell: Cell) -> Receipt:
    """The logit of an expert."""
    return expert_receipts.router_receipt(trace, cell.selection(), cell.index[1])


def router_score(trace: Trace, cell: Cell) -> Receipt:
    """The score of an expert."""
    return expert_receipts.score_of_expert_receipt(trace, cell.selection(), cell.index[1])


def expert_weight(trace: Trace, cell: Cell) -> Receipt:
    """The weight of an expert in the output."""
    return expert_receipts.expert_weight_receipt(trace, cell.selection(), cell.index[1])


def expert_output(trace: Trace, cell: Cell) -> Receipt | str:
    """A feature of what an expert adds to the output."""
    if _is_unused(trace, cell):
        return _NOT_USED
    expert = expert_number(cell.site.part)
    assert expert is not None  # the pattern of the address has its number
    return expert_receipts.written_receipt(trace, cell.selection(), expert)


def shared_gate_logit(trace: Trace, cell: Cell) -> Receipt:
    """The logit of the shared layer's share."""
    return expert_receipts.shared_gate_receipt(trace, cell.selection())


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
