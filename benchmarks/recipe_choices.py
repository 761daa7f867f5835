"""Which choices of a recipe are worth having? One change at a time, in pairs of equal seeds.

    python -m benchmarks.recipe_choices
    python -m benchmarks.recipe_choices --preset small --updates 120 --only rates

Each run is a preset of ours with a few settings changed, trained for as many tokens as the preset
unchanged with the same seed. Its text is the documentation in Python's standard library: the
default corpus, which is not among the texts that `benchmarks.quality` reports on. What counts is
the difference of held-out bits per byte, run by run of the same seed; differences within their own
spread are none. Equal tokens are not equal time: the file has the processor time of an update, to
be compared within one sitting alone. The runs are short (the schedule comes to its end within
them), so they say what helps early.

What a file of results has already is not trained again: more seeds and more changes are added to it
later. A run is known by its whole config, so that a preset that has changed is a new baseline.

Comes in: which preset, changes, seeds and length. Goes out: a Markdown table, and a dated JSON file
under benchmarks/results/. It does not know which choice wins.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import machine
from pellucid import config
from pellucid.free_memory import keep_freed_memory
from pellucid.lab.statistics import mean_interval
from pellucid.presets import find
from pellucid.runs import train_config
from pellucid.training import Evaluated, Event, StepFinished

RESULTS = Path(__file__).parent / "results"


def adamw(rate: float) -> str:
    """AdamW for everything, with the other numbers of nano's."""
    return (
        f'optimiser={{kind = "AdamW", learning_rate = {rate}, betas = [0.9, 0.95], '
        "eps = 1e-8, weight_decay = 0.1}"
    )


def gated(run: config.Run) -> str:
    """SwiGLU of as many weights: three matrices of two thirds of the width, in steps of 8."""
    stack = run.model.decoder
    assert stack is not None
    width = round(stack.layers[0].feed_forward.d_ff * 2 / 3 / 8) * 8
    kind = f'kind = "GatedMLP", d_ff = {width}, activation = "silu", bias = false'
    return f"model.decoder.feed_forward={{{kind}}}"


#: Steps and polynomials of Muon's orthogonalisation that are compared.
NEWTON_SCHULZ = {
    "5 steps": (5, "Jordan"),
    "4 steps": (4, "Jordan"),
    "3 steps": (3, "Jordan"),
    "4 steps of Polar Express": (4, "Polar Express"),
}


