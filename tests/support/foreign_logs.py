"""Logs as other trainers write them, of curves that are made up, by a seed."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Curves:
    """A training in numbers, one row every `every` updates."""

    every: int = 10
    losses: list[float] = field(default_factory=list[float])
    norms: list[float] = field(default_factory=list[float])
    rates: list[float] = field(default_factory=list[float])
    held_out: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    epochs: float = 0.9

    @property
    def steps(self) -> list[int]:
        """The update of each row."""
        return [(i + 1) * self.every for i in range(len(self.losses))]


def healthy(seed: int = 0, rows: int = 120, first: float = 8.3, last: float = 3.1) -> Curves:
    """A loss that falls by a power, with noise; norms that settle; warm-up and a cosine."""
    draws = random.Random(seed)
    curves = Curves()
    for i in range(rows):
        falls = last + (first - last) * (1 + i / 4) ** -0.8
        curves.losses.append(falls * (1 + draws.gauss(0, 0.012)))
        curves.norms.append((0.6 + 6 * math.exp(-i / 6)) * math.exp(draws.gauss(0, 0.25)))
        warm = min(1.0, (i + 1) / 8)
        curves.rates.append(3e-4 * warm * (0.5 + 0.5 * math.cos(math.pi * i / rows)))
        if i % 20 == 19:
            curves.held_out.append(((i + 1) * curves.every, falls * 1.02))
    return curves


def trainer_state(file: Path, made: Curves, **more: Any) -> Path:
    """As `transformers.Trainer` saves it."""
    history: list[dict[str, Any]] = []
    held_out = dict(made.held_out)
    for step, loss, norm, rate in zip(made.steps, made.losses, made.norms, made.rates, strict=True):
        epoch = made.epochs * step / made.steps[-1]
        row = {"epoch": epoch, "grad_norm": norm, "learning_rate": rate, "loss": loss}
        history.append({**row, "step": step})
        if step in held_out:
            history.append({"epoch": epoch, "eval_loss": held_out[step], "step": step})
    mean = sum(made.losses) / len(made.losses)
    history.append({"train_loss": mean, "train_runtime": 12.3, "step": made.steps[-1]})
    state = {
        "best_metric": None,
        "epoch": made.epochs,
        "global_step": made.steps[-1],
        "is_world_process_zero": True,
        "log_history": history,
        "logging_steps": made.every,
        "max_steps": made.steps[-1],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(state | more, indent=2), encoding="utf-8")
    return file


def table(
    file: Path, made: Curves, names: Sequence[str] = ("step", "loss", "grad_norm", "lr")
) -> Path:
    """A CSV of one row an update."""
    rows = zip(made.steps, made.losses, made.norms, made.rates, strict=True)
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def lightning(file: Path, made: Curves) -> Path:
    """As Lightning's CSVLogger: values that were logged separately have rows of their own."""
    lines = ["epoch,lr-AdamW,step,train_loss_epoch,train_loss_step,val_loss"]
    held_out = dict(made.held_out)
    for step, loss, rate in zip(made.steps, made.losses, made.rates, strict=True):
        lines.append(f",{rate},{step},,,")
        lines.append(f"0,,{step},,{loss},")
        if step in held_out:
            lines.append(f"0,,{step},,,{held_out[step]}")
    lines.append(f"0,,{made.steps[-1]},{made.losses[-1]},,")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


#: One line of a console, by who writes it.
CONSOLES = {
    "hugging face": (
        "{{'loss': {loss:.4f}, 'grad_norm': {norm}, 'learning_rate': {rate}, 'epoch': 0.1}}"
    ),
    "hugging face 5": (
        "{{'loss': '{loss:.4f}', 'grad_norm': '{norm}', 'learning_rate': '{rate}', 'epoch': '0'}}"
    ),
    "nanogpt": "iter {step}: loss {loss:.4f}, time 123.45ms, mfu 1.23%",
    "build-nanogpt": (
        "step {step:5d} | loss: {loss:.6f} | lr {rate:.4e} | norm: {norm:.4f} | dt: 338.94ms"
    ),
    "llm.c": (
        "step {step:4d}/9999 | loss {loss:.6f} (+nanz)| norm {norm:.4f} (+nanz)| lr {rate:.2e} | "
        "135.1 ms"
    ),
    "megatron": (
        " [2026-01-01 10:00:00] iteration {step:8d}/    9999 | consumed samples: 80 | elapsed "
        "time per iteration (ms): 123.4 | learning rate: {rate:.6E} | global batch size:     8 | "
        "lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |"
    ),
    "torchtune": "Step {step} | loss:{loss} lr:{rate} grad_norm:{norm} tokens_per_second_per_gpu:9",
    "torchtitan": (
        "[rank0]:[titan] 2026-01-01 10:00:00,000 - root - INFO - \x1b[31mstep: {step:2d}  "
        "\x1b[32mloss: {loss:8.5f}  grad_norm: {norm:7.4f}  \x1b[33mmemory:  1.19GiB(1.50%)\x1b[0m"
    ),
}


def console(file: Path, made: Curves, line: str) -> Path:
    """A console's output: lines of a trainer among others."""
    rows = zip(made.steps, made.losses, made.norms, made.rates, strict=True)
    log_lines = [line.format(step=s, loss=a, norm=n, rate=r) for s, a, n, r in rows]
    other = ["loading 2 files", "number of parameters: 124.40M", "using fused AdamW: True"]
    file.write_text("\n".join([*other, *log_lines, "done"]) + "\n", encoding="utf-8")
    return file


# ---- TensorBoard's format, written by hand


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 127:
        encoded, value = encoded + bytes([value & 127 | 128]), value >> 7
    return encoded + bytes([value])


def _inner(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def event_file(folder: Path, scalars: dict[str, list[tuple[int, float]]], name: str = "1") -> Path:
    """Events of scalars, in the order of tags."""
    folder.mkdir(parents=True, exist_ok=True)
    records = [b"\x09" + struct.pack("<d", 1.0) + _inner(3, b"brain.Event:2")]
    for tag, points in scalars.items():
        for step, value in points:
            scalar = _inner(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
            event = b"\x09" + struct.pack("<d", 1.0) + b"\x10" + _varint(step)
            records.append(event + _inner(5, _inner(1, scalar)))
    file = folder / f"events.out.tfevents.{name}.host"
    data = b"".join(struct.pack("<Q", len(r)) + bytes(4) + r + bytes(4) for r in records)
    file.write_bytes(data)
    return file
