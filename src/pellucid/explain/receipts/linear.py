"""Receipts of linear layers: a row of a matrix times what it is given.

Comes in: a trace, the layer's name, a token and a feature. Goes out: a receipt. An update beside
the matrix (LoRA) is part of the row, and is said to be.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

from torch import Tensor, nn

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.receipts.builder import (
    added,
    at,
    number,
    product,
    receipt,
    row,
    source_of,
    vector,
)
from pellucid.explain.tracing import Trace
from pellucid.model import LoRALinear


def linear_receipt(
    trace: Trace,
    *,
    layer: str,
    given: str,
    made: str,
    token: int,
    feature: int,
    title: str,
    line: str,
) -> Receipt:
    """W[feature] . x + b: `layer` is the module's name in the model, `given` and `made` addresses.

    `line` is the text of the line that calls it, in the module that holds it.
    """
    module = cast("nn.Linear", trace.model.get_submodule(layer))
    x = vector(trace, at(given, token), "x")
    weights, name = _row_of(module, feature)
    stands = at(f"{layer}.weight", feature) if name.startswith("W") else ""
    w = row(weights, name, stands)
    bias = cast("Tensor | None", module.bias)
    b = None if bias is None else number(trace, at(f"{layer}.bias", feature), "b")
    holder = trace.model.get_submodule(layer.rpartition(".")[0])
    return receipt(
        trace,
        title=title,
        formula=f"{name} · x" + (" + b" if b else ""),
        expression=added(product(w, x), b),
        address=at(made, token, feature),
        source=source_of(_holding(holder, line), line),
    )


def _row_of(module: nn.Linear, feature: int) -> tuple[Tensor, str]:
    if isinstance(module, LoRALinear) and module.active and module.kept is None:
        return module.folded()[feature], f"(W + LoRA)[{feature}]"
    return module.weight[feature], f"W[{feature}]"


def _holding(holder: nn.Module, line: str) -> Any:
    """The class that holds a line of source: the module's own, or one that it is made from."""
    for kind in type(holder).__mro__:
        if kind.__module__.startswith("pellucid") and line in inspect.getsource(kind):
            return kind
    raise LookupError(f"{type(holder).__name__} holds no line {line!r}")
