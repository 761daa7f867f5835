"""A download is whole or not at all, continues after a cut, and names each problem."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.datasets import download, fetch, find_file, server
from pellucid.disk import Partial
from pellucid.errors import TextError
from support.server import Server, serving

CONTENT = bytes(range(256)) * 4096  # a megabyte
SHA256 = hashlib.sha256(CONTENT).hexdigest()
KNOWN: dict[str, Any] = {"n_bytes": len(CONTENT), "sha256": SHA256}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def file_server() -> Iterator[Server]:
    with serving(Server(CONTENT)) as server:
        yield server


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data" / "file.txt"


def refusal(file_server: Server, target: Path, **known: Any) -> str:
    """The words of a refusal; under the target's name nothing may be left."""
    with pytest.raises(TextError) as refused:
        fetch(f"{file_server.url}/file.txt", target, **known)
    assert not target.exists()
    return str(refused.value)


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_comes_whole_and_leaves_nothing_else(file_server: Server, target: Path) -> None:
    progress_seen: list[tuple[int, int | None]] = []
    file = fetch(
        f"{file_server.url}/a/file.txt",
        target,
        **KNOWN,
        progress=lambda *now: progress_seen.append(now),
    )
    assert target.read_bytes() == CONTENT
    assert (file.n_bytes, file.sha256, file.checked) == (len(CONTENT), SHA256, "published")
    assert not file.was_there
    assert left_in(target.parent) == {"file.txt"}
    assert progress_seen[0] == (0, len(CONTENT))
    assert progress_seen[-1] == (len(CONTENT), len(CONTENT))
    assert file_server.paths == ["/a/file.txt"]


def test_a_file_that_is_there_is_not_loaded_again(file_server: Server, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(CONTENT)
    assert fetch(f"{file_server.url}/file.txt", target, **KNOWN).was_there
    assert file_server.paths == []


@pytest.mark.parametrize("other", [CONTENT[:-1], b"x" + CONTENT[1:], b""])
def test_another_file_of_that_name_is_refused_and_left_alone(
    other: bytes, file_server: Server, target: Path
) -> None:
    target.parent.mkdir()
    target.write_bytes(other)
    with pytest.raises(TextError, match=r"exists and is another file.*--to"):
        fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == other


def test_a_file_that_nothing_is_known_of_cannot_be_taken_for_whole(target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(CONTENT)
    with pytest.raises(TextError, match="there is no checksum to compare it with"):
        find_file(target, n_bytes=None, sha256=None)
    found_file = find_file(target, n_bytes=len(CONTENT), sha256=None)
    assert found_file is not None
    assert found_file.checked is None


# -- continuing


def leave(target: Path, content: bytes) -> None:
    """What a killed download left."""
    left = Partial(target, ("content", "version"))
    (left.path / "content").write_bytes(content)
    (left.path / "version").write_text('"one"')
    left.release()


def test_a_cut_download_is_named_kept_and_gone_on_with(file_server: Server, target: Path) -> None:
    file_server.cuts = [300_000]
    message = refusal(file_server, target, **KNOWN)
    assert "300,000 of 1,048,576 bytes" in message
    assert "the same command continues from there" in message
    assert {path.name for path in (target.parent / "file.txt.partial").iterdir()} >= {
        "content",
        "version",
    }
    bytes_seen: list[int] = []
    fetch(
        f"{file_server.url}/file.txt", target, **KNOWN, progress=lambda n, _: bytes_seen.append(n)
    )
    assert target.read_bytes() == CONTENT
    assert (file_server.asked[-1]["range"], file_server.asked[-1]["if-range"]) == (
        "bytes=300000-",
        '"one"',
    )
    assert file_server.sent == len(CONTENT)  # not a byte twice
    assert bytes_seen[0] == 300_000
    assert left_in(target.parent) == {"file.txt"}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(0, 5000), max_size=4),
    size=st.integers(1, 6000),
    ranges=st.booleans(),
    length=st.booleans(),
    known=st.booleans(),
)
def test_wherever_it_is_cut_the_file_is_whole_in_the_end(
    cuts: list[int],
    size: int,
    ranges: bool,
    length: bool,
    known: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    content = CONTENT[-size:]
    sha256 = hashlib.sha256(content).hexdigest()
    place = tmp_path_factory.mktemp("cut") / "file.txt"
    length = length or not known  # where nobody says a size, an end is an end
    with serving(Server(content, cuts=list(cuts), ranges=ranges, length=length)) as server:
        for _ in range(len(cuts) + 1):
            try:
                fetch(
                    f"{server.url}/file.txt",
                    place,
                    n_bytes=size if known else None,
                    sha256=sha256 if known else None,
                )
                break
            except TextError:
                assert not place.exists()
    assert place.read_bytes() == content


def test_a_server_without_ranges_starts_again(file_server: Server, target: Path) -> None:
    file_server.cuts, file_server.ranges = [300_000], False
    refusal(file_server, target, **KNOWN)
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == CONTENT
    assert file_server.sent == 300_000 + len(CONTENT)


@pytest.mark.parametrize("ifs", [True, False], ids=["heeds If-Range", "ignores If-Range"])
def test_two_versions_of_a_file_are_never_joined(
    ifs: bool, file_server: Server, target: Path
) -> None:
    file_server.cuts = [300_000]
    refusal(file_server, target)
    new = CONTENT[::-1]
    file_server.content, file_server.etag, file_server.ifs = new, '"two"', ifs
    fetch(f"{file_server.url}/file.txt", target)
    assert target.read_bytes() == new


@pytest.mark.parametrize(
    ("etag", "modified", "resumed"),
    [
        (None, "Sat, 21 Nov 2026 10:00:00 GMT", True),
        ('W/"weak"', "Sat, 21 Nov 2026 10:00:00 GMT", True),
        ('W/"weak"', None, False),
        (None, None, False),
    ],
)
def test_only_a_version_with_a_name_is_gone_on_with(
    etag: str | None, modified: str | None, resumed: bool, file_server: Server, target: Path
) -> None:
    file_server.cuts, file_server.etag, file_server.modified = [300_000], etag, modified
    refusal(file_server, target, **KNOWN)
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == CONTENT
    assert ("range" in file_server.asked[-1]) is resumed
    assert file_server.asked[-1].get("if-range") == (modified if resumed else None)


def test_a_download_that_was_complete_but_not_yet_renamed_is_taken(
    file_server: Server, target: Path
) -> None:
    leave(target, CONTENT)
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == CONTENT
    assert file_server.sent == 0


def test_more_than_there_can_be_is_thrown_away(file_server: Server, target: Path) -> None:
    leave(target, CONTENT + b"x")
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == CONTENT


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_a_download_that_was_killed_is_gone_on_with(file_server: Server, target: Path) -> None:
    file_server.cuts, file_server.hang = [600_000], threading.Event()
    words = (
        "import sys; from pathlib import Path; from pellucid.datasets import fetch; "
        "fetch(sys.argv[1], Path(sys.argv[2]))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", words, f"{file_server.url}/file.txt", str(target)]
    )
    partial = target.with_name("file.txt.partial") / "content"
    deadline = time.monotonic() + 30
    while not (partial.exists() and partial.stat().st_size > 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not target.exists()
    n_bytes = partial.stat().st_size
    assert 0 < n_bytes <= 600_000
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == CONTENT
    assert file_server.asked[-1]["range"] == f"bytes={n_bytes}-"


def test_two_downloads_of_one_file_are_not_mixed(file_server: Server, target: Path) -> None:
    partial = Partial(target, ("content", "version"))
    assert "another process is downloading" in refusal(file_server, target, **KNOWN)
    partial.remove()
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)


