"""A model with one wrong number: what one of its modules gives is off by a little at one place."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.explain import Trace
from pellucid.model import Positions, Transformer
from pellucid.model.experts.routing import Routing

#: How much one number is off.
OFF = 1e-2
#: A larger number may be clipped, which hides that it is off.
_CLIPPED = 0.6
#: What schemes of positions give; they are not called like other modules.
_METHODS = ("embed", "rotate", "bias", "add_values")


class Spot(NamedTuple):
    """A module by its name, and the method that gives its output; "" if it is called itself."""

    module: str
    method: str = ""


def list_spots(model: Transformer, trace: Trace) -> list[Spot]:
    """Every module that gives something when the sentence is read, but for the model itself."""
    spots: dict[Spot, None] = {}
    handles: list[Any] = []
    watched: list[Spot] = []
    for name, module in model.named_modules():
        if not name:
            continue
        handles.append(module.register_forward_hook(_noting(spots, Spot(name))))
        for method in _METHODS if isinstance(module, Positions) else ():
            if getattr(type(module), method) is not getattr(Positions, method):
                watched.append(Spot(name, method))
                module.__dict__[method] = _counted(spots, watched[-1], getattr(module, method))
    try:
        read_all(trace)
    finally:
        for handle in handles:
            handle.remove()
        for spot in watched:
            del model.get_submodule(spot.module).__dict__[spot.method]
    return list(spots)


def _noting(called: dict[Spot, None], spot: Spot) -> Any:
    def record(_: Any, __: Any, output: Any) -> None:
        if _tensor(output) is not None:
            called[spot] = None

    return record


def _counted(called: dict[Spot, None], spot: Spot, inner: Any) -> Any:
    def count_call(*given: Any, **named: Any) -> Any:
        called[spot] = None
        return inner(*given, **named)

    return count_call


def read_all(trace: Trace) -> None:
    """One pass of the model over the sentence of a trace, to the end."""
    model, source = trace.model, trace.sentence.source_ids
    encoded = None if source is None else model.encode(torch.tensor([source]))
    context = {} if encoded is None else {"encoded": encoded}
    with torch.no_grad():
        run = model if model.has_head or model.classifier is not None else model.states
        run(trace.ids[None], **context)


def _tensor(output: Any) -> Tensor | None:
    if isinstance(output, Routing):
        return output.weights
    if isinstance(output, Tensor) and output.is_floating_point() and output.numel():
        return output
    return None


def _off(output: Any) -> Any:
    tensor = _tensor(output)
    if tensor is None:
        return output
    wrong = tensor.clone(memory_format=torch.contiguous_format)
    numbers = wrong.view(-1)
    middle = len(numbers) // 2
    unclipped = (numbers[middle:].abs() < _CLIPPED).nonzero()
    numbers[middle + int(unclipped[0]) if len(unclipped) else middle] += OFF
    return output._replace(weights=wrong) if isinstance(output, Routing) else wrong


@contextmanager
def corrupted(model: Transformer, spot: Spot) -> Generator[None]:
    """Within it, the output of the module is off by 1e-2 in one number, each time."""
    module = model.get_submodule(spot.module)
    if not spot.method:

        def hook(_: Any, __: Any, output: Any) -> Any:
            return _off(output)

        handle = module.register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()
        return
    inner = getattr(module, spot.method)
    module.__dict__[spot.method] = lambda *given, **named: _off(inner(*given, **named))
    try:
        yield
    finally:
        del module.__dict__[spot.method]


def disagreeing(trace: Trace) -> Iterator[str]:
    """The addresses whose receipts do not come to the model's numbers, in their order."""
    for check in trace.receipts(backward=False):
        if not check.agrees:
            yield check.address


#: Which addresses name a module: its path in a block, and what their receipts are of.
_IN_BLOCK = (
    (r"((?:cross_)?attention)\.output", r"L\.\1"),
    (r"(feed_forward.*)\.down", r"L\.\1"),
    (r"(?:attention|cross_attention)\.(?:query|key)_norm", r"L\.H\d+\.[qk](?:_plain)?"),
    (r"attention\.memory_norm", r"L\.H\d+\.memory"),
    (r"(attention\.\w+)\.linear", r"L\.\1"),
    (r"attention\.position_(?:query|key)", r"L\.H\d+\.distance_(?:queries|keys)"),
    (r"feed_forward\.rule", r"L\.feed_forward\.weights"),
    (r"dropout", r"L\.after_\w+|L\.\w+_norm(?:\.after)?\.in|NEXT\.residual"),
    (r"", r"NEXT\.residual"),
    (r"(.*)", r"L\.\1"),
)
_ELSEWHERE = (
    (r"token_embedding", r"(?:encoder\.)?token_embedding"),
    (r"segment_embedding", r"(?:encoder\.)?embedding"),
    (r".*positions.* embed", r"(?:encoder\.)?positions"),
    (r".*positions.* rotate", r"[LE]\d+\.H\d+\.[qk](?:_turned)?"),
    (r".*positions.* bias", r"[LE]\d+\.H\d+\.bias"),
    (r".*positions.* add_values", r"[LE]\d+\.H\d+\.out"),
    (r".*positions\.(?:.*\.)?(?:norm|dropout)", r"[LE]\d+\.distances"),
    (r".*positions\.(?:.*\.)?table", r"[LE]\d+\.H\d+\.bias"),
    (r"\w+\.input_(norm|projection)", r"(?:encoder\.)?input_\1(?:\.in)?|[LE]0\.residual"),
    (r"\w+\.dropout", r"[LE]0\.residual|(?:encoder\.)?input_projection\.in"),
    (r"\w+coder(?:\.final_norm)?", r"(?:encoder\.)?final_norm"),
    (r"head_transform\.dense", r"head_transform\.dense"),
    (r"head_transform(?:\.norm)?", r"hidden"),
    (r"head|output_head", r"logits|class_logits"),
    (r"pooler", r"pooler"),
    (r"classifier_transform\.dense", r"classifier_transform\.dense"),
    (r"classifier_transform(?:\.norm)?", r"class_state"),
    (r"classifier", r"class_logits"),
)


def names_it(address: str, spot: Spot) -> bool:
    """Whether the address is the one of what the module gives."""
    if ".parametrizations.weight" in spot.module:
        return address == f"{spot.module.partition('.parametrizations')[0]}.weight"
    block = re.fullmatch(r"(\w+)\.blocks\.(\d+)\.?(.*)", spot.module)
    if block is None:
        path, table = f"{spot.module} {spot.method}".strip(), _ELSEWHERE
        names = {"L": "", "NEXT": ""}
    else:
        path, table = block[3], _IN_BLOCK
        letter, number = "E" if block[1] == "encoder" else "L", int(block[2])
        names = {"L": f"{letter}{number}", "NEXT": f"{letter}{number + 1}"}
    for of_module, of_address in table:
        match = re.fullmatch(of_module, path)
        if match is not None:
            pattern = re.sub(r"\b(?:L|NEXT)(?=\\\.)", lambda name: names[name[0]], of_address)
            for group, part in enumerate(match.groups(), start=1):
                pattern = pattern.replace(f"\\{group}", re.escape(part))
            return re.fullmatch(pattern, address) is not None
    raise LookupError(f"no address is said to name {spot}")
