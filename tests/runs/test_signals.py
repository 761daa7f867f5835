"""What signals do to a training: before its first step, in its middle, twice, where ignored."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.checkpoints import load
from pellucid.cli import main
from pellucid.display import PlainLines
from pellucid.errors import ExitCode, Interrupted
from pellucid.runs import RunFolder, read_events
from pellucid.training import (
    CheckpointSaved,
    Evaluated,
    Event,
    Interrupts,
    StepFinished,
    events,
)
from support.tiny import TINY, train_tiny, write_text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ALL = (*ENDING, signal.SIGUSR1)
Handling = Callable[[int, signal.Handlers], AbstractContextManager[None]]


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in ALL]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = handlers()
    yield
    assert handlers() == before, "the handlers are not those of before"


@contextmanager
def handled(number: int, handler: object) -> Iterator[None]:
    before = signal.signal(number, handler)  # type: ignore[arg-type]
    yield
    signal.signal(number, before)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def at(step: int, *numbers: int) -> Callable[[Event], None]:
    """An observer that sends signals when an update is done."""

    def press(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == step:
            for number in numbers:
                send(number)

    return press


def command(tmp_path: Path) -> list[str]:
    settings = [word for assignment in TINY for word in ("--set", assignment)]
    file = write_text(tmp_path / "text")
    return ["train", str(file), "--out", str(tmp_path / "run"), "--steps", "5", *settings]


#: The work at that moment, and the function that does it.
PREPARING = {
    "reading": "pellucid.runs.train.ready_data",
    "encoding": "pellucid.runs.prepare_text.prepare_documents",
    "building": "pellucid.runs.train.build_model",
    "trying the compiler": "pellucid.runs.plan.compiler_problem",
    "timing": "pellucid.training.stepper.update",
}


@pytest.mark.parametrize(
    ("what", "number"),
    [*zip(PREPARING, (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) * 2, strict=False)],
)
def test_before_the_first_step_there_is_nothing_to_save(
    what: str,
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module, _, function = PREPARING[what].rpartition(".")
    monkeypatch.setattr(import_module(module), function, lambda *_, **__: send(number))
    words = command(tmp_path)
    words += ["--set", "training.compile=on"] if "compiler" in what else []
    assert main(words) == 128 + number
    message = " ".join(capsys.readouterr().err.split())
    assert message == f"stopped by {number.name} before the first step: there is nothing to save"
    assert not (tmp_path / "run").exists()


def test_while_the_first_weights_are_judged_there_is_nothing_to_save_either(
    tmp_path: Path,
) -> None:
    def press(event: Event) -> None:
        if isinstance(event, Evaluated):
            send(signal.SIGTERM)

    with pytest.raises(Interrupted, match="nothing to save") as stop:
        train_tiny(tmp_path / "run", observers=[press])
    assert stop.value.exit_code == ExitCode.TERMINATED
    folder = RunFolder(tmp_path / "run")
    assert folder.shelf.steps() == []
    assert read_events(folder.metrics)[-1] == events.Interrupted(step=0, signal="SIGTERM")
    pellucid.resume(folder.path, show=False)  # it is prepared, and goes on from its start
    assert folder.shelf.latest().name == "step-12"


@pytest.mark.parametrize("number", ENDING)
def test_the_step_is_finished_and_saved_and_the_signal_named(
    number: signal.Signals, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted) as stop:
        train_tiny(tmp_path / "run", observers=[at(2, number)])
    assert str(stop.value) == f"stopped by {number.name} after step 2; the state is saved"
    assert (stop.value.signal, stop.value.exit_code) == (number, 128 + number)
    folder = RunFolder(tmp_path / "run")
    assert folder.shelf.latest().name == "step-2"
    assert read_events(folder.metrics)[-1] == events.Interrupted(step=2, signal=number.name)


def test_a_run_that_nobody_reads_is_saved_and_stops(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w")

    def close_reader(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 2:
            os.close(reading)

    with pytest.raises(Interrupted, match="SIGPIPE after step") as stop:
        train_tiny(tmp_path / "run", observers=[PlainLines(stream), close_reader])
    with pytest.raises(BrokenPipeError):
        stream.close()
    assert stop.value.exit_code == ExitCode.UNREAD
    shelf = RunFolder(tmp_path / "run").shelf
    assert f"after step {shelf.steps()[-1]};" in str(stop.value)
    assert shelf.steps()[-1] < 12


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM,) * 2])
def test_a_second_signal_stops_at_once(numbers: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="SIGTERM at once: nothing was saved since") as stop:
        train_tiny(tmp_path / "run", observers=[at(6, *numbers)])
    assert stop.value.exit_code == ExitCode.TERMINATED
    assert RunFolder(tmp_path / "run").shelf.latest().name == "step-4"


def test_a_signal_that_was_ignored_at_the_start_stays_ignored(tmp_path: Path) -> None:
    with ExitStack() as ignored:
        for number in ENDING:
            ignored.enter_context(handled(number, signal.SIG_IGN))
        train_tiny(tmp_path / "run", steps=2, observers=[at(1, *ENDING, *ENDING)])
        assert handlers()[: len(ENDING)] == [signal.SIG_IGN] * len(ENDING)
    assert RunFolder(tmp_path / "run").shelf.latest().name == "step-2"


def test_one_signal_saves_and_the_run_goes_on_bit_for_bit(trained: Path, tmp_path: Path) -> None:
    train_tiny(tmp_path / "run", observers=[at(5, signal.SIGUSR1)])
    folder = RunFolder(tmp_path / "run")
    saved = [e.step for e in read_events(folder.metrics) if isinstance(e, CheckpointSaved)]
    assert saved == [4, 5, 8, 12]
    first_model, second_model = (
        load(RunFolder(path).shelf.latest()).model for path in (trained, folder.path)
    )
    assert all(torch.equal(first_model[name], second_model[name]) for name in first_model)


def test_a_handler_of_yours_for_that_signal_stays(tmp_path: Path) -> None:
    numbers: list[int] = []
    with handled(signal.SIGUSR1, lambda number, frame: numbers.append(number)):
        train_tiny(tmp_path / "run", steps=2, observers=[at(1, signal.SIGUSR1)])
    assert numbers == [signal.SIGUSR1]


def test_outside_the_main_thread_no_handler_is_installed(tmp_path: Path) -> None:
    handlers_seen: list[list[object]] = []

    def look(event: Event) -> None:
        handlers_seen.append(handlers())

    thread = threading.Thread(
        target=train_tiny, args=(tmp_path / "run",), kwargs={"steps": 2, "observers": [look]}
    )
    thread.start()
    thread.join()
    assert RunFolder(tmp_path / "run").shelf.latest().name == "step-2"
    assert handlers_seen.count(handlers()) == len(handlers_seen) > 0


def test_handlers_are_put_back_when_a_training_raises(tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        assert handlers() != before
        raise ZeroDivisionError

    before = handlers()
    with pytest.raises(ZeroDivisionError):
        train_tiny(tmp_path / "run", observers=[fail])
    assert handlers() == before


def test_a_training_within_a_training_puts_back_the_outer_handlers() -> None:
    interrupts = Interrupts()
    with interrupts:
        outer = handlers()
        with interrupts:
            pass
        assert handlers() == outer
