"""Ranks that torchrun starts again with the store of an earlier start."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from torch import distributed

from pellucid.parallel.rounds import enter_round
from pellucid.runs import RunFolder
from support.ranks import free_port
from support.tiny import TINY, flags_of, write_text

#: A command whose rank 1 is killed once, after three updates.
_KILLED_ONCE = """
import os, signal, sys
from pathlib import Path
from pellucid.cli import main
from pellucid.data.batches import WindowBatches

own_rows = WindowBatches.own_rows

def rows_or_death(self, position, n_rows, rows):
    if position >= 3 * 6 and os.environ["RANK"] == "1" and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return own_rows(self, position, n_rows, rows)

WindowBatches.own_rows = rows_or_death
sys.exit(main(sys.argv[1:]))
"""


def test_ranks_that_start_again_hear_nothing_of_the_earlier_start() -> None:
    module: Any = distributed
    store = module.HashStore()
    for start in range(2):
        with ThreadPoolExecutor(3) as pool:
            # rank 0 comes last
            rounds = [pool.submit(enter_round, store, rank, 3, seconds=20) for rank in (2, 1, 0)]
            parts = [entering.result() for entering in rounds]
        assert not any(part.check(["refused"]) for part in parts)
        parts[0].set("refused", str(start))
        assert all(part.get("refused").decode() == str(start) for part in parts)


@pytest.mark.nightly
def test_torchrun_starts_killed_ranks_again_and_they_finish_the_run(tmp_path: Path) -> None:
    (tmp_path / "killed_once.py").write_text(_KILLED_ONCE, encoding="utf-8")
    settings = (*TINY, "text.held_out=0.2", "training.batch_size=6", "training.accumulation=6")
    flags = flags_of(settings)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--max-restarts", "1", "--rdzv-backend", "c10d"]
    torchrun += ["--rdzv-endpoint", f"localhost:{free_port()}", "killed_once.py", "train"]
    words = [str(write_text(tmp_path / "text")), "--no-vitals", "--steps", "6", *flags]
    end = subprocess.run(
        [*torchrun, *words, "--out", "run", "--resume-or-start"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PELLUCID_CACHE": "off"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert end.returncode == 0, end.stderr
    assert (tmp_path / "killed").exists()
    assert RunFolder(tmp_path / "run").shelf.steps()[-1] == 6
