"""Receipts of a trace: of one number, or of all."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain import optimiser_step
from pellucid.explain.addresses import lookup
from pellucid.explain.addresses.chain import equation_of
from pellucid.explain.addresses.site import locate_cell
from pellucid.explain.addresses.syntax import split_index
from pellucid.explain.chapter_types import Check, Difference, Operand, Receipt
from pellucid.explain.equations.equation import TOLERANCES, Equation, format_text, source_line
from pellucid.explain.equations.linear import computed_weights
from pellucid.explain.equations.loss_terms import OTHER
from pellucid.explain.expressions import Apply, Expression, Number, Vector
from pellucid.explain.formulas.evaluation import Evaluation
from pellucid.explain.formulas.trees import TreeBuilder, cell
from pellucid.explain.trace_types import Trace

#: How many tensors an audit keeps, because other formulas read them soon.
_MAX_KEPT = 64


def receipt_or_none(trace: Trace, address: str, *index: int) -> Receipt | None:
    """The receipt of one number; None if it has none, because nothing says how it is made.

    Args:
        trace: the sentence.
        address: of one number, or without its place.
        index: the place, if the address has none.

    Raises:
        PellucidError: there is no such address.
    """
    name, _ = split_index(address)
    is_elsewhere = name.startswith((lookup.AFTER_UPDATE, OTHER))
    if not is_elsewhere and isinstance(equation_of(trace, name), str):
        return None
    return make_receipt(trace, cell(address, *index))


def make_receipt(trace: Trace, address: str) -> Receipt:
    """The receipt of the one number that an address with an index points to.

    Raises:
        PellucidError: there is no such address, it points to several numbers, or its number has no
            receipt; says why.
    """
    name, _ = split_index(address)
    if name.startswith(lookup.AFTER_UPDATE):
        after = optimiser_step.after_update(trace)
        return _receipt_elsewhere(after, address, lookup.AFTER_UPDATE)
    if name.startswith(OTHER) and trace.companion is not None:
        return _receipt_elsewhere(trace.companion, address, OTHER)
    stated = equation_of(trace, name)
    if isinstance(stated, str):
        raise PellucidError(f"{name} has no receipt: {stated}")
    index = locate_cell(address, tuple(trace[name].shape))
    env = dict(zip(stated.axes, index, strict=True))
    reader = _Reader(trace)
    builder = TreeBuilder(reader)
    evaluate, tensor = Evaluation(reader, env), reader(name)
    sizes = [float(evaluate(x).size) for x in (stated.formula, stated.rounding) if x is not None]
    model, size = float(tensor[index]), max(_least(stated, tensor), *sizes)

    def list_operands() -> tuple[Operand, ...]:
        return builder.operands(stated.formula, env)

    return Receipt(
        title=format_text(stated.title, env),
        formula=format_text(stated.text, env),
        expression=builder.build(stated.formula, env),
        model=model,
        tolerance=_tolerance(trace, stated) * size / max(1.0, abs(model)),
        address=cell(name, *index),
        source=source_line(*stated.source),
        dtype=stated.dtype or trace.dtype,
        list_operands=list_operands,
    )


def _receipt_elsewhere(trace: Trace, address: str, prefix: str) -> Receipt:
    """The receipt of a number of another trace, which this one calls by a prefix."""
    return _prefix_addresses(make_receipt(trace, address.removeprefix(prefix)), prefix)


def _least(stated: Equation, tensor: Tensor) -> float:
    """The size that smaller sums are judged by."""
    return float(tensor.abs().max()) if stated.judged_by_largest else stated.least


def _tolerance(trace: Trace, stated: Equation) -> float:
    return TOLERANCES.get(stated.dtype or trace.dtype, 1e-5)


class _Reader:
    """Reads addresses of a trace, and keeps the last ones."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._tensors: OrderedDict[str, Tensor] = OrderedDict()

    def __call__(self, address: str) -> Tensor:
        if address not in self._tensors:
            self._tensors[address] = self._trace[address].detach()
            while len(self._tensors) > _MAX_KEPT:
                self._tensors.popitem(last=False)
        self._tensors.move_to_end(address)
        return self._tensors[address]


