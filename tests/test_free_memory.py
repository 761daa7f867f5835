"""The free memory is the least that the machine and its control groups have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pellucid.free_memory import Free, free_memory, resident_memory, unmap_idle_code

GB = 10**9


def tree(root: Path, **files: object) -> Path:
    """A file system with these files; `__` in a name replaces a slash."""
    for name, content in files.items():
        file = root / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n", encoding="ascii")
    return root


def machine(root: Path, cgroup: str) -> Path:
    meminfo = "MemTotal: 32000000 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB"
    return tree(root, proc__meminfo=meminfo, proc__self__cgroup=cgroup)


def group(folder: Path, limit: object, used: int, droppable: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n", encoding="ascii")
    (folder / "memory.current").write_text(f"{used}\n", encoding="ascii")
    stat = f"anon 5\ninactive_file {droppable}\n"
    (folder / "memory.stat").write_text(stat, encoding="ascii")


def test_a_machine_without_limits_has_what_it_says_is_available(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/")
    assert free_memory(root) == Free(20_000_000 * 1024, "this machine")


def test_a_control_group_counts_where_it_has_less_and_its_file_pages_are_free(
    tmp_path: Path,
) -> None:
    root = machine(tmp_path, "0::/user/job")
    mount = root / "sys/fs/cgroup"
    group(mount / "user/job", 4 * GB, 3 * GB, droppable=GB)
    assert free_memory(root) == Free(2 * GB, "the control group /user/job")


def test_the_groups_above_bound_it_too(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/user/job")
    mount = root / "sys/fs/cgroup"
    group(mount / "user/job", "max", GB)
    group(mount / "user", 3 * GB, 2 * GB)
    group(mount, 9 * GB, GB)
    assert free_memory(root) == Free(GB, "the control group /user")


def test_a_container_that_sees_its_own_group_as_the_root_is_bounded(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/docker/0123")  # a path outside what is mounted
    group(root / "sys/fs/cgroup", 2 * GB, GB)
    assert free_memory(root) == Free(GB, "the control group /")


@pytest.mark.parametrize(("limit", "free"), [(3 * GB, GB), (2**63 - 4096, None)])
def test_version_1_of_control_groups_is_read(tmp_path: Path, limit: int, free: int | None) -> None:
    root = machine(tmp_path, "5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/job")
    folder = root / "sys/fs/cgroup/memory/job"
    folder.mkdir(parents=True)
    for name, value in (("limit_in_bytes", limit), ("usage_in_bytes", 3 * GB)):
        (folder / f"memory.{name}").write_text(f"{value}\n", encoding="ascii")
    (folder / "memory.stat").write_text(f"total_inactive_file {GB}\n", encoding="ascii")
    expected = Free(20_000_000 * 1024, "this machine")
    assert free_memory(root) == (expected if free is None else Free(free, "the control group /job"))


def test_where_nothing_says_nothing_is_known(tmp_path: Path) -> None:
    assert free_memory(tmp_path) is None
    assert resident_memory(tmp_path) == 0


def test_a_group_that_is_over_its_limit_has_nothing_free(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/")
    group(root / "sys/fs/cgroup", GB, 2 * GB)
    assert free_memory(root) == Free(0, "the control group /")


@pytest.mark.skipif(sys.platform != "linux", reason="reads what is mapped as Linux tells it")
def test_code_that_is_unmapped_comes_back_when_it_is_used() -> None:
    before = _resident_files()
    unmap_idle_code()
    assert _resident_files() < before
    assert sorted([3, 1, 2]) == [1, 2, 3]


def _resident_files() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith("RssFile"))
    return int(line.split()[1])
