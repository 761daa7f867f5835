"""Text at a URL gives the batches of its folder, and a store that fails changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

from pellucid import config
from pellucid.cli import main
from pellucid.data import PreparedData, next_token_batches, open_prepared
from pellucid.data.shards import RemoteTokens
from pellucid.errors import TextError
from pellucid.hub import url_store
from pellucid.runs import RunFolder, prepare_folder, read_events, train
from pellucid.runs.resolve_config import resolve_config
from pellucid.training import Logged
from support.tiny import TINY, write_text

URL = "memory://bucket/prepared"
SHARD = 256
Ranges = list[Any]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(url_store, "_PAUSES", (0.0,) * 3)
    return tmp_path / "cache" / "shards"


@pytest.fixture
def local(tmp_path: Path, cache: Path) -> Iterator[Path]:
    """A prepared folder, which is also at the URL."""
    text = resolve_config([write_text(tmp_path)], settings=["text.tokenizer=Bytes"]).text
    prepare_folder(text, str(tmp_path / "prepared"), shard_bytes=SHARD)
    prepare_folder(text, URL, shard_bytes=SHARD)
    yield tmp_path / "prepared"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def open_remote(local: Path, tmp_path: Path) -> PreparedData:
    """The data as a run has them: its folder without the tokens."""
    folder = tmp_path / "of-a-run"
    folder.mkdir()
    for file in local.iterdir():
        if file.name != "train.npy":
            (folder / file.name).write_bytes(file.read_bytes())
    return open_prepared(folder, verify=True, corpus=config.Prepared(path=URL))


def tokens_of(data: PreparedData) -> RemoteTokens:
    tokens: Any = data.train.tokens
    assert isinstance(tokens, RemoteTokens)
    return tokens


def wait(tokens: RemoteTokens) -> None:
    thread = tokens._ahead
    if thread is not None:
        thread.join(timeout=20)
        assert not thread.is_alive()


def size_of(cache: Path) -> int:
    return sum(file.stat().st_size for file in cache.iterdir())


@pytest.mark.parametrize("bound", [SHARD, 3 * SHARD, 2**20])
def test_batches_are_those_of_the_folder_within_the_bound(
    local: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    monkeypatch.setenv("PELLUCID_SHARD_BYTES", str(bound))
    remote = tokens_of(open_remote(local, tmp_path))
    tokens = open_prepared(local, verify=True).train.tokens
    orders = [next_token_batches(t, context_length=200, seed=3) for t in (tokens, remote)]
    for position in (0, 3, 7, 1000):
        shard_batch, folder_batch = (order.batch(position, 3) for order in orders)
        assert shard_batch.ids.equal(folder_batch.ids)
        assert shard_batch.targets.equal(folder_batch.targets)
        wait(remote)
        assert 0 < size_of(cache) <= bound
    assert remote[5:9].tolist() == tokens[5:9].tolist()


def test_a_rank_reads_and_fetches_the_shards_of_its_own_rows_alone(
    local: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = tokens_of(open_remote(local, tmp_path))
    whole_order = next_token_batches(open_prepared(local).train.tokens, context_length=60, seed=3)
    order = next_token_batches(remote, context_length=60, seed=3)
    fetches: list[Any] = []
    monkeypatch.setattr(remote, "fetch_ahead", fetches.append)
    for position in (0, whole_order.rows_per_epoch - 2):  # the latter reaches into a new epoch
        whole_batch = whole_order.batch(position, 4)
        for first in (0, 2):
            rows = slice(first, first + 2)
            before = set(cache.glob("*"))
            own_batch, n_supervised = order.own_rows(position, 4, rows)
            assert n_supervised == whole_batch.n_supervised
            assert own_batch.ids.equal(whole_batch.ids[rows])
            assert own_batch.targets.equal(whole_batch.targets[rows])
            # two windows of 60 tokens touch at most two shards each
            assert len(set(cache.glob("*")) - before) <= 4 + (cache / ".lock" not in before)
            places = fetches.pop()
            next_tokens = [whole_order.batch(position + 4 * n, 4).ids[rows, 0] for n in range(1, 5)]
            assert remote[places[:, 0]].tolist() == torch.cat(next_tokens).tolist()


def test_the_shards_of_the_next_batches_are_there_before_they_are_read(
    local: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = tokens_of(open_remote(local, tmp_path))
    order = next_token_batches(remote, context_length=100, seed=3)
    order.batch(0, 1)
    wait(remote)
    # requests to the store fail from now on
    monkeypatch.setattr(MemoryFileSystem, "cat_ranges", lambda *_, **__: 1 / 0)
    order._tokens = open_prepared(local).train.tokens
    expected = [order.batch(row, 1).ids for row in range(1, 5)]
    order._tokens = remote
    remote.fetch_ahead = lambda places: None
    for row, ids in enumerate(expected, start=1):
        assert order.batch(row, 1).ids.equal(ids)


def failing(monkeypatch: pytest.MonkeyPatch, spoil: Any) -> list[int]:
    """Let `spoil` change what the store answers; the number of shards in each request."""
    requests: list[int] = []
    real = MemoryFileSystem.cat_ranges

    def cat_ranges(self: Any, paths: Ranges, *more: Any, **options: Any) -> Ranges:
        requests.append(len(paths))
        return spoil(len(requests), real(self, paths, *more, **options))

    monkeypatch.setattr(MemoryFileSystem, "cat_ranges", cat_ranges)
    return requests


def test_only_what_failed_is_asked_for_again(
    local: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(attempt: int, contents: Ranges) -> Ranges:
        if attempt == 1:
            raise TimeoutError("slow down")
        if attempt == 2:  # one fails, one is damaged, one is cut
            return [OSError("reset"), contents[1][::-1], contents[2][:-1], *contents[3:]]
        return contents

    requests = failing(monkeypatch, spoil)
    remote = tokens_of(open_remote(local, tmp_path))
    tokens = open_prepared(local).train.tokens
    assert remote[:].tolist() == tokens.tolist()
    n_shards = -(-tokens.nbytes // SHARD)
    assert requests == [n_shards, n_shards, 3]
    # and a damaged file of the cache is not used by the next process
    file = next(file for file in cache.iterdir() if file.stat().st_size == SHARD)
    file.write_bytes(bytes(SHARD))
    MemoryFileSystem.store.pop("/bucket/prepared/text.json")
    (tmp_path / "again").mkdir()
    assert tokens_of(open_remote(local, tmp_path / "again"))[:].tolist() == tokens.tolist()
    assert requests[3:] == [1]


def test_a_failure_ahead_is_one_message_at_the_next_batch(
    local: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = tokens_of(open_remote(local, tmp_path))
    failing(monkeypatch, lambda _, contents: [content[::-1] for content in contents])
    remote.fetch_ahead(np.arange(300))
    wait(remote)
    with pytest.raises(TextError, match="does not match its checksum: the file is damaged"):
        remote[0:1]


def losses(run: Path) -> list[float]:
    events = read_events(RunFolder(run).metrics)
    return [loss for event in events if isinstance(event, Logged) for loss in event.losses]


def test_losses_are_those_of_the_files_and_of_the_folder(
    local: Path, cache: Path, tmp_path: Path
) -> None:
    def run(name: str, path: str) -> list[float]:
        train([path], out=tmp_path / name, steps=3, settings=TINY, show=False)
        return losses(tmp_path / name)

    remote = run("remote", URL)
    assert not (tmp_path / "remote" / "text" / "train.npy").exists()
    assert len(remote) == 3
    assert remote == run("local", str(local)) == run("files", str(tmp_path / "text.txt"))


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(words) == 2
    return " ".join(capsys.readouterr().err.split())


def test_what_cannot_be_read_is_refused_with_what_to_do(
    local: Path,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def message(url: str, *more: str) -> str:
        folder = str(tmp_path / "refused")
        return refusal(["train", url, "--steps", "1", "--out", folder, *more], capsys)

    assert "pellucid data prepare FILES --out memory://none" in message("memory://none")
    assert "is no URL that the library fsspec knows" in message("nosuch://bucket")
    assert "--set text.held_out=0.05" in message(URL, "--set", "text.held_out=0.2")
    assert "reads one of them alone" in message(URL, str(tmp_path))
    assert "leave the field out" in message(URL, "--field", "text")
    assert "text is encoded already" in refusal(["data", "report", URL], capsys)
    assert "has prepared text already" in refusal(
        ["data", "prepare", str(tmp_path / "text.txt"), "--out", URL], capsys
    )
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "s3fs", None)
        assert 'pip install -U "pellucid[remote]"' in message("s3://bucket/prepared")
    with monkeypatch.context() as patch:
        patch.setenv("PELLUCID_SHARD_BYTES", "100")
        assert "does not hold one shard" in message(URL)
        patch.setenv("PELLUCID_SHARD_BYTES", "all")
        assert "expected a number of bytes" in message(URL)
    with monkeypatch.context() as patch:
        patch.setenv("PELLUCID_CACHE", "off")
        assert "set it to a folder on a disk" in message(URL)

    def refuse(*_: Any, **__: Any) -> bytes:
        raise PermissionError("Access Denied")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "cat_file", refuse)
        assert "check the URL, and the credentials" in message(URL)
    corpus = f'text.corpus={{kind="Prepared",path="{URL}"}}'
    assert "name its tokenizer" in refusal(["train", "--set", corpus, "--steps", "1"], capsys)
    (local / "train.starts.npy").write_bytes(b"other")
    assert "train.starts.npy does not match its checksum" in message(str(local))
    MemoryFileSystem.store["/bucket/prepared/train.npy"].seek(200)
    MemoryFileSystem.store["/bucket/prepared/train.npy"].write(b"other")
    assert "does not match its checksum" in message(URL)
    assert not (tmp_path / "refused").exists()
