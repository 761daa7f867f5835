"""How far off predictions are, as the tables of docs/plan.md.

    python -m benchmarks.plan_page       # writes the tables of the newest results into the page

Comes in: the results of `benchmarks.plan` and `benchmarks.plan_measured`. Goes out: Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.plan import summaries
from benchmarks.plan_measured import predicted
from benchmarks.shapes import ADAMW, CLIP_NORM, Shape
from benchmarks.train_table import machine_line
from pellucid.planning import plan_training
from pellucid.presets import find

_RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "plan.md"


def newest(name: str) -> dict[str, Any]:
    """The newest results of this name."""
    (*_, file) = sorted(_RESULTS.glob(f"{name}-20*.json"))
    return json.loads(file.read_text("utf-8"))


def tables() -> dict[str, str]:
    """Each table by the name of its marks in the page."""
    published_results, measured = newest("plan"), newest("plan-cpu")
    return {
        "published": published(published_results["rows"]),
        "summary": summary(published_results["rows"]),
        "fitting": fitting(published_results["rows"]),
        "farthest": farthest(published_results["rows"]),
        "measured": f"{machine_line(measured)}\n\n{measured_table(measured['rows'])}",
        "gpu": gpu_table(newest("train-cuda")),
    }


def published(rows: list[dict[str, Any]]) -> str:
    """The short table, row by row."""
    lines = [
        "| run | devices | recompute | tokens/s of a device | predicted | off | GiB | predicted "
        "| off |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["table"] == "MPT":
            continue
        star = " (fitted)" if any("peak" in text for text in row["fits"]) else ""
        memory = " | | "
        if "gib" in row:
            used = " (fitted)" if any("memory" in text for text in row["fits"]) else ""
            memory = f"{row['gib']} | {row['predicted_gib']} | {row['memory_off']:+.1%}{used}"
        kind = row["kind"].removesuffix(".toml")
        lines.append(
            f"| [{row['name']}]({row['source'].partition(' ')[0]}) | {row['devices']} {kind} | "
            f"{row['recompute']} | {row['tokens_per_second']:,.0f} | "
            f"{row['predicted_tokens_per_second']:,.0f} | {row['speed_off']:+.1%}{star} | "
            f"{memory} |"
        )
    return "\n".join(lines)


def summary(rows: list[dict[str, Any]]) -> str:
    """Errors of all rows that nothing was fitted to, by table."""
    lines = [
        "| rows that nothing was fitted to | number | median error | worst |",
        "|---|---|---|---|",
    ]
    for name, numbers in summaries(rows).items():
        lines.append(
            f"| {name} | {numbers['rows']} | {numbers['median']:.1%} | {numbers['worst']:.1%} |"
        )
    return "\n".join(lines)


def fitting(rows: list[dict[str, Any]]) -> str:
    """How many of the long table's runs are predicted to fit, as they did, and which are not."""
    long = [row for row in rows if row["table"] == "MPT"]
    too_large = [row for row in long if not row["fits_memory"]]
    names = "; ".join(f"{row['name']} on {row['devices']} {row['kind']}" for row in too_large)
    fit = len(long) - len(too_large)
    return f"All of these runs fitted. Of {len(long)}, {fit} are predicted to fit; not so: {names}."


def farthest(rows: list[dict[str, Any]]) -> str:
    """The rows of the long table that are off by more than a quarter."""
    far_rows = [row for row in rows if row["table"] == "MPT" and abs(row["speed_off"]) > 0.25]
    return "\n".join(
        f"- {row['name']}, {row['devices']} {row['kind']}: "
        f"{row['tokens_per_second']:,.0f} tokens/s published, {row['speed_off']:+.0%}"
        for row in far_rows
    )


def measured_table(rows: list[Mapping[str, Any]]) -> str:
    """Trainings that were measured here."""
    lines = [
        "| shape | an update, s | predicted | off | peak, MB | predicted | off |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        star, plan = " (fitted)" if row["fitted"] else "", predicted(row)
        seconds, n_bytes = row["step_seconds"], row["peak_bytes"]
        lines.append(
            f"| {row['name']} | {seconds:.3f} | {plan.step_seconds:.3f} | "
            f"{plan.step_seconds / seconds - 1:+.1%}{star} | {n_bytes / 1e6:,.0f} | "
            f"{plan.memory_per_device / 1e6:,.0f} | {plan.memory_per_device / n_bytes - 1:+.1%} |"
        )
    return "\n".join(lines)


def gpu_table(results: dict[str, Any]) -> str:
    """Trainings of `benchmarks.train` on a GPU; no constant was fitted to them."""
    kind = results["machine"]["gpu"].removeprefix("NVIDIA ").lower()
    lines = [
        machine_line(results),
        "",
        "| shape | an update, ms | predicted | off | tokens/s | predicted | peak, MB | predicted "
        "| off |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    preset = find("gpt2")
    for name, shape_results in results["shapes"].items():
        shape, numbers = (
            Shape(**shape_results["shape"]),
            shape_results["summary"]["pellucid, no vital signs"],
        )
        training = replace(
            preset.training,
            batch_size=shape.batch,
            accumulation=1,
            clip_norm=CLIP_NORM,
            precision="bfloat16",
            compile="on",
        )
        run = replace(preset, model=shape.model(), optimiser=ADAMW, training=training)
        plan = plan_training(run, kind)
        seconds, n_bytes = numbers["seconds"], numbers["peak_bytes"]
        lines.append(
            f"| {name} | {seconds * 1e3:.1f} | {plan.step_seconds * 1e3:.1f} | "
            f"{plan.step_seconds / seconds - 1:+.1%} | {numbers['tokens_per_second']:,.0f} | "
            f"{plan.tokens_per_second:,.0f} | {n_bytes / 1e6:,.0f} | "
            f"{plan.memory_per_device / 1e6:,.0f} | {plan.memory_per_device / n_bytes - 1:+.1%} |"
        )
    return "\n".join(lines)


def filled(page: str) -> str:
    """The page with the newest tables between their marks."""
    for name, table in tables().items():
        marks = rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)"
        escaped = table.replace("\\", r"\\")
        page = re.sub(marks, rf"\g<1>{escaped}\n\g<2>", page, flags=re.S)
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), encoding="utf-8")
