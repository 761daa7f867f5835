"""Train a tiny run while killing its process again and again: `killer.py FOLDER KILLS SEED`.

Children are forked after the imports, so that a kill costs a fraction of a second and lands in
training and saving, not in starting Python. Prints one JSON line of what happened.
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

import pellucid.runs
from pellucid.disk import PARTIAL
from pellucid.runs import RunFolder

#: More than the children have time for before they are killed, on a machine twice as fast, too.
STEPS = 800
EVERY_STEP = ("training.checkpoint_every=1", "training.evaluate_every=7")


def go_on(folder: Path) -> None:
    """Start the run, or resume it."""
    from support.tiny import train_tiny

    torch.set_num_threads(1)
    if RunFolder(folder).config.is_file():
        pellucid.runs.resume(folder, show=False)
    else:
        train_tiny(folder, steps=STEPS, settings=EVERY_STEP)


def child(folder: Path) -> int:
    """A process that continues the run."""
    process = os.fork()
    if process:
        return process
    try:
        go_on(folder)
        os._exit(0)
    except BaseException as error:
        print(f"child: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill `kills` children at random moments, then let one finish."""
    moments = random.Random(seed)
    killed, partial = 0, 0
    while killed < kills:
        process = child(folder)
        time.sleep(moments.uniform(0.02, 0.5))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if not os.WIFSIGNALED(status):
            print(json.dumps({"killed": killed, "ended": os.waitstatus_to_exitcode(status)}))
            sys.exit(1)
        killed += 1
        shelf = folder / "checkpoints"
        partial += any(p.name.endswith(PARTIAL) for p in shelf.glob("*"))
    _, status = os.waitpid(child(folder), 0)
    end = os.waitstatus_to_exitcode(status)
    print(json.dumps({"killed": killed, "killed_while_saving": partial, "ended": end}))
    sys.exit(end)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
