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
    """A compiler that says its version, and for the rest does what it is told."""
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
        found = library(source)
        assert found is not None
        assert found.seven() == 7
    assert (tmp_path / "count").read_text() == "\n"
    assert len(kept(tmp_path)) == 1


def test_another_source_is_compiled_anew(source: Path, tmp_path: Path) -> None:
    assert library(source) is not None
    source.write_text("int seven(void) { return 8; }\n", encoding="utf-8")
    forget()
    found = library(source)
    assert found is not None
    assert found.seven() == 8
    assert len(kept(tmp_path)) == 2


def test_damaged_library_is_not_loaded_but_compiled_anew(source: Path, tmp_path: Path) -> None:
    whole = compiling._compiled(source, ["cc"])
    whole.write_bytes(whole.read_bytes()[:-1] + b"?")
    forget()
    found = library(source)
    assert found is not None
    assert found.seven() == 7
    (again,) = kept(tmp_path)
    assert again.stem.endswith(compiling._digest(again))


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
    assert "seven.c is done without" in line.message
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
