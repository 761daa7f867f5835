"""Files and pipes are opened. All else is refused, and so is waiting forever."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pellucid.errors import PellucidError, TextError
from pellucid.reader import is_pipe, opening, read_bytes, read_text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "WRITER_SECONDS", 0.05)
    monkeypatch.setattr(opening, "SILENCE_SECONDS", 0.05)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfna\xc3\xafve")
    assert read_text(tmp_path / "a") == "naïve"
    assert read_bytes(tmp_path / "a", limit=9) == b"\xef\xbb\xbfna\xc3\xafve"


def test_a_file_longer_than_its_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    with pytest.raises(PellucidError, match="longer than 9 bytes"):
        read_bytes(tmp_path / "a", limit=9)


def test_a_refusal_is_of_the_room_that_asked(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="does not exist"):
        read_text(tmp_path / "a", refusal=TextError)


def test_what_is_not_utf8_is_refused_with_its_offset(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("na\xefve".encode("latin-1"))
    with pytest.raises(PellucidError, match="byte 0xef at offset 2"):
        read_text(tmp_path / "a")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_a_device_is_refused_unopened(device: str) -> None:
    if not Path(device).exists():
        pytest.skip(f"there is no {device}")
    with pytest.raises(PellucidError, match="is a device"):
        read_bytes(device)


def test_a_folder_and_a_socket_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PellucidError, match="is a folder"):
        read_bytes(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.bind(str(tmp_path / "s"))
        except OSError:
            pytest.skip("the path is too long for a socket")
        with pytest.raises(PellucidError, match="is a socket"):
            read_bytes(tmp_path / "s")


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(PellucidError, match="cannot be read"):
        read_bytes("a\0b")
    with pytest.raises(PellucidError, match="cannot be read"):
        read_bytes("a" * 5000)


def test_a_pipe_that_no_program_writes_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    with pytest.raises(PellucidError, match="a pipe that no program writes to"):
        read_bytes(fifo(tmp_path))


def test_a_pipe_that_falls_silent_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    pipe = fifo(tmp_path)
    read_write = os.open(pipe, os.O_RDWR)
    try:
        os.write(read_write, b"one")
        with pytest.raises(PellucidError, match="fell silent"):
            read_bytes(pipe)
    finally:
        os.close(read_write)


def test_a_pipe_is_read_to_its_end_however_slowly_it_comes(tmp_path: Path) -> None:
    pipe, parts = fifo(tmp_path), [b"a" * 70_000, b"b", b"c" * 3]

    def write() -> None:
        with pipe.open("wb") as stream:
            for part in parts:
                stream.write(part)
                stream.flush()

    writer = threading.Thread(target=write)
    writer.start()
    assert is_pipe(pipe)
    assert read_bytes(pipe) == b"".join(parts)
    writer.join()


def test_a_pipe_without_end_is_read_no_further_than_its_limit(tmp_path: Path) -> None:
    pipe = fifo(tmp_path)
    with subprocess.Popen(["dd", "if=/dev/zero", f"of={pipe}", "status=none"]) as endless:
        with pytest.raises(PellucidError, match=r"longer than 1,000,000 bytes"):
            read_bytes(pipe, limit=1_000_000)
        assert endless.wait() != 0  # nobody reads any more


@pytest.mark.parametrize("content", [b"", b"one\ntwo\n"], ids=["empty", "two lines"])
def test_what_a_shell_substitutes_for_a_program_is_read(content: bytes) -> None:
    read, write = os.pipe()  # as `<(program)` gives: /dev/fd/63
    try:
        os.write(write, content)
        os.close(write)
        assert read_bytes(f"/dev/fd/{read}") == content
    finally:
        os.close(read)
