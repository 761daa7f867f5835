"""Edits, checked against a trace: what they come to in its model."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain.addresses.syntax import (
    Index,
    parse_address,
    split_index,
    stack_letter,
)
from pellucid.explain.edits.grammar import parse_edit, read_value
from pellucid.explain.edits.interventions import (
    Edit,
    ExpertEdit,
    TensorEdit,
    WeightEdit,
    apply_operation,
)
from pellucid.explain.experts import dense_facts, expert_number, experts_facts
from pellucid.explain.forward_pass import HeadScale, Intervention
from pellucid.explain.sentence import Sentence
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.rivals import find_token
from pellucid.model import Transformer
from pellucid.model.facts import LinearAttentionFacts

_HEAD = re.compile(r"[LE]\d+\.H\d+(\.cross)?\Z")


@dataclass(slots=True)
class Plan:
    """What a list of edits comes to: other ids, scaled heads, interventions, another model."""

    sentence: Sentence
    model: Transformer
    scales: dict[str, HeadScale] = field(default_factory=dict[str, HeadScale])
    interventions: list[Intervention] = field(default_factory=list[Intervention])


def plan_edits(trace: Trace, edits: tuple[str | Edit, ...]) -> Plan:
    """Check edits against a trace, and say what they come to.

    Raises:
        PellucidError: an edit has no such address, index or value in this model; says why.
    """
    plan = Plan(trace.sentence, trace.model)
    for item in edits:
        edit = parse_edit(item) if isinstance(item, str) else item
        name, index = split_index(edit.address)
        if name == "tokens":
            _plan_token(trace, plan, edit, index)
        elif _HEAD.match(name) and not index:
            plan.scales[name] = _head_scale(trace, edit)
        elif parse_address(name) is not None:
            plan.interventions.append(_plan_part(trace, edit, name, index))
        else:
            _plan_parameter(trace, plan, edit, name, index)
    return plan


def _plan_token(trace: Trace, plan: Plan, edit: Edit, index: Index) -> None:
    time = len(trace.ids)
    if len(index) != 1 or not isinstance(index[0], int) or not -time <= index[0] < time:
        raise PellucidError(f"{edit.address} names no token: write tokens[3], of {time} from 0")
    if edit.operation != "set" or not isinstance(edit.value, str | int):
        raise PellucidError("a token is set to another one: tokens[3]= dog")
    token_id = find_token(trace, edit.value)
    ids, pieces = list(plan.sentence.ids), list(plan.sentence.pieces)
    ids[index[0]] = token_id
    pieces[index[0]] = (
        str(token_id) if trace.spelling is None else trace.spelling.any_piece(token_id)
    )
    plan.sentence = replace(plan.sentence, text="", ids=tuple(ids), pieces=tuple(pieces))


def _head_scale(trace: Trace, edit: Edit) -> HeadScale:
    value = read_value(trace, edit)
    if edit.operation == "add" or isinstance(value, Tensor):
        raise PellucidError(
            f"{edit.address} is a whole head, which counts by a factor or by its mean: to add to "
            f"its output write {edit.address}.out[TOKEN]+=VALUE"
        )
    return value


def _plan_part(trace: Trace, edit: Edit, name: str, index: Index) -> Intervention:
    address = parse_address(name)
    assert address is not None
    if address.part == "residual" and address.head is None:
        return _plan_residual(trace, edit, name, index)
    if name not in trace.addresses():
        raise PellucidError(f"this trace has no {name} to edit")
    side, layer, part = address.side, address.layer, address.part
    block = trace.stack_pass(side).stack.blocks[layer]
    prefix = f"blocks.{layer}"
    if address.head is not None and part == "weights":
        return _plan_weight(trace, edit, name, index)
    if address.head is not None and part == "out":
        attention = trace.attention(side, layer, cross=address.cross)
        width = attention.outputs.shape[-1]
        kind = "cross_attention" if address.cross else "attention"
        return _tensor_edit(
            trace,
            edit,
            index,
            TensorEdit(
                address=name,
                stack=side,
                part=f"{prefix}.{kind}.{attention.facts.output}",
                at="input",
                index=index,
                operation=edit.operation,
                value=0.0,
                features=(address.head * width, (address.head + 1) * width),
            ),
            name,
        )
    expert = expert_number(part)
    if expert is not None and experts_facts(block) is not None and part.count(".") == 2:
        value = read_value(trace, edit)
        if edit.operation == "add" or not isinstance(value, float) or index:
            raise PellucidError(f"an expert counts by a factor: {name}=0 switches it off")
        weights = f"{name.partition('.')[0]}.feed_forward.weights"
        return ExpertEdit(address=weights, stack=side, layer=layer, expert=expert, factor=value)
    path = f"{prefix}.{part}"
    at: Literal["input", "output"] = "output"
    if part.endswith(".units"):
        holder = part.removesuffix(".units")
        facts = dense_facts(block, holder)
        if facts is None or expert is not None:
            raise PellucidError(
                f"{name} has a row for each token that uses the expert: edit the expert itself"
            )
        path, at = f"{prefix}.{holder}.{facts.down}", "input"
    elif part not in ("attention", "cross_attention", "feed_forward"):
        raise PellucidError(
            f"{name} cannot be edited: edit tokens, a head, its out or weights, a sublayer, units, "
            "an expert, the residual or a weight"
        )
    planned = TensorEdit(
        address=name,
        stack=side,
        part=path,
        at=at,
        index=index,
        operation=edit.operation,
        value=0.0,
    )
    return _tensor_edit(trace, edit, index, planned, name)


def _tensor_edit(
    trace: Trace, edit: Edit, index: Index, planned: TensorEdit, name: str
) -> TensorEdit:
    """The edit with its value, tried on the tensor that the trace has."""
    value = read_value(trace, edit)
    try:
        apply_operation(trace[name][None], index, edit.operation, value)
    except (IndexError, RuntimeError):
        shape = tuple(trace[name].shape)
        raise PellucidError(
            f"{edit.address} and its value do not fit: {name} has the shape {shape}"
        ) from None
    return replace(planned, value=value)


def _plan_residual(trace: Trace, edit: Edit, name: str, index: Index) -> TensorEdit:
    address = parse_address(name)
    assert address is not None
    stack = trace.stack_pass(address.side).stack
    if not 1 <= address.layer <= len(stack.blocks):
        letter = stack_letter(address.side)
        raise PellucidError(
            f"{name} cannot be edited: there are {letter}1.residual to "
            f"{letter}{len(stack.blocks)}.residual; before the first layer edit tokens"
        )
    planned = TensorEdit(
        address=name,
        stack=address.side,
        part=f"blocks.{address.layer - 1}",
        at="output",
        index=index,
        operation=edit.operation,
        value=0.0,
    )
    return _tensor_edit(trace, edit, index, planned, name)


def _plan_weight(trace: Trace, edit: Edit, name: str, index: Index) -> WeightEdit:
    address = parse_address(name)
    assert address is not None
    assert address.head is not None
    attention = trace.attention(address.side, address.layer, cross=address.cross)
    if address.cross or isinstance(attention.facts, LinearAttentionFacts):
        raise PellucidError(f"{name} cannot be edited: it is no softmax over one text")
    weights, mask = trace[name], trace[f"{name.removesuffix('weights')}mask"]
    if len(index) != 2 or not all(isinstance(place, int) for place in index):
        raise PellucidError(f"{edit.address} names no single weight: write {name}[QUERY, KEY]")
    query, key = (
        int(cast("int", place)) % size for place, size in zip(index, weights.shape, strict=True)
    )
    value = read_value(trace, edit)
    current = float(weights[query, key])
    if not isinstance(value, float):
        raise PellucidError(f"a weight is a share from 0 to 1, not {edit.value!r}")
    by_operation = {"set": value, "scale": value * current, "add": value + current}
    share = by_operation[edit.operation]
    if not 0 <= share <= 1:
        raise PellucidError(f"a weight is a share from 0 to 1, not {share:g}")
    if share >= 1 and attention.scoring is not None and attention.scoring.sinks is not None:
        raise PellucidError(f"a sink takes a share of {name}: no weight can be all of it")
    if not bool(mask[query, key]) or int(mask[query].sum()) < 2:
        raise PellucidError(
            f"token {query} does not see token {key}, or sees no other: its weights cannot change"
        )
    return WeightEdit(
        address=f"{name.removesuffix('weights')}scores",
        stack=address.side,
        layer=address.layer,
        head=address.head,
        query=query,
        key=key,
        share=share,
    )


def _plan_parameter(trace: Trace, plan: Plan, edit: Edit, name: str, index: Index) -> None:
    """A copy of the model that shares every parameter but one."""
    parameter = dict(plan.model.named_parameters()).get(name)
    if parameter is None:
        raise PellucidError(
            f"there is no {name!r} to edit: name a token, an address or a weight of the model"
        )
    value = read_value(trace, edit)
    if isinstance(value, str):
        raise PellucidError(f"{name} is a weight, which has no mean over a sentence")
    others = (other for other in plan.model.parameters() if other is not parameter)
    shared = {id(other): other for other in others}
    plan.model = copy.deepcopy(plan.model, shared)
    weight = plan.model.get_parameter(name)
    try:
        weight.data = apply_operation(weight.data[None], index, edit.operation, value)[0]
    except (IndexError, RuntimeError):
        raise PellucidError(
            f"{edit.address} and its value do not fit: {name} has the shape {tuple(weight.shape)}"
        ) from None
