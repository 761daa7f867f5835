"""Two network namespaces, joined by a virtual cable, as two machines.

Training, a pulled cable, a slow link.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.runs import RunFolder, read_events
from pellucid.training import Logged
from support.ranks import finish
from support.tiny import TINY, flags_of, write_text

#: Of this process: names of a killed test stay until they are removed by hand.
_NODES = (f"pellucid-{os.getpid()}-one", f"pellucid-{os.getpid()}-two")
_ADDRESSES = ("10.77.31.1", "10.77.31.2")
_PORT = "29571"
#: Bytes per second of the slow link, and of one that delays nothing here.
_SLOW, _FAST = 25_000, 10**9


def _ip(*words: str) -> bool:
    process = subprocess.run(["ip", *words], capture_output=True, check=False)
    return process.returncode == 0


def _limit(node: str, device: str, bytes_per_second: int) -> bool:
    """Let a node send no more than so many bytes per second."""
    words = ["tc", "-n", node, "qdisc", "replace", "dev", device, "root", "tbf"]
    words += ["rate", f"{bytes_per_second}bps", "burst", "16kb", "latency", "2s"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture
def nodes() -> Iterator[tuple[str, str]]:
    """Two namespaces with an address each."""
    if shutil.which("ip") is None:
        pytest.skip("the program ip is missing: it makes the two networks")
    if not _ip("netns", "add", _NODES[0]):
        pytest.skip("this user may not make network namespaces: it needs the rights of root")
    try:
        is_made = _ip("netns", "add", _NODES[1])
        is_made &= _ip("link", "add", "cable0", "netns", _NODES[0], "type", "veth",
                    "peer", "name", "cable1", "netns", _NODES[1])  # fmt: skip
        if not is_made:
            pytest.skip("this system has no virtual cables (veth)")
        for number, (node, address) in enumerate(zip(_NODES, _ADDRESSES, strict=True)):
            for words in (
                ("addr", "add", f"{address}/24", "dev", f"cable{number}"),
                ("link", "set", f"cable{number}", "up"),
                ("link", "set", "lo", "up"),
            ):
                assert _ip("-n", node, *words)
        yield _NODES
    finally:
        for node in _NODES:
            _ip("netns", "del", node)


def start(nodes: tuple[str, str], folder: Path, *more: str) -> list[subprocess.Popen[str]]:
    """A rank on each node, as torchrun starts them."""
    settings = (*TINY, "parallel.timeout_seconds=10")
    flags = flags_of(settings)
    words = ["-m", "pellucid", "train", str(write_text(folder)), "--no-vitals", "--out", "run"]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": _ADDRESSES[0], "MASTER_PORT": _PORT}
    shared |= {"OMP_NUM_THREADS": "1", "PELLUCID_CACHE": "off", "LOCAL_RANK": "0"}
    return [
        subprocess.Popen(
            ["ip", "netns", "exec", node, sys.executable, *words, *flags, *more],
            cwd=folder,
            env=os.environ | shared | {"RANK": str(n), "GLOO_SOCKET_IFNAME": f"cable{n}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n, node in enumerate(nodes)
    ]


@pytest.mark.nightly
def test_two_nodes_train_and_a_pulled_cable_ends_both(
    nodes: tuple[str, str], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    ends = finish(start(nodes, first, "--steps", "6"))
    assert [code for code, _, _ in ends] == [0, 0], ends
    ranks = start(nodes, second, "--steps", "100000")
    run, end = RunFolder(second / "run"), time.monotonic() + 120
    while not run.shelf.steps():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert _ip("-n", nodes[1], "link", "set", "cable1", "down")
    pulled = time.monotonic()
    ends = finish(ranks)
    assert time.monotonic() - pulled < 60
    assert [code for code, _, _ in ends] == [5, 5], ends
    assert any("pellucid train --resume" in " ".join(err.split()) for _, _, err in ends)


@pytest.mark.nightly
def test_a_slow_link_costs_waiting_time_that_is_named_and_changes_no_loss(
    nodes: tuple[str, str], tmp_path: Path
) -> None:
    losses: dict[int, list[float]] = {}
    waits: dict[int, list[float]] = {}
    for speed in (_FAST, _SLOW):
        if not all(_limit(node, f"cable{n}", speed) for n, node in enumerate(nodes)):
            pytest.skip("this system cannot limit the speed of a link (tc, sch_tbf)")
        folder = tmp_path / str(speed)
        ends = finish(start(nodes, folder, "--steps", "6"))
        assert [code for code, _, _ in ends] == [0, 0], ends
        assert re.search(r"ranks \S+ to \S+, wait up to \d", ends[0][1])
        events = read_events(RunFolder(folder / "run").metrics)
        reports = [event for event in events if isinstance(event, Logged)]
        losses[speed] = [loss for report in reports for loss in report.losses]
        waits[speed] = [
            sum(report.ranks[rank][1] or 0.0 for report in reports) for rank in range(2)
        ]
    assert len(losses[_SLOW]) == 6
    assert losses[_SLOW] == losses[_FAST]
    # in each update both send at least their gradients, which are as large as the weights
    weights = tmp_path / str(_SLOW) / "run" / "checkpoints" / "step-6" / "model.safetensors"
    sending_seconds = 6 * 0.9 * weights.stat().st_size / _SLOW
    assert min(waits[_SLOW]) > sending_seconds > 2, waits
