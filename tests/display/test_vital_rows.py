"""The five equations as they are shown: rows in the panel, elsewhere lines of what changes."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from pellucid.display import NotebookPanel, Panel, PlainLines
from pellucid.training import Event, events, from_record, to_record
from support.events import PREFERENCES, WHOLE

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WHERE = "decoder.blocks.11.attention.head.11"
WHY = "sick above 100: the largest score of any query with any key"


def vitals(step: int, *, softmax: str = "calm", value: float = 3.2141) -> events.Vitals:
    return events.Vitals(
        step=step,
        signs=(
            ("attention.entropy", 1, 0.5, "calm", step, WHERE),
            ("attention.max_logit", 1, value, softmax, step, WHERE),
            ("loss.value", 2, -2.1, "calm", step, ""),
            ("gradient.norm", 4, 0.97, "calm", step, ""),
            ("norm.variance_over_eps", 5, 301231.2, "watch", step, "decoder.blocks.0"),
        ),
        rows=(
            ("softmax", softmax),
            ("cross-entropy", "calm"),
            ("KL", ""),
            ("gradients", "calm"),
            ("variance", "watch"),
        ),
        speakers=(
            ("attention.max_logit", WHY if softmax == "sick" else ""),
            ("loss.value", ""),
            ("", ""),
            ("gradient.norm", ""),
            ("norm.variance_over_eps", "watch below 10: the variance that a norm is given"),
        ),
        cost=(0.4, 20.0, 13),
    )


SICK = vitals(310, softmax="sick", value=8249.4)


def frame(*shown: Event, width: int = 80, height: int = 40) -> list[str]:
    """The last panel's lines, as a person sees them."""
    stream = io.StringIO()
    console = Console(force_terminal=True, width=width, height=height, file=stream)
    display = Panel(console)
    for event in shown:
        display(event)
    display.close()
    text = ESCAPE.sub("", stream.getvalue())
    return text[text.rindex("╭") :].splitlines()


@pytest.mark.parametrize("width", [60, 80])
def test_every_equation_has_a_row_with_its_word_and_the_sign_that_speaks(width: int) -> None:
    panel = "\n".join(frame(*WHOLE, SICK, width=width))
    for words in (
        "1 softmax        sick   attention.max_logit        8.25k",
        "2 cross-entropy  calm   loss.value                  -2.1",
        "3 KL             not measured yet",
        "4 gradients      calm   gradient.norm               0.97",
        "5 variance       watch  norm.variance_over_eps      301k",
    ):
        assert words in panel
    unfolded = " ".join(panel.replace("│", " ").split())
    assert f"{WHY}; in {WHERE}" in unfolded
    assert all(cell_len(line) <= width for line in panel.splitlines())


def test_before_anything_was_watched_no_row_stands_there() -> None:
    assert "softmax" not in "\n".join(frame(*WHOLE))


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("height", range(14, 30))
@pytest.mark.parametrize("run", [WHOLE, PREFERENCES], ids=["tokens", "pairs"])
def test_the_panel_fits_a_low_terminal_and_keeps_the_words(
    run: tuple[Event, ...], height: int, width: int
) -> None:
    lines = frame(*run, SICK, width=width, height=height)
    # the cursor waits in one line; numbers next to the curve are never given up
    assert len(lines) <= max(height - 1, 17)
    if height >= 18:
        text = "\n".join(lines)
        assert re.search(r"softmax +sick", text)
        assert re.search(r"cross-entropy +calm", text)


def test_a_record_of_an_older_run_is_shown_as_well() -> None:
    old = to_record(SICK)
    del old["speakers"], old["cost"]
    event = from_record(old)
    panel = "\n".join(frame(*WHOLE, event))
    assert "1 softmax        sick   attention.max_logit        8.25k" in panel
    assert from_record(to_record(SICK)) == SICK


def plain(*shown: Event) -> list[str]:
    stream = io.StringIO()
    display = PlainLines(stream)
    for event in shown:
        display(event)
    return stream.getvalue().splitlines()


def test_plain_lines_say_a_word_when_it_changes_and_only_then() -> None:
    calm = replace(vitals(1), rows=(*vitals(1).rows[:4], ("variance", "calm")))
    assert plain(calm, replace(calm, step=2)) == []
    lines = plain(calm, SICK, replace(SICK, step=320), replace(calm, step=330))
    assert lines == [
        f"step 310 softmax: sick, attention.max_logit 8.25k in {WHERE} ({WHY})",
        "step 310 variance: watch, norm.variance_over_eps 301k in decoder.blocks.0 "
        "(watch below 10: the variance that a norm is given)",
        "step 330 softmax: calm again",
        "step 330 variance: calm again",
    ]


def test_what_is_not_measured_any_more_keeps_its_word() -> None:
    emptied = replace(SICK, step=320, rows=tuple((name, "") for name, _ in SICK.rows))
    assert len(plain(SICK, emptied, replace(SICK, step=330))) == 2


def test_a_notebook_keeps_a_line_for_each_change_beside_the_panel(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Cell:
        def __init__(self) -> None:
            self.outputs: list[dict[str, str]] = []

        def __call__(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
            self.outputs.append(bundle)
            return self

        def update(self, bundle: dict[str, str], *, raw: bool) -> None:
            self.outputs[-1] = bundle

    cell = Cell()
    display = NotebookPanel(cell)
    for event in (*WHOLE, SICK, replace(SICK, step=311)):
        display(event)
    display.close()
    softmax_lines = [line for line in capsys.readouterr().out.splitlines() if "softmax" in line]
    assert softmax_lines == [
        f"step 310 softmax: sick, attention.max_logit 8.25k in {WHERE} ({WHY})"
    ]
    assert "softmax        sick" in cell.outputs[-1]["text/plain"]


def test_control_characters_of_a_module_s_name_never_reach_the_terminal() -> None:
    evil = replace(
        SICK, signs=(("attention.max_logit", 1, 1.0, "sick", 3, "\x1b[2J\x07"),), speakers=()
    )
    assert "\x1b" not in "".join(plain(evil))
    assert "␛[2J" in "\n".join(frame(*WHOLE, evil))
