"""What `pellucid plan` says of the choices that docs/many-machines.md compares.

    python -m benchmarks.plan_choices       # writes the table into the page

Comes in: presets. Goes out: a Markdown table; nothing in it was measured.
"""

from __future__ import annotations

import re
from pathlib import Path

from pellucid.planning import find_kind, layout_of, plan_training
from pellucid.runs.resolve_config import resolve_config

PAGE = Path(__file__).parents[1] / "docs" / "many-machines.md"
KIND = "h100"
#: The preset, its devices, and the settings to compare.
CASES = (
    ("gpt2", 8, ()),
    ("gpt2", 8, ("parallel.shard=full",)),
    ("llama3-8b", 8, ()),
    ("llama3-8b", 8, ("parallel.shard=full",)),
    ("llama3-8b", 8, ("parallel.shard=full", "training.recompute=selective")),
    ("llama3-8b", 8, ("parallel.shard=full", "training.recompute=full")),
    ("llama3-8b", 8, ("parallel.shard=full", "parallel.offload=true")),
    ("llama3-8b", 8, ("parallel.shard=full", "parallel.tensor=2")),
    ("llama3-8b", 64, ("parallel.shard=full",)),
    ("llama3-8b", 64, ("parallel.shard=node",)),
)


def table() -> str:
    """The table, row by row."""
    lines = [
        f"| preset | {KIND} | settings | GiB of a device | it fits | tokens/s of all |",
        "|---|---|---|---|---|---|",
    ]
    for preset, devices, settings in CASES:
        run = resolve_config(preset=preset, settings=settings)
        kind = find_kind(KIND)
        plan = plan_training(run, kind, layout_of(run, kind, devices))
        settings_text = ", ".join(f"`{word}`" for word in settings) or "of the preset"
        speed = f"{plan.tokens_per_second:,.0f}" if plan.fits else "-"
        lines.append(
            f"| `{preset}` | {devices} | {settings_text} | {plan.memory_per_device / 2**30:.1f} | "
            f"{'yes' if plan.fits else 'no'} | {speed} |"
        )
    return "\n".join(lines)


def filled(page: str) -> str:
    """The page with the table between its marks."""
    marks = r"(<!-- choices -->\n).*?(<!-- end of choices -->)"
    return re.sub(marks, lambda match: f"{match[1]}{table()}\n{match[2]}", page, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), encoding="utf-8")
