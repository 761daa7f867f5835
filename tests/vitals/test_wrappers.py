"""Models that are spread over processes, in processes of their own: what is seen, and no bit moved.

Two processes on the CPU, joined by gloo. What each of them is to do is written down as a script.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

SCRIPT = """if True:
    import json
    import sys

    import torch
    import torch.distributed as dist
    from torch import nn

    from pellucid.vitals import watch
    from support.foreign import adam, bits, ids_of, loss_of, made

    torch.set_num_threads(1)
    kind, rank, world, port = sys.argv[1], *map(int, sys.argv[2:])
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world
    )

    def wrapped():
        model = made()
        if kind == "ddp":
            return nn.parallel.DistributedDataParallel(model)
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (world,))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    ends, missing, found = [], {}, {}
    for watched in (False, True):
        model = wrapped()
        optimizer = adam(model)
        torch.manual_seed(1 + rank)

        def loop(say):
            for step in range(12):
                loss = loss_of(model, ids_of(100 * rank + step))
                loss.backward()
                say(loss)
                optimizer.step()
                optimizer.zero_grad()

        if watched:
            with watch(model, optimizer, max_overhead=None) as w:
                loop(w.step)
            missing = w.missing
            found = {sign.id: (sign.value, sign.word) for sign in w.signs}
        else:
            loop(lambda loss: None)
        ends.append([getattr(t, "to_local", lambda t=t: t)().clone() for t in bits(model)])
    same = all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    dist.destroy_process_group()
    print(json.dumps({"same": same, "missing": missing, "found": found}))
"""


def run(kind: str, world: int) -> list[dict[str, Any]]:
    """What each process says at its end."""
    tests = Path(__file__).parents[1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent / 'src'}",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, kind, str(rank), str(world), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(world)
    ]
    said: list[dict[str, Any]] = []
    for process in processes:
        out, error = process.communicate(timeout=180)
        assert process.returncode == 0, error[-3000:]
        said.append(json.loads(out.splitlines()[-1]))
    return said


needs_gloo = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="this torch has no gloo, which joins processes on a CPU",
)


@needs_gloo
@pytest.mark.parametrize("world", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_of_data_parallel_processes_each_sees_all_five(world: int) -> None:
    for said in run("ddp", world):
        assert said["same"]
        assert {"attention.max_logit", "stream.rms", "update.kl_forward", "gradient.norm"} <= set(
            said["found"]
        )
        assert {word for _, word in said["found"].values()} == {"calm"}


@needs_gloo
@pytest.mark.slow
def test_of_sharded_weights_the_whole_is_seen_and_the_rest_is_named() -> None:
    for said in run("fsdp", 2):
        assert said["same"]
        assert "sharded over processes" in said["missing"]["call.*"]
        assert {"gradient.norm", "update.ratio", "update.effective_step"} <= set(said["found"])
        assert {"attention.max_logit", "stream.rms", "update.kl_forward"} <= set(said["found"])
        assert {word for _, word in said["found"].values()} == {"calm"}
