from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pellucid import config
from pellucid.data import HashCache, cache, checksums
from pellucid.disk import PARTIAL, FolderInUse, Partial
from pellucid.errors import RunError, TextError
from pellucid.runs.prepare_text import ready_text
from pellucid.saved_runs.folder import preparing, refuse_taken
from support.nightly import sampled
from support.tiny import train_tiny

TEXT = config.Text(
    corpus=config.Files(paths=("never",)),
    tokenizer=config.Characters(),
    held_out=0.2,
    drop_duplicates=False,
)


class Prepared:
    """Prepares the same corpus on each call, and returns the messages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "data.jsonl"
        self.write(40)

    def write(self, n: int) -> None:
        rows = (json.dumps({"t": f"this is the text number {i}"}) + "\n" for i in range(n))
        self.file.write_text("".join(rows), "utf-8")

    def __call__(self, name: str, held_out: float = 0.2) -> str:
        messages: list[str] = []
        text = config.Text(
            corpus=config.Files(paths=(str(self.file),), field="t"),
            tokenizer=config.Characters(),
            held_out=held_out,
            drop_duplicates=False,
        )
        tokenizer, fill = ready_text(text, messages.append)
        fill(self.folder / name / "text")
        tokenizer.save(self.folder / name / "tokenizer.json")
        return "; ".join(messages)

    def contents(self, name: str) -> dict[str, bytes]:
        files = (p for p in (self.folder / name).rglob("*") if p.is_file())
        return {p.name: p.read_bytes() for p in files}

    @property
    def entries(self) -> list[Path]:
        every = sorted((self.folder / "cache" / "text").glob("*"))
        return [entry for entry in every if entry.suffix != PARTIAL]


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    return Prepared(tmp_path)


def test_same_text_is_prepared_once_and_is_the_same_afterwards(prepared: Prepared) -> None:
    assert "encoding" in prepared("one")
    message = prepared("two")
    assert "taking the prepared text" in message
    assert "encoding" not in message
    assert prepared.contents("one") == prepared.contents("two")
    assert len(prepared.entries) == 1


def test_other_content_or_config_is_prepared_anew(prepared: Prepared) -> None:
    prepared("one")
    assert "encoding" in prepared("two", held_out=0.3)
    prepared.write(41)
    assert "encoding" in prepared("three")
    assert len(prepared.entries) == 3


def test_damaged_entry_is_said_and_prepared_anew(prepared: Prepared) -> None:
    prepared("one")
    file = prepared.entries[0] / "text" / "train.npy"
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    message = prepared("two")
    assert "preparing the text anew" in message
    assert "train.npy does not match its checksum" in message
    assert prepared.contents("one") == prepared.contents("two")
    assert "taking the prepared text" in prepared("three")


def test_run_keeps_its_text_when_the_cache_is_emptied(prepared: Prepared) -> None:
    prepared("one")
    prepared("two")
    before = prepared.contents("two")
    cache.drop(prepared.entries[0])
    assert prepared.contents("two") == before


def test_interrupted_keeping_leaves_no_entry(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pulled_plug(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pellucid.tokenizers.tokenizer.Tokenizer.save", pulled_plug)
        with pytest.raises(KeyboardInterrupt):
            prepared("one")
    assert prepared.entries == []
    assert "encoding" in prepared("two")


def test_cache_that_cannot_be_written_is_said_and_stops_nothing(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prepared.folder / "file").write_text("in the way")
    monkeypatch.setenv("PELLUCID_CACHE", str(prepared.folder / "file"))
    assert "not keeping the prepared text for later" in prepared("one")
    assert "train.npy" in prepared.contents("one")


def test_disk_without_hard_links_gets_copies(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*args: object) -> None:
        raise OSError("no hard links")

    monkeypatch.setattr(os, "link", unsupported)
    prepared("one")
    prepared("two")
    assert prepared.contents("one") == prepared.contents("two")


def test_off_keeps_nothing(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", "off")
    for name in ("one", "two"):
        assert "encoding" in prepared(name)
    assert not (prepared.folder / "cache").exists()


def test_path_that_does_not_exist_is_refused_with_a_cache_too(prepared: Prepared) -> None:
    with pytest.raises(TextError, match="never does not exist"):
        ready_text(TEXT, lambda _: None)


def test_large_file_is_hashed_again_only_where_it_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "_LARGE", 4)
    file, read = tmp_path / "a", list[Path]()
    real = checksums.file_sha256

    def counting(path: Path) -> str:
        read.append(path)
        return real(path)

    monkeypatch.setattr(checksums, "file_sha256", counting)

    def hash_pieces() -> str:
        hashes = HashCache(tmp_path / "hashes.json")
        digest = hashes.sha256(file)
        hashes.save()
        return digest

    file.write_bytes(b"one text")
    first = hash_pieces()
    assert hash_pieces() == first
    assert len(read) == 2  # it was changed a moment ago, and could be changed within that moment
    monkeypatch.setattr(checksums, "_SETTLE_SECONDS", -1)
    assert [hash_pieces() for _ in range(3)] == [first] * 3
    assert len(read) == 3
    stamp = file.stat().st_mtime_ns
    file.write_bytes(b"two text")
    os.utime(file, ns=(stamp, stamp))  # the same size and the same time: ctime tells
    assert hash_pieces() != first
    (tmp_path / "hashes.json").write_text("{", "utf-8")
    assert hash_pieces() != first
    file.write_bytes(b"abc")
    hash_pieces()
    hash_pieces()
    assert len(read) == 7  # small ones are read every time


def test_what_was_left_unfinished_for_a_day_is_taken_away(prepared: Prepared) -> None:
    place = prepared.folder / "cache" / "text"
    old, fresh, locked = (
        Partial(place / name, ("text/train.npy",)) for name in ("old", "fresh", "held")
    )
    own_folder = place / "notes.partial"
    for folder in (old.path, fresh.path, locked.path, own_folder):
        (folder / "text").mkdir(parents=True)
        (folder / "text" / "train.npy").write_bytes(b"half")
    long_ago = time.time() - 25 * 3600
    for folder in (old.path, locked.path, own_folder):
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (long_ago, long_ago))
    old.release()
    fresh.release()
    prepared("one")
    assert sorted(path.name for path in place.glob("*.partial")) == [
        "fresh.partial",
        "held.partial",
        "notes.partial",
    ]
    assert (own_folder / "text" / "train.npy").read_bytes() == b"half"
    locked.release()


def test_text_that_another_process_prepares_is_prepared_beside_it(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise FolderInUse("held")

    with monkeypatch.context() as patch:
        patch.setattr(cache, "Workshop", refuse)
        assert "another process prepares the same text" in prepared("one")
    assert list((prepared.folder / "cache" / "text").iterdir()) == []
    prepared("two")
    assert prepared.contents("one") == prepared.contents("two")


def test_text_that_changes_while_it_is_read_is_not_kept(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = iter(["one key", "another"])
    monkeypatch.setattr("pellucid.runs.prepare_text.fingerprint", lambda *_: next(keys))
    prepared("one")
    assert prepared.entries == []
    assert "train.npy" in prepared.contents("one")


CHILD = """
import sys
from pathlib import Path
from pellucid import config
from pellucid.runs.prepare_text import ready_text
from pellucid.data import array_writer