def changes_of(run: config.Run) -> dict[str, tuple[str, ...]]:
    """The settings of each change to `run`, by its name; of the first there are none."""
    muon, rows, length = run.optimiser, run.training.batch_size, run.model.context_length
    assert isinstance(muon, config.Muon)
    assert run.model.decoder is not None
    dropout = 0.0 if run.model.decoder.dropout else 0.1
    momentum = 0.9 if muon.momentum == 0.95 else 0.95

    def rates(hidden: float, embeddings: float) -> tuple[str, ...]:
        return (
            f"optimiser.learning_rate={muon.learning_rate * hidden}",
            f"optimiser.rest.learning_rate={muon.rest.learning_rate * embeddings}",
        )

    def decay(times: float) -> tuple[str, ...]:
        return (
            f"optimiser.weight_decay={muon.weight_decay * times}",
            f"optimiser.rest.weight_decay={muon.rest.weight_decay * times}",
        )

    def growing(kind: str, first: int, end: float) -> str:
        return f'training.growth={{kind = "{kind}", first = {first}, until = {end}}}'

    norm = 'kind = "RMSNorm", eps = 1e-6'
    return {
        "as it is": (),
        f"dropout: {dropout}": (f"model.decoder.dropout={dropout}",),
        "rates: both x 1/2": rates(0.5, 0.5),
        "rates: both x 2": rates(2, 2),
        "rates: embeddings x 1/2": rates(1, 0.5),
        "decay: both x 2": decay(2),
        "decay: both x 4": decay(4),
        **{
            f"Newton-Schulz: {name}": (
                f"optimiser.newton_schulz_steps={steps}",
                f"optimiser.polynomials={polynomials}",
            )
            for name, (steps, polynomials) in NEWTON_SCHULZ.items()
            if (steps, polynomials) != (muon.newton_schulz_steps, muon.polynomials)
        },
        f"momentum: {momentum}": (f"optimiser.momentum={momentum}",),
        "AdamW 0.002": (adamw(0.002),),
        "AdamW 0.004": (adamw(0.004),),
        "AdamW 0.008": (adamw(0.008),),
        "positions: learned": ("model.decoder.positions=Learned",),
        "QK-norm": (f"model.decoder.attention.qk_norm={{{norm}}}",),
        "feed-forward: squared ReLU": ("model.decoder.feed_forward.activation=relu_squared",),
        "feed-forward: SwiGLU": (gated(run),),
        "output projections: plain": ("model.initialisation.outputs=plain",),
        "output projections: / sqrt(2 layers)": ("model.initialisation.outputs=depth_scaled",),
        **{
            f"embeddings: std {std}": (f"model.initialisation.embedding_std={std}",)
            for std in (0.05, 0.02, 0.01, 0.005)
            if std != run.model.initialisation.embedding_std
        },
        "head: not tied": ("model.embedding.tied=false",),
        "head: soft cap 15": ("model.head.soft_cap=15.0",),
        "schedule: cosine": ('schedule={kind = "Cosine", warm_up = 0.02, final = 0.0}',),
        "schedule: stable, then down for 0.4": (
            'schedule={kind = "WarmUpStableDecay", warm_up = 0.02, decay = 0.4, final = 0.0}',
        ),
        "batch: x 1/2": (f"training.batch_size={rows // 2}",),
        "batch: x 2": (f"training.batch_size={rows * 2}",),
        "batch: from 1/2, growing for 0.5": (growing("GrowingBatch", rows // 2, 0.5),),
        "batch: from 1/4, growing for 0.4": (growing("GrowingBatch", rows // 4, 0.4),),
        "batch: to x 2, growing for 0.5": (
            f"training.batch_size={rows * 2}",
            growing("GrowingBatch", rows, 0.5),
        ),
        **(
            {"length: full from the start": ("training.growth=none",)}
            if run.training.growth
            else {
                "length: from 1/4, growing for 0.4": (growing("GrowingLength", length // 4, 0.4),)
            }
        ),
        "length: from 1/8, growing for 0.6": (growing("GrowingLength", length // 8, 0.6),),
    }


def run_for(preset: str, settings: tuple[str, ...], seed: int, updates: int) -> config.Run:
    """The preset with those settings, for the tokens of `updates` of its own updates."""
    base = find(preset)
    tokens = updates * base.training.batch_size * base.model.context_length
    run = config.run_from_table({"base": preset}, find, settings)
    training = replace(
        run.training,
        budget=config.Tokens(count=tokens),
        evaluate_every=10**9,
        checkpoint_every=10**9,
    )
    return replace(run, seed=seed, training=training)


def config_key(run: config.Run) -> str:
    """The first digits of the hash of a whole config, seed and length included."""
    return hashlib.sha256(config.run_to_toml(run).encode()).hexdigest()[:16]


def trained(run: config.Run) -> dict[str, Any]:
    """The held-out loss of a run after training, and what an update took of the processor."""
    clock: list[float] = []
    losses: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, StepFinished):
            clock.append(time.process_time())
        if isinstance(event, Evaluated):
            losses.append(dict(event.measures)["bits_per_byte"])

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        train_config(run, name="choice", out=folder, observers=[watch], show=False)
    steps = [after - before for before, after in pairwise(clock)]
    return {
        "bits_per_byte": losses[-1],
        "updates": len(clock),
        "processor_seconds_per_update": statistics.median(steps),
    }


def table(cells: list[dict[str, Any]]) -> str:
    """Each change against the preset as it is, over the seeds that both have."""
    lines = []
    for preset, tokens in dict.fromkeys((cell["preset"], cell["tokens"]) for cell in cells):
        same_budget = [
            cell for cell in cells if (cell["preset"], cell["tokens"]) == (preset, tokens)
        ]
        base = {cell["seed"]: cell for cell in same_budget if cell["change"] == "as it is"}
        if not base:
            continue
        base_losses = [cell["bits_per_byte"] for cell in base.values()]
        lines += [
            f"`{preset}`, {tokens:,} tokens; as it is {statistics.mean(base_losses):.4f} bits per "
            "byte "
            f"(seeds {min(base_losses):.4f} to {max(base_losses):.4f})\n",
            "| change | difference in bits per byte, mean of pairs | 95% interval | of each seed |",
            "|---|---|---|---|",
        ]
        for change in dict.fromkeys(cell["change"] for cell in same_budget):
            pairs = [
                (cell, base[cell["seed"]])
                for cell in same_budget
                if cell["change"] == change and cell["seed"] in base
            ]
            if change == "as it is" or not pairs:
                continue
            gaps = [cell["bits_per_byte"] - base_cell["bits_per_byte"] for cell, base_cell in pairs]
            of_seeds = ", ".join(f"{gap:+.4f}" for gap in gaps)
            interval = mean_interval(gaps)
            limits = "" if interval is None else f"{interval[0]:+.4f} to {interval[1]:+.4f}"
            lines.append(f"| {change} | {statistics.mean(gaps):+.4f} | {limits} | {of_seeds} |")
        lines.append("")
    return "\n".join(lines)


def page(newest: dict[str, Any]) -> str:
    """The tables of all dated files, the newest first."""
    files = sorted(RESULTS.glob("recipe-choices-*.json"), reverse=True)
    runs = [newest["runs"], *(json.loads(file.read_text("utf-8"))["runs"] for file in files[1:])]
    dates = [file.stem.removeprefix("recipe-choices-") for file in files]
    tables = [table(cells).rstrip() for cells in runs]
    return "\n\n".join(f"{date}:\n\n{text}" for date, text in zip(dates, tables, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="nano")
    parser.add_argument("--updates", type=int, default=150, help="of the preset's own batch")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of changes")
    parser.add_argument("--results", type=Path, help="continue with this file (default: today's)")
    parser.add_argument("--show", action="store_true", help="train nothing, show the table")
    arguments = parser.parse_args()
    keep_freed_memory()
    today = time.strftime("%Y-%m-%d")
    file: Path = arguments.results or RESULTS / f"recipe-choices-{today}.json"
    results: dict[str, Any] = {"runs": []}
    if file.exists():
        results = json.loads(file.read_text(encoding="utf-8"))
    settings_by_change = {
        name: settings
        for name, settings in changes_of(find(arguments.preset)).items()
        if name == "as it is" or name.startswith(tuple(arguments.only))
    }
    known_keys = {cell["known_by"] for cell in results["runs"]}
    for seed in () if arguments.show else arguments.seeds:
        for name, settings in settings_by_change.items():
            run = run_for(arguments.preset, settings, seed, arguments.updates)
            if config_key(run) in known_keys:
                continue
            cell = {
                "preset": arguments.preset,
                "change": name,
                "settings": settings,
                "seed": seed,
                "tokens": run.training.budget.count,
                "known_by": config_key(run),
                **trained(run),
                "date": time.strftime("%Y-%m-%d"),
                "threads": torch.get_num_threads(),
            }
            results["runs"].append(cell)
            results["machine"] = machine()
            file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            print(
                f"{time.strftime('%H:%M:%S')} {arguments.preset}, {name}, seed {seed}: "
                f"{cell['bits_per_byte']:.4f} bits per byte",
                file=sys.stderr,
                flush=True,
            )
    print(table(results["runs"]))


if __name__ == "__main__":
    main()