# -- refusals


def test_wrong_bytes_are_refused_and_removed(file_server: Server, target: Path) -> None:
    file_server.content = b"x" + CONTENT[1:]
    message = refusal(file_server, target, **KNOWN)
    assert SHA256 in message
    assert "--from" in message
    assert not target.parent.exists()  # nothing is left, not even the folder that was made


def test_a_file_of_another_size_is_refused_before_it_is_loaded(
    file_server: Server, target: Path
) -> None:
    file_server.content = CONTENT + b"x"
    message = refusal(file_server, target, **KNOWN)
    assert "bytes 1048576 expected, but the server says 1048577" in message
    assert not target.parent.exists()


@pytest.mark.parametrize("known", [KNOWN, {}], ids=["known", "unknown"])
@pytest.mark.parametrize("length", [True, False])
def test_an_empty_file_is_refused(
    known: dict[str, Any], length: bool, file_server: Server, target: Path
) -> None:
    file_server.content, file_server.length = b"", length
    message = refusal(file_server, target, **known)
    assert "is empty" in message or "broke after 0 of" in message


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "text/plain"])
def test_a_web_page_is_no_file_and_costs_nothing_that_has_come(
    kind: str, file_server: Server, target: Path
) -> None:
    file_server.cuts = [300_000]
    refusal(file_server, target, **KNOWN)
    page = b"<!DOCTYPE html><title>Please sign in</title>"
    file_server.content, file_server.headers, file_server.etag = page, {"Content-Type": kind}, None
    message = refusal(file_server, target, **KNOWN)
    assert "is a web page" in message or "another file" in message
    partial = target.with_name("file.txt.partial") / "content"
    assert partial.stat().st_size == 300_000
    if kind == "text/plain":
        assert "is a web page" in refusal(file_server, target.with_name("unknown.txt"))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "404 Not Found: the file does not exist"),
        (410, "the file does not exist"),
        (401, "requires a login"),
        (403, "requires a login"),
        (429, "try again later"),
        (500, "500 Internal Server Error; the downloaded bytes stay: try again later"),
        (503, "try again later"),
    ],
)
def test_what_the_server_refuses_is_said_with_its_number(
    status: int, words: str, file_server: Server, target: Path
) -> None:
    file_server.status = status
    message = refusal(file_server, target, **KNOWN)
    assert words in message
    assert str(status) in message
    assert not target.parent.exists()


