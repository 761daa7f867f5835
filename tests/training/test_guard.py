"""A part that raises is reported once and switched off; what ends a program passes."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from pellucid.training.event_records import from_record
from pellucid.training.guard import Guard, error_line, guarded, log_error

HERE = re.escape(__file__)


def fail() -> None:
    raise ValueError("first line\nsecond line")


def caught(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as info:  # noqa: PT011
        call()
    return info.value


def test_a_part_that_raises_is_reported_and_not_called_again() -> None:
    reported: list[str] = []
    guard = Guard(lambda part, error: reported.append(f"{part}: {type(error).__name__}"))
    assert guard("double", lambda n: 2 * n, 4) == 8
    assert guard("chart", fail) is None
    assert guard("chart", lambda: 5) is None
    assert guard("double", lambda n: 2 * n, n=3) == 6
    assert reported == ["chart: ValueError"]
    assert guard.off.keys() == {"chart"}
    assert guard.off["chart"].startswith("ValueError: first line (")


def test_an_error_is_one_line_with_its_kind_its_message_and_its_place() -> None:
    line = fail.__code__.co_firstlineno + 1
    assert error_line(caught(fail)) == f"ValueError: first line ({__file__}:{line})"
    assert error_line(ValueError()) == "ValueError"
    assert error_line(ValueError("x" * 500)) == "ValueError: " + "x" * 200


def test_an_error_below_pellucids_code_says_where_that_code_called() -> None:
    class Watch:
        guard = Guard(reraised=(ValueError,))

        @guarded("part")
        def look(self) -> None:
            fail()

    last, caller = error_line(caught(Watch().look)).removesuffix(")").split(", called from ")
    assert last.startswith("ValueError: first line (")
    assert re.search(rf"{HERE}:\d+$", last)
    assert re.search(r"guard\.py:\d+$", caller)
    inner_line = error_line(caught(lambda: from_record({})))
    assert "called from" not in inner_line


def test_a_decorated_method_runs_under_the_guard_of_its_object() -> None:
    class Watch:
        def __init__(self) -> None:
            self.guard = Guard(lambda part, error: None)

        @guarded("sum")
        def add(self, a: int, *, b: int) -> int:
            return a + b

    watch = Watch()
    assert watch.add(1, b=2) == 3
    assert watch.add(1, b="x") is None  # type: ignore[arg-type]
    assert watch.add(1, b=2) is None
    assert Watch().add(1, b=2) == 3


def test_the_log_says_which_part_is_off_and_where_the_traceback_is(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with caplog.at_level(logging.WARNING):
        Guard()("attention", fail)
    assert "pellucid no longer watches attention: ValueError: first line" in caplog.text
    (file,) = tmp_path.iterdir()
    assert f"The traceback is in {file}" in caplog.text
    assert file.read_text(encoding="utf-8").startswith("attention\npellucid ")
    assert "second line" in file.read_text(encoding="utf-8")


def test_without_a_place_for_a_file_the_traceback_is_in_the_log(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with caplog.at_level(logging.WARNING):
        log_error("attention", caught(fail))
    assert "The traceback:\nTraceback (most recent call last)" in caplog.text


class HandlerObject:
    """A handler that is an object with `__call__`."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        raise ValueError("time is up")


def handle(number: int, frame: FrameType | None) -> None:
    raise ValueError("time is up")


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals")
@pytest.mark.parametrize("handler", [handle, HandlerObject()], ids=["function", "object"])
def test_what_a_signal_handler_raises_passes_through_the_guard(
    handler: Callable[[int, FrameType | None], None],
) -> None:
    guard = Guard(lambda part, error: None)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(ValueError, match="time is up"):
            guard("part", lambda: os.kill(os.getpid(), signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not guard.off
