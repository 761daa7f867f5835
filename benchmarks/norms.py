"""Is RMSNorm about 30% cheaper than LayerNorm, at no loss?

    python -m benchmarks.norms

Three measurements on a CPU, one thread. The norm alone, forward and backward, in three shapes.
Forward and backward of a small transformer in which the norm alone differs. And the final loss of
that transformer after the same number of updates on the documentation of Python's standard library,
with three seeds each. Both sides alternate in time; medians, with the quartiles.

Times are seconds of the processor, not of the clock, so that a busy machine disturbs them less; its
load is written down. Caches and clock rate are shared all the same.

Nothing comes in. Goes out: a table, and a dated JSON file under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.config import run_from_table
from pellucid.model import LayerNorm, RMSNorm, Transformer, assemble
from pellucid.presets import find

FOLDER = Path(__file__).parent
SHAPES = [(8, 128, 128), (8, 256, 768), (2, 256, 4096)]
NORMS = {
    "LayerNorm": '{kind = "LayerNorm", eps = 1e-5, bias = true}',
    "RMSNorm": '{kind = "RMSNorm", eps = 1e-5}',
}
#: A model small enough that six trainings take minutes; what it inherits is `nano`.
SMALL = {
    "model.decoder.n_layers": "2",
    "model.context_length": "128",
    "text.tokenizer.vocab_size": "1024",
    "training.evaluate_every": "10000",
    "training.checkpoint_every": "10000",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=300, help="updates of each training")
    parser.add_argument("--repeats", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "load_at_start": os.getloadavg(),
        "norm_alone": [measure_norm(shape, arguments.repeats) for shape in SHAPES],
        "whole_model": whole_model(arguments.repeats),
        "steps": arguments.steps,
        "changed_in_nano": SMALL,
        "trained": trained(arguments.seeds, arguments.steps),
        "load_at_end": os.getloadavg(),
    }
    file = FOLDER / "results" / f"norms-{results['date']}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


def timed(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Quartiles of the processor's milliseconds of each side, taken in turn."""
    milliseconds: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats + 3):
        for name, call in sides.items():
            started = time.process_time()
            call()
            if repeat >= 3:
                milliseconds[name].append((time.process_time() - started) * 1e3)
    return {
        name: [float(f"{q:.4g}") for q in statistics.quantiles(ms, n=4)]
        for name, ms in milliseconds.items()
    }


def measure_norm(shape: tuple[int, ...], repeats: int) -> dict[str, Any]:
    """The norm alone, in float32, as the models use it; and both as plain lines of torch."""
    torch.manual_seed(0)
    x, grad = torch.randn(shape, requires_grad=True), torch.randn(shape)
    gain, bias = nn.Parameter(torch.ones(shape[-1])), nn.Parameter(torch.zeros(shape[-1]))

    def layer_step_by_step(x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5) * gain + bias

    def rms_step_by_step(x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * gain

    norms: dict[str, Callable[[Tensor], Tensor]] = {
        "LayerNorm": LayerNorm(shape[-1], eps=1e-5, bias=True),
        "RMSNorm": RMSNorm(shape[-1], eps=1e-5),
        "RMSNorm of torch": nn.RMSNorm(shape[-1], eps=1e-5),
        "LayerNorm, step by step": layer_step_by_step,
        "RMSNorm, step by step": rms_step_by_step,
    }

    def forward_and_backward(norm: Callable[[Tensor], Tensor]) -> None:
        for _ in range(5):
            norm(x).backward(grad)

    calls = {name: lambda norm=norm: forward_and_backward(norm) for name, norm in norms.items()}
    return {"shape": shape, "milliseconds_of_5": timed(calls, repeats)}


def small(norm: str) -> Transformer:
    """The small transformer with one of the norms."""
    sets = [f"{key}={value}" for key, value in SMALL.items()]
    sets += [f"model.decoder.norm={NORMS[norm]}", "model.vocab_size=1024"]
    return assemble(run_from_table({"base": "nano"}, find, sets).model, seed=0)


def whole_model(repeats: int) -> dict[str, Any]:
    """Forward, loss and backward of the small transformer on a batch of random ids."""
    ids = torch.randint(1024, (8, 128), generator=torch.Generator().manual_seed(0))

    def forward_and_backward(model: Transformer) -> None:
        logits: Tensor = model(ids)
        nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()

    models = {name: small(name) for name in NORMS}
    calls = {
        name: lambda model=model: forward_and_backward(model) for name, model in models.items()
    }
    return {"milliseconds": timed(calls, repeats)}


def trained(seeds: list[int], steps: int) -> list[dict[str, Any]]:
    """The final held-out loss of each norm with each seed."""
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "base.toml"
        config.write_text('base = "nano"\n', encoding="utf-8")
        for seed in seeds:
            for name, norm in NORMS.items():
                run_folder = Path(scratch) / f"{name}-{seed}"
                words = ["train", "--config", str(config), "--seed", str(seed), "--json"]
                words += ["--steps", str(steps), "--out", str(run_folder)]
                for key, value in {**SMALL, "model.decoder.norm": norm}.items():
                    words += ["--set", f"{key}={value}"]
                before = os.times().children_user
                subprocess.run(
                    [sys.executable, "-m", "pellucid", *words],
                    check=True,
                    capture_output=True,
                    env={**os.environ, "PELLUCID_CACHE": f"{scratch}/cache"},
                )
                label = f"{time.strftime('%H:%M:%S')} {name}, seed {seed}"
                loss = last_loss(run_folder / "metrics.jsonl")
                seconds = os.times().children_user - before
                print(f"{label}: {loss:.4f} bits per byte, {seconds:.0f} s", file=sys.stderr)
                runs.append(
                    {"norm": name, "seed": seed, "bits_per_byte": loss, "processor_s": seconds}
                )
    return runs


def last_loss(metrics: Path) -> float:
    """The held-out bits per byte after the last update."""
    events = [json.loads(line) for line in metrics.read_text("utf-8").splitlines()]
    return next(e["bits_per_byte"] for e in reversed(events) if e["event"] == "Evaluated")


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    rows = [(f"norm alone, {r['shape']}", r["milliseconds_of_5"]) for r in results["norm_alone"]]
    rows.append(("whole model", results["whole_model"]["milliseconds"]))
    lines = ["| | LayerNorm ms | RMSNorm ms | RMSNorm / LayerNorm |", "|---|---|---|---|"]
    for name, times in rows:
        for suffix in ("", ", step by step"):
            if f"LayerNorm{suffix}" in times:
                layer, rms = times[f"LayerNorm{suffix}"][1], times[f"RMSNorm{suffix}"][1]
                lines.append(f"| {name}{suffix} | {layer:.2f} | {rms:.2f} | {rms / layer:.2f} |")
    for name in NORMS:
        losses = [run["bits_per_byte"] for run in results["trained"] if run["norm"] == name]
        lines.append(f"\n{name}: {', '.join(f'{loss:.4f}' for loss in losses)} bits per byte")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """What it ran on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
