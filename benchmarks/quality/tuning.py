"""The rate, batch size, dropout and decay of the peer, picked on a text that no race is run on.

Comes in: a preset whose shape and ids the peer gets, and seconds for each training. Goes out: each
training of the grid, and the best; or what an earlier tuning has picked. It knows no race.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.quality.ours import call_pellucid
from benchmarks.workers import Contestant, print_progress, started

RATES = (0.001, 0.002, 0.004, 0.008)
BATCH_SIZES = (8, 16)
DROPOUTS = (0.0, 0.1)
DECAYS = (0.1, 0.4, 1.6)
#: What a tuning picks, with what a tuning had that did not know of it.
CHOSEN = {
    "learning_rate": None,
    "batch_size": None,
    "dropout": DROPOUTS[0],
    "weight_decay": DECAYS[0],
}


def tune(
    preset: str, seconds: float, rates: list[float], scratch: Path, threads: int
) -> dict[str, Any]:
    """Train once at each rate, batch size, dropout and decay that may be the best.

    The smaller batch gets all rates, and more if the best one is at an end of the grid; the larger
    batch gets the best one, and its neighbours if that is better. Dropout is tried at the best of
    these, and then decays, larger while they gain.
    """
    run_folder = scratch / "ids"
    words = ["train", "--preset", preset, "--steps", "1", "--out", str(run_folder), "--json"]
    call_pellucid(words, scratch, threads)
    runs: list[dict[str, Any]] = []

    def tried(
        rate: float, batch_size: int, dropout: float = DROPOUTS[0], decay: float = DECAYS[0]
    ) -> None:
        point = dict(zip(CHOSEN, (rate, batch_size, dropout, decay), strict=True))
        if any(point.items() <= run.items() for run in runs):
            return
        setup = {"run": str(run_folder), "held_out": None, "seconds": seconds, "seed": 1, **point}
        runs.append(point | one_training(setup, threads))

    def best() -> dict[str, Any]:
        return min(runs, key=lambda run: run["bits_per_byte"])

    for rate in rates:
        tried(rate, BATCH_SIZES[0])
    while (best_rate := best()["learning_rate"]) in (lowest_rate(runs), highest_rate(runs)) and len(
        runs
    ) < 8:
        tried(best_rate / 2 if best_rate == lowest_rate(runs) else best_rate * 2, BATCH_SIZES[0])
    tried(best_rate, BATCH_SIZES[1])
    if best()["batch_size"] == BATCH_SIZES[1]:
        for rate in (best_rate * 2, best_rate / 2):
            tried(rate, BATCH_SIZES[1])
    tried(best()["learning_rate"], best()["batch_size"], DROPOUTS[1])
    for decay in DECAYS[1:]:
        rate, batch_size, dropout, decay_before = (best()[key] for key in CHOSEN)
        tried(rate, batch_size, dropout, decay)
        if best()["weight_decay"] == decay_before:
            break
    choice = {key: best()[key] for key in CHOSEN}
    return {"preset": preset, "seconds": seconds, "runs": runs, "choice": choice}


def lowest_rate(runs: list[dict[str, Any]]) -> float:
    """The lowest rate that was tried."""
    return min(run["learning_rate"] for run in runs)


def highest_rate(runs: list[dict[str, Any]]) -> float:
    """The highest rate that was tried."""
    return max(run["learning_rate"] for run in runs)


def one_training(setup: dict[str, Any], threads: int) -> dict[str, Any]:
    """GPT-2 trained once, in a process of its own with our allocator settings."""
    contestant = Contestant(
        name="GPT-2",
        make="benchmarks.quality.gpt2:gpt2",
        setup=setup,
        allocator_settled=True,
    )
    with started([contestant], threads) as (worker,):
        turn = worker.work(1)
    rate, batch_size, dropout, decay = (setup[key] for key in CHOSEN)
    print_progress(
        f"GPT-2, rate {rate:g}, batches of {batch_size}, dropout {dropout:g}, decay {decay:g}, "
        f"seed {setup['seed']}: "
        f"{turn.found['bits_per_byte']:.4f} bits per byte after {turn.found['updates']} updates"
    )
    return dict(turn.found)


def newest_choice(folder: Path, preset: str, seconds: float) -> dict[str, Any]:
    """What a tuning for a preset's shape has picked: the newest of those nearest in length.

    Raises:
        SystemExit: there is none; says how to make one.
    """
    tunings = {
        file.name: json.loads(file.read_text(encoding="utf-8"))
        for file in folder.glob("quality-peer-*.json")
    }
    names = [name for name, tuning in tunings.items() if tuning["preset"] == preset]
    if not names:
        raise SystemExit(
            f"GPT-2 has not been tuned in the shape of {preset}: "
            f"first run python -m benchmarks.quality --tune --preset {preset}"
        )
    names.sort(key=lambda name: tunings[name]["date"], reverse=True)
    name = min(names, key=lambda name: abs(math.log(tunings[name]["seconds"] / seconds)))
    return {**CHOSEN, **tunings[name]["choice"], "tuned_on": name}