array_writer.PART = 20_000
text = config.Text(
    corpus=config.Files(paths=(sys.argv[1],)),
    tokenizer=config.BytePairs(vocab_size=300),
    held_out=0.1,
    drop_duplicates=False,
)
place = Path(sys.argv[2])
tokenizer, fill = ready_text(text, lambda what: print(what, flush=True))
fill(place / "text")
tokenizer.save(place / "tokenizer.json")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("cached", sampled([True, False], 2))
def test_process_that_is_killed_while_encoding_is_gone_on_with(
    tmp_path: Path, cached: bool
) -> None:
    text = tmp_path / "long.txt"
    text.write_text("".join(f"line {i} of a long text, {i * i}\n" for i in range(60_000)), "utf-8")

    def start(name: str, cache: str = "cache") -> subprocess.Popen[str]:
        environment = dict(os.environ)
        environment["PELLUCID_CACHE"] = str(tmp_path / cache) if cached else "off"
        words = [sys.executable, "-c", CHILD, str(text), str(tmp_path / name)]
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)

    def journals() -> list[Path]:
        # files come and go meanwhile, which `rglob` does not forgive
        walk = os.walk(tmp_path)
        return [Path(folder, "parts.jsonl") for folder, _, names in walk if "parts.jsonl" in names]

    with start("one") as killed:
        deadline = time.monotonic() + 120
        while not any(len(file.read_text("utf-8")) > 1000 for file in journals()):
            assert killed.poll() is None, "it was done before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        killed.send_signal(signal.SIGKILL)
    (journal,) = journals()
    first_inode = journal.with_name("train.npy").stat().st_ino
    for name, store in (("one", "cache"), ("undisturbed", "another")):
        with start(name, store) as process:
            process.communicate()
        assert process.returncode == 0
    first_run, preserve_state = tmp_path / "one", tmp_path / "undisturbed"
    # the very file that the first process had begun
    assert (first_run / "text" / "train.npy").stat().st_ino == first_inode
    for file in (*(preserve_state / "text").iterdir(), preserve_state / "tokenizer.json"):
        assert (first_run / file.relative_to(preserve_state)).read_bytes() == file.read_bytes()
    assert journals() == []
    assert [*tmp_path.rglob("*.partial")] == []


def test_run_that_was_killed_before_its_config_was_written_is_begun_again(tmp_path: Path) -> None:
    train_tiny(tmp_path / "whole", steps=4)
    folder = tmp_path / "run"
    killed = preparing(folder)
    _, work = killed.__enter__()
    shutil.copytree(tmp_path / "whole" / "text", work.text)
    shutil.copytree(work.path, tmp_path / "killed")
    killed.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert not work.path.exists()
    (tmp_path / "killed").rename(work.path)  # as a kill leaves it
    train_tiny(folder, steps=4)
    files = [file.name for file in folder.iterdir()]
    assert "config.toml" in files
    assert not any(name.startswith(".pellucid") for name in files)
    assert not work.path.exists()
    with pytest.raises(RunError, match="pellucid train --resume"):
        refuse_taken(folder)


@pytest.mark.skipif(os.name != "posix", reason="this system has no such rights")
def test_text_is_neither_taken_from_nor_kept_in_a_folder_that_others_can_write_to(
    prepared: Prepared,
) -> None:
    prepared("one")
    place = prepared.folder / "cache" / "text"
    before = sorted(place.rglob("*"))
    place.chmod(0o777)
    assert "other users can write to" in prepared("two")
    assert sorted(place.rglob("*")) == before
