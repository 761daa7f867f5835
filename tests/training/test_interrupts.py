"""Signals: before the first step they stop at once, later they ask, and the second one stops."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from pellucid.errors import Interrupted
from pellucid.training.interrupts import BEFORE_A_STEP, Interrupts, interruption

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals")


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def test_the_end_of_a_run_names_the_signal_and_what_is_saved() -> None:
    assert str(interruption(7, 15)) == "stopped by SIGTERM after step 7; the state is saved"
    assert interruption(7, 15).signal == 15
    without_signal = interruption(0, None)
    assert str(without_signal) == f"stopped {BEFORE_A_STEP}"
    assert without_signal.signal == signal.SIGINT


def stop_of(work: Callable[[Interrupts], None]) -> Interrupted:
    """How work ends that a signal stops."""
    interrupts = Interrupts()
    assert not interrupts.asked

    def run() -> None:
        with interrupts:
            work(interrupts)
        pytest.fail("no signal stopped it")

    with pytest.raises(Interrupted) as info:
        run()
    return info.value


def test_before_the_first_step_a_signal_stops_at_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop = stop_of(lambda interrupts: send(signal.SIGTERM))
    assert str(stop).startswith("stopped by SIGTERM before the first step")
    assert stop.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


def test_in_the_loop_the_first_signal_asks_and_the_second_stops(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def work(interrupts: Interrupts) -> None:
        with interrupts.finishing_steps():
            send(signal.SIGTERM)
            assert interrupts.asked
            assert interrupts.signal == signal.SIGTERM
            assert "finishing this step, then saving" in capfd.readouterr().err
            send(signal.SIGINT)

    assert str(stop_of(work)).startswith("stopped by SIGINT at once")


def test_after_the_loop_a_signal_stops_at_once() -> None:
    def work(interrupts: Interrupts) -> None:
        with interrupts.finishing_steps():
            pass
        send(signal.SIGTERM)

    assert str(stop_of(work)).startswith("stopped by SIGTERM at once")


def test_sigusr1_asks_to_save_and_leaves_the_handler_of_others_in_place(
    capfd: pytest.CaptureFixture[str],
) -> None:
    interrupts = Interrupts()
    with interrupts:
        assert not interrupts.save_asked
        send(signal.SIGUSR1)
        assert interrupts.save_asked
        assert not interrupts.asked
        assert "saving after this step, then going on" in capfd.readouterr().err
    received: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    try:
        with Interrupts() as outer:
            send(signal.SIGUSR1)
        assert not outer.save_asked
        assert received == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)
