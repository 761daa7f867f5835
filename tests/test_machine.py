"""The doctor's advice follows from what it saw."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import pytest

from pellucid.cores import usable_cores
from pellucid.free_memory import Free
from pellucid.machine import Findings, Speed, advise, examine, missing_extras

WELL = Findings(
    cores=4,
    threads=4,
    load=0.1,
    huge_pages="madvise",
    has_compiler=True,
    is_native_off=False,
    free=Free(8 * 2**30, "this machine"),
    free_disk=50 * 2**30,
    speed=Speed(1e11, 2e11),
    missing=(),
)


def test_a_machine_that_is_well_gets_no_advice() -> None:
    assert list(advise(WELL)) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"load": 3.0}, "other programs"),
        ({"has_compiler": False}, "no C compiler"),
        ({"is_native_off": True}, "PELLUCID_NATIVE"),
        ({"huge_pages": "never"}, "huge pages"),
        ({"free": Free(2**30, "this machine")}, "of memory"),
        ({"free_disk": 2**29}, "of disk"),
    ],
)
def test_what_slows_it_is_named(change: dict[str, object], word: str) -> None:
    (advice,) = advise(replace(WELL, **change))  # pyright: ignore[reportArgumentType]
    assert word in advice.problem
    assert advice.remedy


def test_threads_that_a_variable_limits_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (advice,) = advise(replace(WELL, threads=1))
    assert "1 of 4 cores" in advice.problem
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert list(advise(replace(WELL, threads=1))) == []


def test_a_system_without_its_files_is_examined_too(tmp_path: Path) -> None:
    facts = dict(examine(tmp_path).rows)
    assert facts["huge pages"] == "unknown"
    assert facts["free memory"] == "unknown"


def test_a_control_group_bounds_the_cores(tmp_path: Path) -> None:
    every = usable_cores(tmp_path)
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    for text, expected in (("150000 100000\n", min(2, every)), ("max 100000\n", every)):
        (group / "cpu.max").write_text(text)
        assert usable_cores(tmp_path) == expected


def test_extras_are_unknown_if_pellucid_runs_from_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    assert missing_extras() is not None
    monkeypatch.setattr("pellucid.machine.metadata", absent)
    assert missing_extras() is None
    monkeypatch.setattr("pellucid.machine.matmul_speed", lambda: WELL.speed)
    assert "its source" in dict(examine().rows)["extras not installed"]
