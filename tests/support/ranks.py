"""Starting ranks as torchrun does: one process each, with its variables and nothing else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[1]


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_ranks(
    size: int, words: Sequence[str], folder: Path, **variables: str
) -> list[subprocess.Popen[str]]:
    """Start `python WORDS` on each rank in a folder; their output is text in pipes."""
    shared = {"WORLD_SIZE": str(size), "MASTER_PORT": str(free_port())} | variables
    return [start_rank(rank, words, folder, **shared) for rank in range(size)]


def start_rank(
    rank: int, words: Sequence[str], folder: Path, **variables: str
) -> subprocess.Popen[str]:
    """Start `python WORDS` as one rank; the variables are those that ranks share."""
    rank_variables = {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"}
    rank_variables |= {"OMP_NUM_THREADS": "1", "PELLUCID_CACHE": "off", "PYTHONPATH": str(_TESTS)}
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | rank_variables | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(
    ranks: Sequence[subprocess.Popen[str]], *, seconds: float = 180
) -> list[tuple[int, str, str]]:
    """The exit code, the output and the errors of each rank."""
    try:
        ends = [(*rank.communicate(timeout=seconds), rank) for rank in ranks]
        return [(rank.returncode, stdout, stderr) for stdout, stderr, rank in ends]
    finally:
        for rank in ranks:
            rank.kill()


def run_cases(size: int, names: Sequence[str], folder: Path, *, updates: int) -> dict[str, Any]:
    """What came of the named cases of `support.rank_cases` on some ranks."""
    file = folder / f"{size}.json"
    words = ["-m", "support.rank_cases", str(file), str(updates), *names]
    # a case waits for a busy machine, not for ever
    ends = finish(start_ranks(size, words, folder), seconds=120 + updates * 6 * len(names))
    assert [code for code, _, _ in ends] == [0] * size, ends
    return dict(json.loads(file.read_text(encoding="utf-8")))
