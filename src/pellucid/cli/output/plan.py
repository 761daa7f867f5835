"""A plan for people and for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pellucid.cli.output.printing import align_values
from pellucid.planning import Plan

_WIDTH = 96
_GIB = 2**30


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Everything that a plan says, in bytes, seconds and dollars."""
    setting, layout = plan.setting, plan.setting.layout
    tokens = plan.run_tokens
    run_hours = None if tokens is None else tokens / plan.tokens_per_second / 3600
    return {
        "memory_per_device": plan.memory_per_device,
        "fits": plan.fits,
        "step_seconds": plan.step_seconds,
        "tokens_per_second": plan.tokens_per_second,
        "tokens_per_second_per_device": plan.tokens_per_second / layout.devices,
        "mfu": plan.mfu,
        "mfu_full_attention": plan.mfu_of_full_attention,
        "step_tokens": setting.step_tokens,
        "sequences_per_pass": setting.size.sequences,
        "passes_per_step": setting.parts,
        "layout": asdict(layout) | {"data": layout.data, "shards": layout.shards},
        "device": asdict(setting.kind),
        "memory": [
            {"part": row.part, "bytes": row.n_bytes, "formula": row.formula}
            for row in plan.memory_rows()
        ],
        "time": [asdict(row) for row in plan.time_rows()],
        "collectives": [
            {
                "name": collective.name,
                "bytes": collective.n_bytes,
                "seconds": collective.seconds,
                "hidden": collective.hides,
                "formula": collective.formula,
            }
            for collective in plan.transport
        ],
        "cost": {
            "dollars_per_hour": plan.dollars_per_hour,
            "dollars_per_billion_tokens": plan.dollars_per_billion_tokens,
            "run_hours": run_hours,
            "run_dollars": None if run_hours is None else run_hours * plan.dollars_per_hour,
        },
        "assumptions": plan.assumptions(),
    }


def plan_lines(name: str, kind: str, plan: Plan) -> Iterator[str]:
    """A plan as a few tables."""
    facts, setting = plan_facts(plan), plan.setting
    yield f"{name} on {setting.layout.devices} x {kind}: {layout_words(plan)}"
    yield ""
    memory = f"{plan.memory_per_device / _GIB:.1f} GiB of {setting.kind.memory / _GIB:.1f}"
    shares = f"{plan.mfu:.1%} of the peak; {plan.mfu_of_full_attention:.1%} with full attention"
    cost = f"${plan.dollars_per_billion_tokens:,.2f} per 10^9 tokens, an estimate"
    run_dollars = facts["cost"]["run_dollars"]
    if run_dollars is not None:
        cost += f"; the run {facts['cost']['run_hours']:,.1f} hours, ${run_dollars:,.0f}"
    yield from align_values(
        [
            ("memory per device", memory if plan.fits else f"{memory}: IT DOES NOT FIT"),
            ("an update", f"{_seconds(plan.step_seconds)} for {setting.step_tokens:,} tokens"),
            ("tokens per second", f"{plan.tokens_per_second:,.0f} on all devices"),
            ("mfu", shares),
            ("cost", cost),
        ]
    )
    memory_rows = [(row.part, _size(row.n_bytes), row.formula) for row in plan.memory_rows()]
    yield from _table("memory of a device", memory_rows)
    time_rows = [(row.part, _seconds(row.seconds), row.formula) for row in plan.time_rows()]
    yield from _table("time of an update", time_rows)
    transport = [(item.name, _size(item.n_bytes), item.formula) for item in plan.transport]
    yield from _table("sent by a device in an update", transport)
    yield ""
    yield "assumptions"
    for assumption in plan.assumptions():
        yield from textwrap.wrap(
            assumption, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )


def proposal_lines(name: str, kind: str, plans: Sequence[Plan]) -> Iterator[str]:
    """The proposed layouts, a line each."""
    yield f"{name} on {kind}: the cheapest layouts that fit, best first"
    yield ""
    yield f"{'devices':>7} {'$/10^9 tokens':>13} {'tokens/s':>11} {'mfu':>6} {'GiB':>6}  layout"
    for plan in plans:
        yield (
            f"{plan.setting.layout.devices:>7} {plan.dollars_per_billion_tokens:>13,.2f} "
            f"{plan.tokens_per_second:>11,.0f} {plan.mfu:>6.1%} "
            f"{plan.memory_per_device / _GIB:>6.1f}  {layout_words(plan)}"
        )
    yield ""
    yield from textwrap.wrap(
        "Prices are estimates. See one of them in full with --devices and the settings of its "
        "layout.",
        _WIDTH,
    )


def layout_words(plan: Plan) -> str:
    """The settings of a layout."""
    setting, layout = plan.setting, plan.setting.layout
    words = [f"shard {layout.shard}"]
    words += [f"tensor {layout.tensor}"] if layout.tensor > 1 else []
    words += ["offload"] if layout.offload else []
    words += [f"recompute {layout.recompute}"]
    accumulation = max(setting.run.training.accumulation, layout.data)
    return ", ".join([*words, f"accumulation {accumulation}"])


def _table(title: str, rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield title
    parts, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    for part, value, formula in rows:
        start = f"  {part:<{parts}}  {value:>{values}}  "
        yield from textwrap.wrap(
            formula,
            max(_WIDTH, len(start) + 40),
            initial_indent=start,
            subsequent_indent=" " * len(start),
        )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / _GIB:,.2f} GiB" if n_bytes >= 2**27 else f"{n_bytes / 2**20:,.2f} MiB"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1000 * seconds:,.2f} ms"
