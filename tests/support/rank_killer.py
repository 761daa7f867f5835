"""Train as two ranks that are killed again and again: `rank_killer.py FOLDER KIND KILLS STEPS`.

Ranks are forked after the imports, so that a kill costs a second or two. By turns it comes at any
moment, some updates later, and as soon as a checkpoint is half written. Prints one JSON line of
what happened.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from pellucid.cli import main as command
from pellucid.disk import PARTIAL
from pellucid.runs import RunFolder
from pellucid.training import stepper
from support.ranks import free_port
from support.tiny import ADAMW, TINY, write_text

LORA = ("trained.kind=LoRA", "trained.rank=2", "trained.alpha=4.0", "trained.dropout=0.1",
        'trained.targets=["query","down"]')  # fmt: skip
#: Settings of each kind of run; TINY has dropout and two parts of a batch.
KINDS = {
    "whole": (),
    "sharded": ("parallel.shard=full", *ADAMW),
    "accumulated": ("training.accumulation=4", "model.decoder.dropout=0.3", *ADAMW),
    "adapters": ("parallel.shard=full", *ADAMW, *LORA),
    "products": ("parallel.tensor=2", "model.decoder.attention.n_kv_heads=2", *ADAMW),
    "shares": ("parallel.shard=full", *ADAMW),
}


def words_of(folder: Path, kind: str, out: Path, steps: int) -> list[str]:
    """One command that starts the run or continues it."""
    settings = (*TINY, *KINDS[kind], "training.checkpoint_every=1", "text.held_out=0.2")
    flags = [word for setting in settings for word in ("--set", setting)]
    words = ["train", str(write_text(folder)), "--no-vitals", "--steps", str(steps)]
    return [*words, *flags, "--out", str(out), "--resume-or-start"]


def start(words: list[str], *, in_shares: bool, log: Path) -> list[int]:
    """Two processes, each of them a rank."""
    port, ranks = str(free_port()), list[int]()
    for rank in range(2):
        process = os.fork()
        if process:
            ranks.append(process)
            continue
        try:
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ |= {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            torch.set_num_threads(1)
            if in_shares:
                stepper.GATHERED_BYTES = 0
            os._exit(command(words))
        except BaseException as error:
            print(f"rank {rank}: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
    return ranks


def wait(ranks: list[int]) -> list[int]:
    """The exit code of each; minus the signal that ended it."""
    return [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]


def latest_step(run: RunFolder) -> int:
    """The step of the latest checkpoint, or 0."""
    return max(run.shelf.steps(), default=0) if run.path.exists() else 0


def is_saving(run: RunFolder) -> bool:
    """Whether a checkpoint is half written."""
    return any(path.name.endswith(PARTIAL) for path in (run.path / "checkpoints").glob("*"))


def await_moment(run: RunFolder, number: int, moments: random.Random, longest: float) -> None:
    """Wait for the moment of a kill: any, one after some updates, or one in the middle of saving.

    Args:
        run: the run that is trained.
        number: of the kill.
        moments: draws the moment.
        longest: seconds of a whole training.
    """
    if number % 3 == 0:
        time.sleep(moments.uniform(0.1, longest / 2))
        return
    target, end = latest_step(run) + number % 3, time.monotonic() + 60 + 10 * longest
    while latest_step(run) < target and time.monotonic() < end:
        time.sleep(0.005)
    if number % 3 == 1:
        time.sleep(moments.uniform(0.0, longest / 30))
        return
    while not is_saving(run) and time.monotonic() < end:
        time.sleep(0.0005)


def main(folder: Path, kind: str, kills: int, steps: int) -> None:
    """Train once without a kill; kill a second training `kills` times, then let it end."""
    moments, log, in_shares = random.Random(kind), folder / "log.txt", kind == "shares"
    straight_words, words = (
        words_of(folder, kind, folder / name, steps) for name in ("whole", "killed")
    )
    started = time.monotonic()
    ends = [wait(start(straight_words, in_shares=in_shares, log=log))]
    longest, run = time.monotonic() - started, RunFolder(folder / "killed")
    killed, while_saving, at_steps, ended = 0, 0, list[int](), 0
    while killed < kills:
        ranks = start(words, in_shares=in_shares, log=log)
        await_moment(run, killed, moments, longest)
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        codes = wait(ranks)
        if codes != [-signal.SIGKILL] * 2:  # it had ended before, or one rank had
            is_over = latest_step(run) == steps
            ends.append([0 if is_over and code == -signal.SIGKILL else code for code in codes])
            run.path.rename(folder / f"ended-{ended}")
            ended += 1
            continue
        killed += 1
        while_saving += is_saving(run)
        at_steps.append(latest_step(run))
    ends.append(wait(start(words, in_shares=in_shares, log=log)))
    facts = {"killed": killed, "while_saving": while_saving, "at_steps": at_steps, "ends": ends}
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
