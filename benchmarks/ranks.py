"""What ranks gain on one machine: tokens per second, and the memory of each rank's share.

    python -m benchmarks.ranks

One process against two ranks with as many threads each, on the same global batch, in turns. A busy
machine slows two ranks more than one process: run it on a quiet one, or compare the processor time
of the slowest rank, which does not count waiting. The share is what a rank of a
sharded model holds of weights, gradients and moments, counted tensor by tensor.

Comes in: nothing. Goes out: `results/ranks-DATE.json`, and lines. It starts ranks as torchrun does.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import header, write
from benchmarks.workers import print_progress

#: The global batch in rows and tokens of each.
_ROWS, _LENGTH = 16, 128


def main() -> None:
    parser = argparse.ArgumentParser(description="what ranks gain")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--updates", type=int, default=4, help="timed, after one that is not")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        print(json.dumps(train(arguments.child, arguments)), flush=True)
        return
    results = header("benchmarks.ranks", parser, arguments)
    turns: dict[str, list[dict[str, Any]]] = {"one process": [], "none": [], "full": []}
    for _ in range(arguments.turns):
        for name, rows in turns.items():
            size = 1 if name == "one process" else arguments.ranks
            rows.append(started(name, size, arguments))
            print_progress(f"{name:12} {rows[-1]['tokens_per_second']:8.0f} tokens/s")
    speeds = {name: [row["tokens_per_second"] for row in rows] for name, rows in turns.items()}
    speed_alone = median(speeds["one process"])
    results["load"] = os.getloadavg()
    results["turns"] = turns
    results["times_faster"] = {
        name: median(speeds[name]) / speed_alone for name in ("none", "full")
    }
    work = {name: min(row["processor_seconds"] for row in rows) for name, rows in turns.items()}
    results["less_work"] = {name: work["one process"] / work[name] for name in ("none", "full")}
    results["share"] = turns["full"][0]["held_bytes"] / turns["one process"][0]["held_bytes"]
    print_progress(
        f"times faster: {results['times_faster']}; less work a rank: {results['less_work']}"
    )
    print_progress(f"share of a rank: {results['share']:.3f}")
    write(results, arguments.into, "ranks")


def started(name: str, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """What rank 0 answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    words = [sys.executable, "-m", "benchmarks.ranks", "--child", name]
    words += ["--updates", str(arguments.updates), "--threads", str(arguments.threads)]
    ranks = [
        subprocess.Popen(
            words,
            env=os.environ
            | shared
            | {"OMP_NUM_THREADS": str(arguments.threads), "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    answers = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"{name}: a rank failed")
    return json.loads(answers[0])


def train(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Some updates of a decoder, as one of the ranks."""
    import torch

    from pellucid import config
    from pellucid.batches import TokenBatch
    from pellucid.model import assemble
    from pellucid.objectives import NextToken
    from pellucid.optim import assemble_optimiser
    from pellucid.parallel import joined
    from pellucid.presets import find
    from pellucid.runs.shard import shard_model
    from pellucid.training import Stepper

    torch.set_num_threads(arguments.threads)
    updates = arguments.updates
    run = find("nano")
    model = assemble(replace(run.model, vocab_size=512, context_length=_LENGTH), seed=0)
    shard = name if name != "one process" else "none"
    settings = replace(config.Parallelism(), shard=shard, gather="float32")  # type: ignore[arg-type]
    adamw = config.AdamW(learning_rate=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    with joined(settings) as world:
        world.start_together()
        shard_model(model, world, "float32")
        optimiser = assemble_optimiser(adamw, model.named_parameters(), owners=world)
        training = replace(run.training, batch_size=_ROWS, accumulation=world.size)
        plan = config.Plan(
            total_steps=1,
            threads=arguments.threads,
            device="cpu",
            precision="float32",
            compile=False,
            device_name="",
            torch_version=torch.__version__,
            ranks=world.size,
            seeding="by_part",
        )
        stepper = Stepper(
            model, NextToken(), optimiser, settings=training, plan=plan, seed=0, world=world
        )
        ids = torch.randint(0, 512, (_ROWS, _LENGTH), generator=torch.Generator().manual_seed(1))
        own_ids = ids.chunk(world.size)[world.rank]
        batch = TokenBatch(ids=own_ids, targets=own_ids, n_supervised=ids.numel())
        stepper.update(batch, step=0, factor=1.0)
        clock_started, processor = time.perf_counter(), time.process_time()
        for step in range(1, updates + 1):
            stepper.update(batch, step=step, factor=1.0)
        seconds = time.perf_counter() - clock_started
        processor = max(world.gather(time.process_time() - processor))
        local_weights = [world.local(p.detach()) for p in model.parameters()]
        moments = [world.local(tensor) for tensor in optimiser.state_tensors().values()]
        n_bytes = sum(
            t.numel() * t.element_size() for t in (*local_weights, *local_weights, *moments)
        )
    return {
        "tokens_per_second": updates * ids.numel() / seconds,
        "processor_seconds": processor,
        "held_bytes": n_bytes,
    }


if __name__ == "__main__":
    main()
