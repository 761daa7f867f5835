"""Files that the user names: ours are replaced, all others stay."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pellucid.disk import sealed, write_output, write_output_bytes
from pellucid.errors import PellucidError

KINDS = ("page.html", "page.htm", "drawing.svg", "fixed.toml")


@pytest.mark.parametrize("name", KINDS)
def test_what_pellucid_wrote_is_replaced_and_nothing_else(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    for text in ("one", "two", ""):
        n_bytes = write_output(file, text)
        assert file.read_bytes() == sealed(file, text)
        assert n_bytes == file.stat().st_size
    assert os.listdir(tmp_path) == [name]
    for content in (b"", b"mine", file.read_bytes() + b" ", b"mine" + file.read_bytes()):
        file.write_bytes(content)
        with pytest.raises(PellucidError, match=r"not as pellucid wrote it.*name another"):
            write_output(file, "ours")
        assert file.read_bytes() == content


def test_formats_without_comments_are_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "vectors.npy"
    write_output_bytes(file, b"ours")
    with pytest.raises(PellucidError, match="is there already"):
        write_output_bytes(file, b"newer")
    assert file.read_bytes() == b"ours"


def test_folders_and_neighbours_stay(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(PellucidError, match="is a folder"):
        write_output(tmp_path / "page.html", "ours")
    (tmp_path / "other.html.partial").write_text("mine")
    write_output(tmp_path / "other.html", "ours")
    assert (tmp_path / "other.html.partial").read_text() == "mine"


def test_a_link_is_followed_to_a_file_that_is_ours_or_new(tmp_path: Path) -> None:
    link, file = tmp_path / "link.html", tmp_path / "page.html"
    link.symlink_to(file)
    for text in ("one", "two"):
        write_output(link, text)
        assert file.read_bytes() == sealed(file, text)
    file.write_text("mine")
    with pytest.raises(PellucidError, match="is there already"):
        write_output(link, "ours")
    assert link.is_symlink()
    assert file.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe.svg", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, "<svg/>")
    reader.join(10)
    assert read == [sealed(pipe, "<svg/>")]
