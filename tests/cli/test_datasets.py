"""`pellucid data list` and `get`: all facts first, questions before large downloads, and JSON."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.cli.verbs import datasets as verb
from pellucid.datasets import DATASETS, Dataset, Part
from support.server import Server, serving
from support.tiny import TEXT, TINY

CONTENT = (TEXT * 40).encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def dataset_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """A server, and the dataset `tiny` on it; the folder the command runs in is an empty one."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("PELLUCID_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    put(monkeypatch)
    with serving(Server(CONTENT)) as server:
        yield server


def put(monkeypatch: pytest.MonkeyPatch, n_bytes: int | None = len(CONTENT)) -> None:
    tiny = Dataset(
        description="a fox and a cat",
        licence="public domain",
        base="https://example.org/deep",
        parts=(Part(name="fox.txt", n_bytes=n_bytes, sha256=SHA256 if n_bytes else None),),
        train="fox.txt",
    )
    monkeypatch.setitem(DATASETS, "tiny", tiny)  # type: ignore[arg-type]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["data", *words])
    printed, errors = capsys.readouterr()
    return code, printed, " ".join(errors.split())


def test_everything_is_said_before_anything_is_loaded_and_the_command_after(
    dataset_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = run(capsys, "get", "tiny", "--from", dataset_server.url)
    assert code == 0
    assert Path("data/tiny/fox.txt").read_bytes() == CONTENT
    lines = printed.splitlines()
    assert lines[:6] == [
        "tiny: a fox and a cat",
        "licence  public domain",
        f"from     {dataset_server.url}/deep/fox.txt",
        "to       data/tiny/fox.txt",
        f"size     {len(CONTENT):,} bytes ({len(CONTENT) / 1000:.1f} kB)",
        f"sha256   {SHA256}",
    ]
    assert "data/tiny/fox.txt is complete: its SHA-256 is the published one" in lines
    assert lines[-1] == "    pellucid train data/tiny/fox.txt"
    assert "\x1b" not in printed
    assert "\r" not in printed
    code, printed, _ = run(capsys, "get", "tiny", "--from", dataset_server.url)
    assert code == 0
    assert "data/tiny/fox.txt is already complete" in printed
    assert len(dataset_server.asked) == 1


def test_the_command_that_is_said_afterwards_trains(
    dataset_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    _, printed, _ = run(capsys, "get", "tiny", "--from", dataset_server.url, "--to", "a b")
    words = shlex.split(printed.splitlines()[-1])
    assert words == ["pellucid", "train", "a b/fox.txt"]
    settings = [f"--set={setting}" for setting in TINY]
    assert main([*words[1:], "--steps=1", "--out=run", "--json", *settings]) == 0


def test_a_table_is_trained_on_with_its_field(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dataset_server: Server
) -> None:
    part = Part(name="t.parquet", n_bytes=len(CONTENT), sha256=SHA256)
    table = Dataset(
        description="a table",
        licence="none",
        base="https://example.org",
        parts=(part,),
        train="t.parquet",
        field="text",
    )
    monkeypatch.setitem(DATASETS, "table", table)  # type: ignore[arg-type]
    monkeypatch.setattr(verb, "find_spec", lambda name: None)
    _, printed, _ = run(capsys, "get", "table", "--from", dataset_server.url)
    assert "    pellucid train data/table/t.parquet --field text\n" in printed
    assert "pip install '.[parquet]'" in printed


def test_json_holds_what_came(
    dataset_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PELLUCID_MIRROR", dataset_server.url)
    code, printed, err = run(capsys, "get", "tiny", "--json")
    assert (code, err) == (0, "")
    result = json.loads(printed)
    assert result["train"] == "pellucid train data/tiny/fox.txt"
    assert result["files"] == [
        {
            "path": str(Path("data/tiny/fox.txt")),
            "n_bytes": len(CONTENT),
            "sha256": SHA256,
            "checked": "published",
            "was_there": False,
        }
    ]


def test_a_download_says_how_far_it_is_in_plain_lines(
    dataset_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset_server.cuts = [len(CONTENT) // 2]
    code, printed, err = run(capsys, "get", "tiny", "--from", dataset_server.url)
    assert code == 2
    assert "the connection broke after" in err
    code, printed, _ = run(capsys, "get", "tiny", "--from", dataset_server.url)
    assert code == 0
    assert "fox.txt: continuing after" in printed
    assert "100%" in printed


def test_a_missing_checksum_is_said_in_plain_words(
    dataset_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(monkeypatch, n_bytes=None)
    code, printed, err = run(capsys, "get", "tiny", "--from", dataset_server.url)
    assert code == 2  # nobody knows how large it is, and nobody is there to ask
    assert "an unknown number of bytes" in err
    assert "--yes" in err
    code, printed, _ = run(capsys, "get", "tiny", "--from", dataset_server.url, "--yes")
    assert code == 0
    assert "sha256   not known for this file" in printed
    assert f"no checksum is published; computed: {SHA256}" in printed
    assert SHA256 in Path("data/tiny/fox.txt.sha256").read_text()


@pytest.mark.parametrize(
    ("answer", "code"), [("y", 0), ("YES ", 0), ("", 130), ("n", 130), (None, 130)]
)
def test_much_is_asked_for_on_a_terminal(
    answer: str | None,
    code: int,
    dataset_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def reply(question: str) -> str:
        assert question == f"download {len(CONTENT) / 1000:.1f} kB? [y/N] "
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr(verb, "_ASK_ABOVE", 100)
    monkeypatch.setattr("builtins.input", reply)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert run(capsys, "get", "tiny", "--from", dataset_server.url)[0] == code
    assert Path("data").exists() is (code == 0)


def test_much_is_refused_where_nobody_can_be_asked(
    dataset_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "_ASK_ABOVE", 100)
    code, printed, _ = run(capsys, "get", "tiny", "--from", dataset_server.url, "--json")
    assert code == 2
    assert "pass --yes" in json.loads(printed)["message"]
    assert dataset_server.asked == []
    assert run(capsys, "get", "tiny", "--from", dataset_server.url, "--json", "--yes")[0] == 0


@pytest.mark.parametrize(
    "words", [("get", "tinny"), ("get", "tiny", "--from", "example.org"), ("get", "tiny")]
)
def test_bad_words_are_refused_and_nothing_is_made(
    words: tuple[str, ...],
    dataset_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PELLUCID_MIRROR", "http://127.0.0.1:9")
    code, _, err = run(capsys, *words)
    assert code == 2
    assert err.startswith("error: ")
    assert not Path("data").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to a child")
def test_ctrl_c_keeps_what_has_come(dataset_server: Server, tmp_path: Path) -> None:
    dataset_server.content = CONTENT * 40
    dataset_server.cuts, dataset_server.hang = [600_000], threading.Event()
    words = (
        # a shell's background jobs ignore Ctrl-C, and so would this process
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sys; from pellucid.cli import main; from pellucid.datasets import *\n"
        "DATASETS['tiny'] = Dataset(description='x', licence='x', base='https://example.org',"
        " train='a', parts=(Part(name='a', n_bytes=int(sys.argv[2]), sha256=None),))\n"
        "sys.exit(main(['data', 'get', 'tiny', '--from', sys.argv[1]]))"
    )
    size = str(len(dataset_server.content))
    child = subprocess.Popen(
        [sys.executable, "-c", words, dataset_server.url, size], stderr=subprocess.PIPE, text=True
    )
    partial = tmp_path / "data" / "tiny" / "a.partial" / "content"
    deadline = time.monotonic() + 30
    while not (partial.exists() and partial.stat().st_size > 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert child.returncode == 130
    assert "the same command continues the download" in " ".join(err.split())
    assert partial.stat().st_size > 0


def test_the_list_fits_and_names_every_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, "list")
    assert code == 0
    assert all(name in printed for name in DATASETS)
    assert max(map(len, printed.splitlines())) <= 80
    _, printed, _ = run(capsys, "list", "--json")
    assert json.loads(printed)["wikitext-2"]["parts"][1]["n_bytes"] == 1_121_681
