"""Low-rank updates: what a layer with LoRA adds to its weight, for one number of its output."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pellucid.catalogue import message
from pellucid.explain.addresses.adapters import ADAPTABLE, SOURCE_ADAPTABLE
from pellucid.explain.addresses.block_parts import find_part
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Receipt, Table
from pellucid.explain.chapters.clip_and_penalty import exact
from pellucid.explain.chapters.pictures import largest
from pellucid.explain.selection import SelectedWeight, Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.model import LoRALinear

#: Terms of up (down x) in the table, at most.
_TERMS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterView:
    """What a chapter shows of a layer with a low-rank update; all empty of any other layer."""

    pictures: tuple[Table, ...] = ()
    receipts: tuple[Receipt | None, ...] = ()
    notes: tuple[str, ...] = ()


def view_adapter(trace: Trace, selection: Selection, name: str, feature: int) -> AdapterView:
    """W x + b, down x, up (down x), the scale and their sum, for one number of a layer's output.

    Args:
        trace: the sentence.
        selection: its stack, layer and token.
        name: of the linear layer in its block, such as attention.query.
        feature: of the output.

    Source:
        Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", eq. 3.
    """
    block = trace.stack_pass(selection.side).stack.blocks[selection.layer]
    module, address = find_part(block, name), f"{selection.layer_name}.{name}"
    if not isinstance(module, LoRALinear):
        return AdapterView()
    facts = module.facts()
    if not facts.active:
        return AdapterView(notes=(message("adapters.the-update-of-is-switched", address=address),))
    if facts.merged:
        path = f"{selection.side}.blocks.{selection.layer}.{name}.weight"
        return AdapterView(
            receipts=(receipt_or_none(trace, path, feature, 0),),
            notes=(message("adapters.the-update-of-is-merged", address=address),),
        )
    if name not in (*ADAPTABLE, *SOURCE_ADAPTABLE):
        return AdapterView()
    token = _token(selection, name)
    terms = (
        module.lora_up.detach()[feature].double() * trace[f"{address}.lora_down"][token].double()
    )
    order = largest(terms.abs(), _TERMS)
    base, update, output = (
        float(trace[at][token, feature])
        for at in (f"{address}.base", f"{address}.lora_up", _output(address))
    )
    rows = [
        (message("word.base"), base, "W · x" if facts.bias is None else "W · x + b"),
        *(
            (message("adapters.term", r=r), float(terms[r]), f"up[{feature}, {r}] × (down x)[{r}]")
            for r in order
        ),
        ("up (down x)", update, message("adapters.all-terms-together", n=facts.rank)),
        (message("word.scale"), facts.scale, f"alpha / rank = {module.alpha:g} / {facts.rank}"),
        (message("word.update"), facts.scale * update, message("adapters.update-formula")),
        (message("word.output"), output, message("adapters.output-formula")),
    ]
    text = label(trace.pieces("encoder" if name in SOURCE_ADAPTABLE else selection.side), token)
    return AdapterView(
        pictures=(
            Table(
                title=message(
                    "adapters.lora-on-feature-of", address=address, feature=feature, text=text
                ),
                columns=("", message("word.number"), message("word.how")),
                rows=tuple((row, exact(number), how) for row, number, how in rows),
            ),
        ),
        receipts=(
            receipt_or_none(trace, f"{address}.base", token, feature),
            receipt_or_none(trace, f"{address}.lora_down", token, order[0]),
            receipt_or_none(trace, f"{address}.lora_up", token, feature),
        ),
        notes=(message("adapters.all-that-the-update-of", address=address, n=facts.rank),),
    )


def view_adapter_of_weight(
    trace: Trace, selection: Selection, weight: SelectedWeight
) -> AdapterView:
    """The same for the layer whose update a selected weight belongs to."""
    prefix = f"{selection.side}.blocks.{selection.layer}."
    name, _, part = weight.name.removeprefix(prefix).rpartition(".")
    if not weight.name.startswith(prefix) or part not in ("lora_down", "lora_up"):
        return AdapterView()
    up = trace[f"{prefix}{name}.lora_up"]
    feature = weight.row if part == "lora_up" else selection.feature % len(up)
    view = view_adapter(trace, selection, name, feature)
    output = _output(f"{selection.layer_name}.{name}")
    if view.pictures:
        receipt = receipt_or_none(trace, output, _token(selection, name), feature)
        view = replace(view, receipts=(*view.receipts, receipt))
    if part == "lora_down" and not up.any():
        note = message("adapters.up-is-0-everywhere-the")
        return replace(view, notes=(*view.notes, note))
    return view


def _token(selection: Selection, name: str) -> int:
    """The selected token of the text that a layer reads."""
    if name in SOURCE_ADAPTABLE:
        return selection.other if selection.cross else 0
    return selection.token


def _output(address: str) -> str:
    """The address of what a linear layer gives; the last one of a sublayer gives its output."""
    return address.removesuffix(".output").removesuffix(".down")