def test_a_server_that_is_not_there_is_named(target: Path) -> None:
    with pytest.raises(TextError, match=r"cannot be reached .*[Rr]efused.*--from"):
        fetch("http://127.0.0.1:9/file.txt", target, **KNOWN)
    with pytest.raises(TextError, match="cannot be reached"):
        fetch("http://no such host/file.txt", target, **KNOWN)
    assert not target.parent.exists()


def test_a_server_that_falls_silent_is_not_waited_for_for_ever(
    file_server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_PATIENCE", 0.2)
    file_server.cuts, file_server.hang = [300_000], threading.Event()
    assert "broke (timed out)" in refusal(file_server, target, **KNOWN)
    file_server.hang.set()
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == CONTENT


def test_an_answer_that_was_compressed_unasked_is_refused(
    file_server: Server, target: Path
) -> None:
    file_server.headers = {"Content-Encoding": "gzip"}
    assert "as gzip, which pellucid did not request" in refusal(file_server, target)
    assert file_server.asked[0]["accept-encoding"] == "identity"


def test_a_file_that_does_not_fit_is_refused_before_it_is_loaded(
    file_server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**6, 0, 10**6))
    message = refusal(file_server, target, **KNOWN)
    assert "1,048,576 bytes are missing, and the disk has 1,000,000 left" in message


def test_a_disk_that_fills_up_is_named_and_what_came_is_kept(
    file_server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert "the disk is full; make room" in refusal(file_server, target, **KNOWN)
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == CONTENT
    assert file_server.sent == len(CONTENT)


def test_a_folder_that_cannot_be_made_is_named(file_server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TextError, match=r"cannot be written: .*--to"):
        fetch(f"{file_server.url}/file.txt", tmp_path / "file" / "deep" / "file.txt", **KNOWN)


# -- what the server says of the file


def linked(sha256: str, size: int) -> dict[str, str]:
    return {"X-Linked-ETag": f'"{sha256}"', "X-Linked-Size": str(size)}


def test_without_a_published_checksum_the_servers_is_taken_and_written_down(
    file_server: Server, target: Path
) -> None:
    file_server.redirect = linked(SHA256, len(CONTENT))
    file = fetch(f"{file_server.url}/file.txt", target)
    assert file.checked == "server"
    assert file_server.paths == ["/file.txt", "/elsewhere"]
    checksum_file = target.with_name("file.txt.sha256")
    assert checksum_file.read_text() == f"{SHA256}  file.txt\n"
    known_file = find_file(target, n_bytes=None, sha256=None)
    assert known_file is not None
    assert known_file.checked == "earlier"
    target.write_bytes(CONTENT[1:])
    with pytest.raises(TextError, match="is another file"):
        find_file(target, n_bytes=None, sha256=None)


def test_bytes_that_are_not_those_the_server_spoke_of_are_refused(
    file_server: Server, target: Path
) -> None:
    file_server.redirect = linked("0" * 64, len(CONTENT))
    assert "0" * 64 in refusal(file_server, target)
    assert "the SHA-256" in refusal(file_server, target, **KNOWN)
    file_server.redirect = linked(SHA256, 17)
    assert "bytes 1048576 expected, but the server says 17" in refusal(file_server, target)


def test_where_nobody_gives_a_checksum_it_is_counted_and_written_down(
    file_server: Server, target: Path
) -> None:
    file_server.length, file_server.redirect = False, {"X-Linked-ETag": '"not a hash"'}
    file = fetch(f"{file_server.url}/file.txt", target)
    assert (file.checked, file.sha256) == (None, SHA256)
    assert target.with_name("file.txt.sha256").read_text().startswith(SHA256)


def test_a_way_that_leaves_https_is_not_followed(file_server: Server, target: Path) -> None:
    file_server.redirect = {"Location": "ftp://127.0.0.1/file.txt"}
    file_server.url, url = "ftp://127.0.0.1", file_server.url
    with pytest.raises(TextError, match="not https, so pellucid does not follow it"):
        fetch(f"{url}/file.txt", target)
    file_server.url = url
    redirects = server._Redirects("https://example.org/file.txt")
    request = server.urllib.request.Request("https://example.org/file.txt")
    with pytest.raises(TextError, match="not https"):
        redirects.redirect_request(request, None, 302, "", Message(), "http://example.org/file.txt")
    onward = redirects.redirect_request(request, None, 302, "", Message(), "https://example.net/f")
    assert onward is not None


def test_a_part_that_does_not_say_which_is_refused(file_server: Server, target: Path) -> None:
    file_server.cuts = [300_000]
    refusal(file_server, target, **KNOWN)
    file_server.headers = {"Content-Range": "bytes what"}
    assert "without saying which" in refusal(file_server, target, **KNOWN)
    file_server.headers = {"Content-Range": f"bytes 7-{len(CONTENT) - 1}/{len(CONTENT)}"}
    # not the part that was asked for: begun again
    fetch(f"{file_server.url}/file.txt", target, **KNOWN)
    assert target.read_bytes() == CONTENT


def test_blocks_are_read_in_pieces_and_not_all_at_once() -> None:
    assert download._BLOCK <= 2**20
