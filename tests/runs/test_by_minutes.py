"""A run by minutes: on time, and bit for bit the same given the file of its lengths."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_never_lose_work import assert_same_end

import pellucid
from pellucid import runs
from pellucid.errors import Interrupted, RunError
from pellucid.runs import RunFolder, read_events
from pellucid.runs.rebuild import copy_run
from pellucid.runs.verify import first_and_last, resume_until
from pellucid.saved_runs.load import read_plan
from pellucid.saved_runs.replans import decide_until, read_replans, total_steps
from pellucid.training import Event, Finished, Interrupts, Resumed, StepFinished
from support.tiny import TINY, write_text

SETTINGS = [
    *TINY,
    "text.held_out=0.2",
    "training.checkpoint_every=8",
    "training.keep_checkpoints=3",
]


def train_for(minutes: float, folder: Path, **more: Any) -> None:
    text = write_text(folder.parent / "text")
    pellucid.train(
        [text], out=folder, minutes=minutes, show=False, **{"settings": SETTINGS, **more}
    )


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ten minutes that was stopped after 20 updates."""
    folder, interrupts = tmp_path_factory.mktemp("minutes") / "run", Interrupts()

    def ask(event: Event) -> None:
        interrupts.asked |= isinstance(event, StepFinished) and event.step == 20

    with pytest.raises(Interrupted):
        train_for(10.0, folder, observers=[ask], interrupts=interrupts)
    return folder


@pytest.fixture
def copy(timed: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(timed, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_it_ends_with_its_last_line(tmp_path: Path) -> None:
    train_for(0.02, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    last = read_replans(folder).replans[-1]
    assert last.step == last.total_steps == folder.shelf.steps()[-1]
    assert read_plan(folder).replanned
    before = folder.replans.read_bytes()
    runs.resume(folder.path, show=False)  # it is finished
    assert folder.replans.read_bytes() == before


def test_resumed_from_an_older_checkpoint_it_follows_its_file(timed: Path, copy: RunFolder) -> None:
    before = copy.replans.read_bytes()
    assert read_replans(copy).decided == 20
    with copy.replans.open("ab") as stream:
        stream.write(b'{"step": 99')  # a crash cut the line short: it never took effect
    resume_until(str(copy.shelf.path(8)), 20)
    assert_same_end(timed, copy.path)
    assert copy.replans.read_bytes() == before


def test_past_the_end_of_its_file_it_plans_anew(copy: RunFolder) -> None:
    before = read_replans(copy).replans
    resume_until(str(copy.path), 26)
    replans = read_replans(copy).replans
    assert replans[: len(before)] == before
    assert replans[-1].step == 26
    assert replans[-1].seconds > before[-1].seconds  # the time before the stop counts


@pytest.mark.parametrize("content", ["", None])
def test_a_file_that_has_changed_is_refused(copy: RunFolder, content: str | None) -> None:
    if content is None:
        copy.replans.unlink()
    else:
        copy.replans.write_text(content)
    with pytest.raises(RunError, match=r"replans\.jsonl has changed since the checkpoint"):
        runs.resume(copy.path, show=False)


def test_a_damaged_line_is_refused_by_its_number(copy: RunFolder) -> None:
    lines = copy.replans.read_text().splitlines(keepends=True)
    copy.replans.write_text('{"step": 5, "total_steps": 4}\n' + "".join(lines[1:]))
    with pytest.raises(RunError, match=r"replans\.jsonl, line 1 is damaged"):
        runs.resume(copy.path, show=False)


def test_it_can_get_a_length_in_steps(copy: RunFolder) -> None:
    runs.resume(copy.path, steps=23, show=False)
    assert copy.shelf.steps()[-1] == 23
    (resumed,) = [e for e in read_events(copy.metrics) if isinstance(e, Resumed)]
    assert resumed.total_steps == 23
    assert read_replans(copy).decided == total_steps(copy, read_plan(copy)) == 23


def test_a_proof_of_an_unfinished_run_holds_its_length(timed: Path, tmp_path: Path) -> None:
    # what `verify-resume` does with its copies, without processes of their own
    source = RunFolder(timed)
    start = 8
    unfinished = RunFolder(tmp_path / "unfinished")
    copy_run(source, unfinished, start)
    lines = [line for line in read_replans(source).replans if line.step <= start]
    kept_lines = source.replans.read_text().splitlines(keepends=True)[: len(lines)]
    unfinished.replans.write_text("".join(kept_lines))
    first, end = first_and_last(unfinished, 4)
    assert first == start
    for name, stops in (("straight", [end]), ("stopped", [first + 2, end])):
        copied = RunFolder(tmp_path / name)
        copy_run(unfinished, copied, first)
        decide_until(copied, read_plan(unfinished), end)
        for stop in stops:
            resume_until(str(copied.path), stop)
    assert_same_end(tmp_path / "straight", tmp_path / "stopped")


@contextmanager
def loaded_after(seconds: float, processes: int) -> Generator[None]:
    """After some seconds, other processes take the processor."""
    busy: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        busy.extend(
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
        )

    timer = threading.Timer(seconds, start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.nightly
def test_it_ends_within_three_percent_while_the_machine_gets_busy(tmp_path: Path) -> None:
    events: list[Event] = []
    settings = [*SETTINGS, "training.evaluate_every=200", "training.checkpoint_every=200"]
    with loaded_after(25, 4):
        train_for(1.0, tmp_path / "run", settings=settings, observers=[events.append])
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished.seconds == pytest.approx(60.0, rel=0.03)