def check_address(trace: Trace, name: str, reader: _Reader | None = None) -> Check:
    """Recompute all numbers of an address from their operands, with the equation of its receipts.

    Args:
        trace: the sentence.
        name: the address, without an index.
        reader: reads the operands; a new one by default.

    Raises:
        PellucidError: there is no such address.
    """
    reader = reader or _Reader(trace)
    model = reader(name).cpu().double()
    stated, pattern = equation_of(trace, name), pattern_of(name)
    if isinstance(stated, str):
        return Check(address=name, pattern=pattern, numbers=0, agreeing=0, reason=stated)
    if not model.numel():
        return Check(address=name, pattern=pattern, numbers=0, agreeing=0)
    evaluate = Evaluation(reader)
    numbers = evaluate.on_axes(stated.formula, stated.axes, model.shape)
    size = numbers.size.clamp_min(_least(stated, model))
    if stated.rounding is not None:
        size = size.maximum(evaluate.on_axes(stated.rounding, stated.axes, model.shape).size)
    allowed = _tolerance(trace, stated) * size
    differences = (numbers.value - model).abs()
    agrees = (differences <= allowed) | (numbers.value == model)
    n_agreeing = int(agrees.sum())
    worst: Difference | None = None
    if n_agreeing < model.numel():
        excess = torch.where(agrees, -1.0, (differences - allowed).nan_to_num(nan=torch.inf))
        place = tuple(int(x) for x in torch.unravel_index(excess.argmax(), excess.shape))
        worst = Difference(
            address=cell(name, *place),
            model=float(model[place]),
            recomputed=float(numbers.value[place]),
            allowed=float(allowed[place]),
        )
    return Check(
        address=name,
        pattern=pattern,
        numbers=model.numel(),
        agreeing=n_agreeing,
        worst=worst,
    )


def check_all(trace: Trace, *, backward: bool = True, update: bool = False) -> Iterator[Check]:
    """Every address: in the order of the forward pass, then of the gradients and of the step."""
    reader = _Reader(trace)
    for name in (*trace.addresses(), *computed_weights(trace)):
        yield check_address(trace, name, reader)
    if backward and "loss" in trace.addresses():
        for name in sorted(lookup.list_backward(trace.backward()), key=_layer_of, reverse=True):
            yield check_address(trace, name, reader)
    if update:
        for name in lookup.list_step(trace):
            yield check_address(trace, name, reader)


def _layer_of(name: str) -> tuple[bool, str, int]:
    """Sorts by layer, so that each layer runs once for its numbers and parameters."""
    match = re.match(r"(?:([LE])(\d+)\.|(\w)\w+\.blocks\.(\d+)\.)", name)
    if match is None:
        return False, "", 0
    is_encoder = (match[1] or match[3]) in "Ee"
    return True, "E" if is_encoder else "L", int(match[2] or match[4])


def pattern_of(name: str) -> str:
    """The kind of an address: its name without the numbers of layers, heads and experts."""
    layer = re.sub(r"\A([LE])\d+\.", r"\1*.", name)
    return re.sub(r"(\.H|\.experts\.|\.blocks\.)\d+", r"\1*", layer)


def _prefix_addresses(receipt: Receipt, prefix: str) -> Receipt:
    """A receipt of another trace, with its addresses as this trace names them."""

    def prefix_tree(tree: Expression) -> Expression:
        match tree:
            case Apply(name, parts):
                return Apply(name, tuple(map(prefix_tree, parts)))
            case Number() | Vector():
                return replace(tree, address=prefix + tree.address) if tree.address else tree

    expression = prefix_tree(receipt.expression)

    def list_operands() -> tuple[Operand, ...]:
        return tuple(Operand(prefix + address, x) for address, x in receipt.operands)

    return replace(
        receipt,
        address=prefix + receipt.address,
        expression=expression,
        list_operands=list_operands,
    )
