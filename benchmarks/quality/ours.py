"""pellucid's side of a race: the command that a user would type, by the clock of its whole.

Comes in: a preset, a text, a time in which its whole command has to be done. Goes out: seconds
of the command, and the loss on held-out text. It does not know who it races against.

The rule for `--minutes`, which counts from the first evaluation to the last checkpoint: the time
that is to be kept, less what the same command takes beyond that for a single update (start-up,
preparing the text).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.workers import environment, print_progress


@dataclass(frozen=True)
class Track:
    """What all runs of a race have alike: the texts, the threads, and where runs are written."""

    train: Path
    held_out: Path
    scratch: Path
    threads: int

    def start_up(self, preset: str) -> tuple[float, Path]:
        """Seconds of a command beyond those that `--minutes` counts, and the run it leaves.

        The command trains for one update, twice, and the second counts: the first also compiles,
        once on a machine.
        """
        for number in (1, 2):
            run_folder = self.scratch / f"{preset}, one update, {number}"
            seconds, _ = self._train(preset, ["--steps", "1"], run_folder)
        seconds -= counted_seconds(run_folder)
        print_progress(f"{preset}: {seconds:.1f} s that its minutes do not count")
        return seconds, run_folder

    def run(self, preset: str, *, keep_to: float, start_up: float, seed: int) -> dict[str, Any]:
        """One run whose whole command is to take `keep_to` seconds."""
        minutes = (keep_to - start_up) / 60
        head: dict[str, Any] = {"seed": seed, "keep_to_seconds": keep_to, "minutes": minutes}
        if minutes <= 0:
            return head | {"problem": "start-up alone takes longer"}
        run_folder = self.scratch / f"{preset}, {keep_to:.0f} s, seed {seed}"
        flags = ["--minutes", f"{minutes:.4f}", "--seed", str(seed)]
        seconds, printed = self._train(preset, flags, run_folder)
        words = ["evaluate", str(run_folder), str(self.held_out), "--json"]
        loss = json.loads(call_pellucid(words, self.scratch, self.threads)[1])["bits_per_byte"]
        print_progress(
            f"{preset}, seed {seed}: {loss:.4f} bits per byte in {seconds:.1f} s "
            f"(to be kept: {keep_to:.1f} s)"
        )
        updates = json.loads(printed)["step"]
        return head | {"seconds": seconds, "bits_per_byte": loss, "updates": updates}

    def _train(self, preset: str, flags: list[str], run_folder: Path) -> tuple[float, str]:
        words = [
            "train",
            str(self.train),
            "--preset",
            preset,
            *flags,
            "--out",
            str(run_folder),
            "--json",
        ]
        return call_pellucid(words, self.scratch, self.threads)


def counted_seconds(run: Path) -> float:
    """The seconds of a run that its minutes count, as its record says."""
    *_, last = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return float(json.loads(last)["seconds"])


def call_pellucid(words: Sequence[str], folder: Path, threads: int) -> tuple[float, str]:
    """Wall seconds and standard output of `pellucid` with these words."""
    command = [sys.executable, "-m", "pellucid", *words]
    cache = folder / "cache"
    # each command prepares its text itself
    shutil.rmtree(cache / "text", ignore_errors=True)
    return call(command, folder, threads, {"PELLUCID_CACHE": str(cache)})


def call(
    words: Sequence[str], folder: Path, threads: int, variables: Mapping[str, str] | None = None
) -> tuple[float, str]:
    """Wall seconds and standard output of a command, with no environment settings but these.

    Raises:
        SystemExit: the command failed; with what it said.
    """
    started = time.perf_counter()
    process = subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment(os.environ, threads) | (variables or {}),
    )
    if process.returncode:
        raise SystemExit(
            f"{' '.join(words)} failed:\n{process.stdout[-2000:]}{process.stderr[-4000:]}"
        )
    return time.perf_counter() - started, process.stdout


def race(
    track: Track,
    peer: Mapping[str, Any],
    ready: Mapping[str, float],
    shares: Sequence[float],
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Every preset in every share of the peer's time, seed after seed.

    `ready`: the presets, each with the seconds of its start-up.
    """
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {
        preset: {str(share): [] for share in shares} for preset in ready
    }
    for share in shares:
        keep_to = share * peer["seconds"]
        for seed in seeds:
            for preset, start_up in ready.items():
                run = track.run(preset, keep_to=keep_to, start_up=start_up, seed=seed)
                runs[preset][str(share)].append(run)
    return {"start_up_seconds": dict(ready), "runs": runs}
