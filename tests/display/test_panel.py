"""The panel fills its terminal, remembers a run that is resumed, and answers keys."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from math import exp
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

import pellucid
from pellucid.display import Panel
from pellucid.display.keys import Keys
from pellucid.display.plot import plot, resample
from pellucid.display.several import SeveralPanel
from pellucid.training import Event, Interrupts, StepFinished, events
from support.events import EVALUATED, FIRST, RESUMED, SAMPLED, STARTED, WHOLE, logged
from support.tiny import TINY, write_text

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
RUN: tuple[Event, ...] = (
    STARTED,
    FIRST,
    *(logged(step, 2 + 5 * exp(-step / 100)) for step in range(10, 310, 10)),
    EVALUATED,
    SAMPLED,
)


class Terminal:
    """A terminal of some size, whose last panel can be read."""

    def __init__(self, width: int, height: int) -> None:
        self.stream = io.StringIO()
        self.console = Console(
            force_terminal=True, width=width, height=height, file=self.stream, legacy_windows=False
        )
        self.panel = Panel(self.console)
        self.panel.seconds_between = 0.0

    def show(self, *shown: Event) -> list[str]:
        """The lines of the panel after some events."""
        for event in shown:
            self.panel(event)
        self.panel._redraw()
        text = ESCAPE.sub("", self.stream.getvalue())
        last = text[text.rindex("╭") :]
        return last[: last.index("╯") + 1].splitlines()


@pytest.fixture
def press(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Press keys: the panel finds them at the next event."""
    waiting: list[str] = []

    def pressed(keys: Keys, seconds: float = 0.0) -> str:
        return waiting.pop(0) if waiting else ""

    monkeypatch.setattr(Keys, "pressed", pressed)
    return waiting.append


@pytest.mark.parametrize(("width", "height"), [(40, 12), (60, 24), (80, 24), (120, 40), (250, 70)])
def test_the_panel_is_as_wide_and_at_most_as_high_as_the_terminal(width: int, height: int) -> None:
    lines = Terminal(width, height).show(*RUN)
    assert all(cell_len(line) == width for line in lines)
    # one line is where the cursor waits, two are for the answer to Ctrl-C
    assert len(lines) == height - 3 if width > 40 else len(lines) <= height - 3
    assert any("50.0%   2m10s left" in line for line in lines)


def test_a_long_note_stays_in_a_small_panel() -> None:
    saved = events.CheckpointSaved(
        step=300, path="runs/a-long-name/checkpoints/step-300", best=True
    )
    lines = Terminal(40, 12).show(*RUN, saved)
    assert len(lines) <= 12 - 3
    assert any("saved runs/a-long-name" in line for line in lines)


def test_the_curve_has_numbers_on_both_axes_and_marks_of_held_out_losses() -> None:
    lines = Terminal(100, 40).show(*RUN)
    labels = [float(label) for line in lines for label in re.findall(r"([\d.]+) ┤", line)]
    assert labels == sorted(labels, reverse=True)
    assert 1.5 < labels[-1] < 2.5
    assert labels[0] > 6
    (foot,) = (line for line in lines if "updates" in line)
    assert re.search(r"1 .*nats/token.* 300 updates", foot)
    assert sum(line.count("●") for line in lines) == 2  # the mark and its legend


def test_a_resumed_run_has_its_title_its_whole_curve_and_its_best() -> None:
    terminal = Terminal(80, 40)
    terminal.panel.recall(RUN)
    lines = terminal.show(RESUMED, logged(310))
    assert STARTED.name in lines[0]
    assert any("@300" in line and "best" in line for line in lines)
    assert any(re.search(r"1 +.*310 updates", line) for line in lines)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("c", "gradient norm"),
        ("cc", "learning rate"),
        ("ccc", "tokens/s"),
        ("x", "2.54M tokens"),
        ("xx", "minutes"),
        ("l", ", log"),
        ("h", "Ctrl-C saves and stops"),
    ],
)
def test_a_key_changes_the_view(keys: str, words: str, press: Callable[[str], None]) -> None:
    terminal = Terminal(110, 40)
    assert not any(words in line for line in terminal.show(*RUN, logged(310))[10:])
    press(keys)
    assert any(words in line for line in terminal.show(StepFinished(step=310)))


def test_keys_ask_the_training_for_a_checkpoint_and_a_sample(press: Callable[[str], None]) -> None:
    key_calls: list[str] = []
    terminal = Terminal(80, 40)
    terminal.panel.heed(
        lambda: False,
        save=lambda: key_calls.append("save"),
        sample=lambda: key_calls.append("sample"),
    )
    press("se")
    terminal.show(*RUN, StepFinished(step=300))
    assert key_calls == ["save", "sample"]
    press("p")
    lines = terminal.show(StepFinished(step=301))
    assert any("key p: only where one process trains" in line for line in lines)


