from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.native import compile as compiling
from pellucid.native import library

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of C, and a cache of its own."""
    monkeypatch.delenv("PELLUCID_NATIVE")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    file = tmp_path / "seven.c"
    file.write_text("int seven(void) { return 7; }\n", encoding="utf-8")
    return file


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "native").iterdir())


def compiler(tmp_path: Path, does: str) -> str:
    """A compiler that prints its version, and otherwise does as requested."""
    script = tmp_path / "my-cc"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 1 && exit 0\n{does}\n')
    script.chmod(0o755)
    return str(script)


def forget() -> None:
    compiling._library.cache_clear()


def test_what_was_compiled_is_loaded_and_kept_for_the_next_process(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, f'echo >> {tmp_path}/count; exec cc "$@"'))
    for _ in range(2):
        forget()
        loaded = library(source)
        assert loaded is not None
        assert loaded.seven() == 7
    assert (tmp_path / "count").read_text() == "\n"
    assert len(kept(tmp_path)) == 1


def test_another_source_is_compiled_anew(source: Path, tmp_path: Path) -> None:
    assert library(source) is not None
    source.write_text("int seven(void) { return 8; }\n", encoding="utf-8")
    forget()
    loaded = library(source)
    assert loaded is not None
    assert loaded.seven() == 8
    assert len(kept(tmp_path)) == 2


def test_damaged_library_is_not_loaded_but_compiled_anew(source: Path, tmp_path: Path) -> None:
    command = compiling._compiler(None)
    assert command is not None
    library_file = compiling._compiled(source, command)
    library_file.write_bytes(library_file.read_bytes()[:-1] + b"?")
    forget()
    loaded = library(source)
    assert loaded is not None
    assert loaded.seven() == 7
    (recompiled,) = kept(tmp_path)
    assert recompiled.stem.endswith(compiling._digest(recompiled))


def test_without_a_compiler_there_is_none_and_no_warning(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    forget()
    with caplog.at_level(logging.INFO):
        assert library(source) is None
    (line,) = caplog.records
    assert line.levelno == logging.INFO
    assert "no C compiler" in line.message


@pytest.mark.parametrize("does", ["echo 'it is broken' >&2; exit 1", "exit 0"])
def test_compiler_that_fails_is_told_in_one_line_and_done_without(
    does: str,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, does))
    for _ in range(2):  # told once
        assert library(source) is None
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert "without seven.c" in line.message
    assert "\n" not in line.message
    assert kept(tmp_path) == []


def test_it_can_be_turned_off(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    assert library(source) is None


def test_it_is_kept_where_the_user_says(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PELLUCID_NATIVE", str(tmp_path / "chosen"))
    assert library(source) is not None
    assert len(list((tmp_path / "chosen").iterdir())) == 1
    assert not (tmp_path / "cache").exists()


def test_where_nothing_is_kept_it_is_compiled_for_the_process(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", "off")
    assert library(source) is not None
    assert not (tmp_path / "cache").exists()


def test_processes_that_compile_at_once_do_not_disturb_each_other(
    source: Path, tmp_path: Path
) -> None:
    script = (
        "import sys; from pathlib import Path; from pellucid.native import library; "
        "found = library(Path(sys.argv[1])); sys.exit(found is None or found.seven() != 7)"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(source)], env=dict(os.environ))
        for _ in range(4)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert all(file.stem.endswith(compiling._digest(file)) for file in kept(tmp_path))


def planted(source: Path, folder: Path) -> Path:
    """A stranger's library under the name of ours, with the right digest: it gives 8."""
    assert library(source) is not None
    (library_file,) = folder.iterdir()
    other = source.with_name("other.c")
    other.write_text("int seven(void) { return 8; }\n", encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", str(other), "-o", str(folder / "x.so")], check=True)
    other.unlink()
    digest = compiling._digest(folder / "x.so")
    library_file.unlink()
    plant = folder / f"{library_file.stem.rpartition('-')[0]}-{digest}.so"
    (folder / "x.so").rename(plant)
    plant.chmod(0o700)
    forget()
    return plant


def result(source: Path) -> int:
    loaded = library(source)
    assert loaded is not None
    return loaded.seven()


@pytest.mark.parametrize("which", ["the folder", "the folder above"])
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_nothing_is_loaded_from_a_folder_that_others_can_write_to(
    which: str,
    mode: int,
    source: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "cache" / "native"
    plant = planted(source, folder)
    assert result(source) == 8, "the plant would work"
    forget()
    monkeypatch.setattr("pellucid.cache_dir._group_of_one", lambda group: False)
    (folder if which == "the folder" else folder.parent).chmod(mode)
    assert result(source) == 7
    assert "other users can write to" in caplog.text
    assert "chmod go-w" in caplog.text
    assert list(folder.iterdir()) == [plant]  # nothing of theirs is touched, nothing added


def test_a_library_that_others_can_write_to_is_not_loaded(source: Path, tmp_path: Path) -> None:
    plant = planted(source, tmp_path / "cache" / "native")
    plant.chmod(0o777)
    assert result(source) == 7


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("which", ["the folder", "the library", "a link to it"])
def test_nothing_of_another_user_is_loaded(which: str, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "native"
    plant = planted(source, folder)
    if which == "a link to it":
        plant.rename(tmp_path / "elsewhere.so")
        plant.symlink_to(tmp_path / "elsewhere.so")
    else:
        os.chown(folder if which == "the folder" else plant, 12345, 12345)
    assert result(source) == 7


def test_folders_that_are_made_for_libraries_are_for_you_alone(
    source: Path, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        assert library(source) is not None
    finally:
        os.umask(before)
    (kept_file,) = kept(tmp_path)
    for place in (tmp_path / "cache", tmp_path / "cache" / "native", kept_file):
        assert place.stat().st_mode & 0o777 == 0o700


def test_neither_a_compiler_nor_a_header_of_the_working_folder_is_used(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("cc", "gcc", "clang", "as", "ld", "cc1", "collect2"):
        (hostile / name).write_text(f"#!/bin/sh\ntouch {hostile}/ran\nexit 1\n")
        (hostile / name).chmod(0o755)
    (hostile / "math.h").write_text("#error of the working folder\n")
    monkeypatch.chdir(hostile)
    for name in ("PATH", "CPATH", "C_INCLUDE_PATH", "COMPILER_PATH"):
        monkeypatch.setenv(name, os.pathsep.join((".", "", os.environ.get(name, ""))))
    source.write_text("#include <math.h>\nint seven(void) { return 7; }\n", encoding="utf-8")
    assert result(source) == 7
    assert not (hostile / "ran").exists()
