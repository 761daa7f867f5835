"""A tokenizer that is being trained, and the signal that ends it; texts that cannot be read."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid import data
from pellucid.cli import main
from pellucid.tokenizers.training_thread import NAME, feed

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals")
NUMBERS = [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]


def working() -> bool:
    """Whether the library still computes in its thread."""
    return any(thread.name == NAME for thread in threading.enumerate())


def words_without_end(n: int) -> Iterator[str]:
    chance = random.Random(1)
    for _ in range(n):
        yield " ".join("".join(chance.choices("abcdefghij", k=9)) for _ in range(100))


def ended_after(texts: Iterator[str], number: int, was_working: list[bool]) -> Iterator[str]:
    """The texts; a moment after the last one a signal, while the library computes."""
    yield from texts

    def end() -> None:
        was_working.append(working())
        os.kill(os.getpid(), number)

    threading.Timer(0.3, end).start()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_ends_the_training_of_a_tokenizer_in_its_middle(
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    was_working: list[bool] = []
    file = tmp_path / "text.txt"
    file.write_text("\n".join(words_without_end(400)))
    before = data.training_texts
    monkeypatch.setattr(
        data, "training_texts", lambda pieces: ended_after(before(pieces), number, was_working)
    )
    words = ["tokenizer", "train", str(file), "--vocab-size", "60000"]
    assert main([*words, "--out", str(tmp_path / "tokenizer.json")]) == 128 + number
    assert was_working == [True]
    assert working(), "the library was done: nothing was cut short"
    assert f"stopped by {number.name}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [file]


def test_a_signal_while_texts_are_read_ends_the_library_too() -> None:
    texts = iter(["one", "two"])

    def press() -> Iterator[str]:
        yield from texts
        os.kill(os.getpid(), signal.SIGINT)
        yield "three"

    ended = threading.Event()

    def work(texts: Iterator[str]) -> None:
        try:
            list(texts)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        feed(work, press())
    assert ended.wait(20)


def test_every_text_arrives_in_its_order_and_errors_of_either_side_come_through() -> None:
    arrived: list[str] = []
    texts = [f"{n}" * (n % 3000) for n in range(3000)]
    feed(arrived.extend, texts)
    assert arrived == texts

    def unreadable() -> Iterator[str]:
        yield "one"
        raise OSError("unreadable")

    def broken(texts: Iterator[str]) -> None:
        next(texts)
        raise ValueError("broken")

    with pytest.raises(OSError, match="unreadable"):
        feed(arrived.extend, unreadable())
    with pytest.raises(ValueError, match="broken"):
        feed(broken, texts)


def test_in_another_thread_the_library_is_called_as_it_is() -> None:
    names: list[str] = []
    thread = threading.Thread(
        target=feed, args=(lambda texts: names.append(threading.current_thread().name), ["a"]),
        name="mine",
    )  # fmt: skip
    thread.start()
    thread.join()
    assert names == ["mine"]