def test_a_sample_on_request_is_one_more_and_changes_no_bit(trained: Path, tmp_path: Path) -> None:
    interrupts, samples = Interrupts(), list[int]()

    def observe(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 5:
            interrupts.sample_asked = True
        if isinstance(event, events.Sampled):
            samples.append(event.step)

    run = tmp_path / "run"
    text = write_text(tmp_path / "text")
    settings = [*TINY, "text.held_out=0.2"]
    pellucid.train(
        [text],
        out=run,
        steps=12,
        settings=settings,
        observers=[observe],
        interrupts=interrupts,
        show=False,
    )
    assert samples == [0, 4, 5, 8, 12]
    weights = "checkpoints/step-12/model.safetensors"
    assert (run / weights).read_bytes() == (trained / weights).read_bytes()


def test_a_paused_run_waits_for_the_key_or_for_ctrl_c(press: Callable[[str], None]) -> None:
    terminal = Terminal(80, 40)
    waits: list[int] = []

    def stop_requested() -> bool:
        waits.append(1)
        return len(waits) > 5  # Ctrl-C, after a while

    terminal.show(*RUN)
    terminal.panel.heed(stop_requested, can_pause=True)
    press("p")
    terminal.show(StepFinished(step=300))
    assert "paused after step 300" in ESCAPE.sub("", terminal.stream.getvalue())
    assert len(waits) > 5
    waits.clear()
    terminal.panel.heed(lambda: False, can_pause=True)
    press("p")
    press("p")
    terminal.show(StepFinished(step=301))  # ends, as the second key continues


def test_a_terminal_that_changes_its_size_gets_a_whole_panel_again() -> None:
    terminal = Terminal(80, 40)
    terminal.show(*RUN)
    terminal.console.size = terminal.console.size._replace(width=60, height=20)
    terminal.panel(StepFinished(step=301, saving=False))  # not only with the next numbers
    assert "\x1b[2J" in terminal.stream.getvalue()  # what the terminal has moved is gone
    lines = terminal.show(*WHOLE[-1:])
    assert len(lines) == 17
    assert all(cell_len(line) == 60 for line in lines)


def test_several_runs_have_a_line_each_and_the_panel_of_one(press: Callable[[str], None]) -> None:
    stream = io.StringIO()
    console = Console(force_terminal=True, width=100, height=40, file=stream, legacy_windows=False)
    panel = SeveralPanel(console, ["first", "second"])
    panel.seconds_between = 0.0
    for event in RUN:
        panel.take(0, event)
    panel.take(1, replace(STARTED, name="another"))
    panel.take(1, logged(500, 1.25))

    def lines() -> list[str]:
        panel._redraw()
        text = ESCAPE.sub("", stream.getvalue())
        return text[text.rindex("first") - 2 :].splitlines()

    first, second, title, *panel_lines = lines()
    assert first.startswith("▶ first")
    assert "300/600  loss 2.2489" in first
    assert "best 3.6215 @300" in first
    assert "500/600  loss 1.2500" in second
    assert STARTED.name in title
    assert 3 + len(panel_lines[: [line[:1] for line in panel_lines].index("╰") + 1]) == 39
    press("n")
    panel.tick()
    first, second, title, *_ = lines()
    assert second.startswith("▶ second")
    assert "another" in title


def test_a_stretch_without_points_continues_the_last_one() -> None:
    assert resample([(0, 1.0), (1, 3.0), (8, 5.0)], 4, 0, 8) == [2.0, 2.0, 2.0, 5.0]


def test_values_without_a_logarithm_are_left_out_on_that_scale() -> None:
    lines = plot(
        [(0, 0.0), (1, 10.0), (2, 1000.0)], [], (40, 10), title="", unit="updates", is_log=True
    )
    labels = [float(label) for line in lines for label in re.findall(r"([\d.]+) ┤", line.plain)]
    assert labels == [1000, 100, 10] or labels == [100, 10]
    assert [line.plain for line in plot([], [], (40, 10), title="", unit="")] == [""] * 10


def test_an_axis_has_a_number_once_while_there_is_one_point() -> None:
    lines = plot([], [(0, 7.06)], (40, 10), title="", unit="updates")
    assert sum("7.06" in line.plain for line in lines) == 1
    assert lines[-1].plain.split() == ["0", "updates"]


def test_the_events_of_a_run_that_is_not_connected_leave_keys_alone() -> None:
    terminal = Terminal(80, 24)
    terminal.show(*RUN, events.Finished(step=310, seconds=1.0))
    assert terminal.panel._keys.pressed() == ""
