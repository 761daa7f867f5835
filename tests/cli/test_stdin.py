"""Standard input that never ends is refused in words, and so is a library's panic."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from pellucid.cli.flags import read_texts
from pellucid.data import streams
from pellucid.errors import TextError

DEVICE = "is a device: expected a file, or a pipe that ends"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_a_device_on_standard_input_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/zero", encoding="utf-8") as zeros:
        monkeypatch.setattr(sys, "stdin", zeros)
        with pytest.raises(TextError, match=f"the prompt on standard input {DEVICE}"):
            read_texts.read_stdin("prompt")
        with pytest.raises(TextError, match=f"standard input {DEVICE}"):
            streams.Piped().opened()


def test_the_null_device_is_an_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/null", encoding="utf-8") as null:
        monkeypatch.setattr(sys, "stdin", null)
        assert read_texts.read_stdin("prompt") == ""


def test_a_text_longer_than_is_held_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_texts, "LARGE", 10)
    monkeypatch.setattr(sys, "stdin", io.StringIO("x" * 10))
    assert read_texts.read_stdin("text") == "x" * 10
    monkeypatch.setattr(sys, "stdin", io.StringIO("x" * 11))
    with pytest.raises(TextError, match="longer than 10 characters"):
        read_texts.read_stdin("text")


def test_a_pipe_without_an_end_is_refused_before_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "_LEFT_FREE", 2**62)
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(endless.stdout))
        with pytest.raises(TextError, match=r"fills .*, where pellucid stores it"):
            streams.Piped().opened()
        endless.kill()


def test_a_panic_of_the_tokenizers_library_is_a_refusal(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class PanicException(BaseException):
        pass

    def panic(*_: Any, **__: Any) -> None:
        raise PanicException("called `Option::unwrap()` on a `None` value")

    monkeypatch.setattr("pellucid.runs.load", panic)
    assert main(["score", str(trained), "a text"]) == 2
    assert "the library of the tokenizer failed" in capsys.readouterr().err
