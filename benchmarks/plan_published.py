"""Published runs as configs and layouts, and what `pellucid.planning` predicts for them.

Comes in: `plan_rows.toml` and `plan_mpt.csv`. Goes out: rows with the published and the predicted
numbers. It does not know how they are predicted.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.config import run_from_table
from pellucid.planning import Kind, Layout, Plan, find_kind, layout_of, plan_training
from pellucid.presets import find

_FOLDER = Path(__file__).parent
#: Width, layers and heads of llm-foundry's models.
_MPT = {
    "125m": (768, 12, 12),
    "350m": (1024, 24, 16),
    "760m": (1536, 24, 12),
    "1b": (2048, 24, 16),
    "3b": (2560, 32, 20),
    "7b": (4096, 32, 32),
    "13b": (5120, 40, 40),
    "30b": (7168, 48, 56),
    "70b": (8192, 80, 64),
}
_MPT_SOURCE = "https://github.com/mosaicml/llm-foundry/tree/main/scripts/train/benchmarking"
#: Rows of the long table that a constant was fitted to: size, context, devices, kind.
_FITTED = {
    ("7b", 32768, 8, "h100"): "the share of the peak of attention on an h100",
    ("7b", 32768, 8, "a100-80gb"): "the share of the peak of attention on an a100",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published run: its config and layout, its speed (of a device) and its memory."""

    name: str
    source: str
    run: config.Run
    kind: str
    layout: Layout
    tokens_per_second: float
    gib: float | None = None
    assume: tuple[str, ...] = ()
    fits: tuple[str, ...] = field(default=())
    table: str = "SCALE"

    def plan(self, kind: Kind | None = None) -> Plan:
        """What pellucid predicts, with the table's kind or another."""
        return plan_training(self.run, kind or self.found_kind, self.layout, assume=self.assume)

    @property
    def found_kind(self) -> Kind:
        return kind_of(self.kind)


def kind_of(name: str) -> Kind:
    """A kind that pellucid knows, or one of ours."""
    return find_kind(str(_FOLDER / name) if name.endswith(".toml") else name)


def published() -> list[Published]:
    """All rows: of the short table, then of llm-foundry's long one."""
    return [*_rows(), *_mpt_rows()]


def _rows() -> Iterator[Published]:
    for row in tomllib.loads((_FOLDER / "plan_rows.toml").read_text("utf-8"))["row"]:
        size = row.get("mpt")
        base, settings = (row["base"], []) if size is None else ("gpt2", mpt(size, 2048))
        run = _run(base, [*settings, *row["settings"]])
        yield Published(
            name=row["name"],
            source=row.get("source", _MPT_SOURCE),
            run=run,
            kind=row["kind"],
            layout=_layout(run, row),
            tokens_per_second=row["tokens_per_second"],
            gib=row.get("gib"),
            assume=tuple(row.get("assume", ["logits=fused"] if size else [])),
            fits=tuple(row.get("fits", ())),
            table="more" if row.get("more") else "SCALE",
        )


def _mpt_rows() -> Iterator[Published]:
    short = {(row.run.model, row.kind, row.layout.devices) for row in _rows()}
    with (_FOLDER / "plan_mpt.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            size, context, devices = row["size"], int(row["context"]), int(row["devices"])
            batch = f"training.batch_size={row['batch']}", f"training.accumulation={row['parts']}"
            run = _run("gpt2", [*mpt(size, context), *batch])
            if (run.model, row["kind"], devices) in short:
                continue
            fits = _FITTED.get((size, context, devices, row["kind"]))
            yield Published(
                name=f"MPT-{size} of {context}",
                source=_MPT_SOURCE,
                run=run,
                kind=row["kind"],
                layout=_layout(run, {**row, "devices": devices}),
                tokens_per_second=float(row["tokens_per_second"]),
                assume=("logits=fused",),
                fits=(fits,) if fits else (),
                table="MPT",
            )


def mpt(size: str, context: int) -> list[str]:
    """The settings of one of llm-foundry's models, which are GPT-2's with other sizes."""
    width, layers, heads = _MPT[size]
    return [
        "model.vocab_size=50368",
        f"model.context_length={context}",
        f"model.d_model={width}",
        f"model.decoder.n_layers={layers}",
        f"model.decoder.attention.n_heads={heads}",
        f"model.decoder.attention.n_kv_heads={heads}",
        f"model.decoder.attention.d_head={width // heads}",
        f"model.decoder.feed_forward.d_ff={4 * width}",
        "training.compile=off",
    ]


def _run(base: str, settings: list[str]) -> config.Run:
    # none has dropout, and none evaluates during the benchmark
    common = ["model.decoder.dropout=0.0", "model.decoder.attention.dropout=0.0"]
    return run_from_table({"base": base}, find, [*common, "training.evaluate_tokens=1", *settings])


def _layout(run: config.Run, row: dict[str, Any]) -> Layout:
    return layout_of(
        run,
        kind_of(row["kind"]),
        row["devices"],
        shard=row.get("shard", "full"),
        reduce=row.get("reduce", "float32"),
        recompute=row.get("recompute", "none"),
    )
