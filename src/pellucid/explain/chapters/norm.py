"""Norm: one token's features before and after, with mean and variance put in.

Comes in: a trace, a layer, a token, a feature. Goes out: a chapter.
"""

from __future__ import annotations

import math

from pellucid.explain.chapter_types import Chapter, Lines, Picture, Place, Table
from pellucid.explain.norms import leaks, scale_of
from pellucid.explain.receipts import norm_receipt
from pellucid.explain.receipts.builder import at
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.model import Sandwich
from pellucid.typed import to_list

_FEATURES = 64
_WHERE = {
    "pre_norm": "before each sublayer",
    "post_norm": "after each sum of stream and sublayer",
    "output_norm": "on what each sublayer writes",
    "sandwich_norm": "before each sublayer and on what it writes",
    "deep_norm": "after each sum of scaled stream and sublayer",
    "no_residual": "before each sublayer",
}


def build(trace: Trace, place: Place) -> Chapter:
    """The norm of the chosen layer's attention; the one before it, where there are two."""
    chosen = select_place(trace, place)
    stack = trace.stack_pass(chosen.side).stack
    block = stack.blocks[chosen.layer]
    is_sandwich = isinstance(getattr(block, "attention_norm", None), Sandwich)
    name = "attention_norm.before" if is_sandwich else "attention_norm"
    address = f"{chosen.layer_name}.{name}"
    module = trace.model.get_submodule(f"{chosen.side}.blocks.{chosen.layer}.{name}")
    receipt = norm_receipt(
        trace,
        norm=f"{chosen.side}.blocks.{chosen.layer}.{name}",
        given=f"{address}.in",
        made=address,
        token=chosen.token,
        feature=chosen.feature,
    )
    leak = leaks(module, causal=stack.causal)
    rule = getattr(block.residual, "__name__", "") or getattr(
        getattr(block.residual, "func", None), "__name__", ""
    )
    return Chapter(
        id="norm",
        number=4,
        part="forward",
        title="Norm",
        sentence=f"{type(module).__name__} brings the features of {chosen.query(trace)} to a "
        f"common scale: {scale_of(module)}. In this model norms stand "
        f"{_WHERE.get(rule, 'before each sublayer')}.",
        pictures=_pictures(trace, chosen, address),
        receipts=() if receipt is None else (receipt,),
        notes=(
            *(() if leak is None else (leak,)),
            f"others: {', '.join(_list_other_norms(trace, chosen, address))}",
        ),
    )


def _pictures(trace: Trace, chosen: Selection, address: str) -> tuple[Picture, ...]:
    inputs = trace[at(f"{address}.in", chosen.token)].double()
    outputs = trace[at(address, chosen.token)].double()
    n_shown = min(_FEATURES, len(inputs))
    rows = [
        (name, float(x.mean()), float(x.var(correction=0)), math.sqrt(float((x * x).mean())))
        for name, x in (("before", inputs), ("after", outputs))
    ]
    cut = f": the first {n_shown} of {len(inputs)}" if n_shown < len(inputs) else ""
    return (
        Table(
            title="over the features of this token",
            columns=("", "mean", "variance", "root mean square"),
            rows=tuple(rows),
        ),
        Lines(
            title=f"features before and after{cut}",
            names=("before", "after"),
            x=tuple(map(float, range(n_shown))),
            series=tuple(tuple(to_list(x[:n_shown])) for x in (inputs, outputs)),
            x_unit="feature",
        ),
    )


def _list_other_norms(trace: Trace, chosen: Selection, address: str) -> list[str]:
    """The addresses of the layer's other norms, and of the last."""
    prefix = f"{chosen.layer_name}."
    names = [
        name
        for name in trace.addresses()
        if name.startswith(prefix)
        and "norm" in name
        and not name.endswith(".in")
        and name != address
    ]
    return [*names, "final_norm"]
