from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from pellucid.display import NotebookPanel, Panel, PlainLines, display_for, folded
from pellucid.display import panel as panel_file
from pellucid.display.metric_labels import LABELS, measured
from pellucid.observers.metrics import numbers_of
from pellucid.training import Event, StepFinished, events
from pellucid.training.event_records import from_record, to_record
from support.events import (
    EVALUATED,
    FINISHED,
    FIRST,
    INTERRUPTED,
    KINDS,
    LOGGED,
    PAIRS,
    PAIRS_STARTED,
    PREFERENCES,
    PREPARING,
    RESUMED,
    SAMPLED,
    SAVED,
    STARTED,
    STOPPED,
    WHOLE,
    logged,
    logged_pairs,
)

#: Cursor movements, erasures and colours.
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests' own terminal asks for does not count."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def plain(*shown: Event) -> str:
    stream = io.StringIO()
    display = PlainLines(stream)
    for event in shown:
        display(event)
    display.close()
    return stream.getvalue()


def raw(shown: Iterable[Event], width: int = 80) -> str:
    """All that a terminal is sent."""
    stream = io.StringIO()
    display = Panel(Console(force_terminal=True, width=width, file=stream))
    for event in shown:
        display(event)
    display.close()
    return stream.getvalue()


def frame(*shown: Event, width: int = 80) -> str:
    """The last panel, as a person sees it."""
    text = ESCAPE.sub("", raw(shown, width))
    return text[text.rindex("╭") :]


# -- plain lines


@pytest.mark.parametrize("event", KINDS, ids=lambda event: type(event).__name__)
def test_every_event_is_whole_lines_without_escape_codes(event: Event) -> None:
    text = plain(event)
    assert text.endswith("\n")
    assert text.strip()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def test_a_finished_step_alone_says_nothing() -> None:
    assert plain(StepFinished(step=3)) == ""
    assert plain(events.Vitals(step=3, signs=(), rows=())) == ""


def test_each_line_is_flushed_as_it_is_written() -> None:
    flushed: list[str] = []

    class Stream(io.StringIO):
        def flush(self) -> None:
            flushed.append(self.getvalue())

    stream = Stream()
    PlainLines(stream)(LOGGED)
    assert flushed[-1] == stream.getvalue() != ""


def test_several_ranks_have_their_speeds_waiting_times_and_memory() -> None:
    ranks = ((9_000.0, 0.31, 10**9), (4_500.0, 0.02, 2 * 10**9), (8_000.0, 0.2, 10**9))
    event = replace(LOGGED, ranks=ranks)
    assert "ranks 4.5k to 9k, wait up to 0.3s" in plain(event)
    text = ESCAPE.sub("", raw([STARTED, event], width=120))
    for line in (
        "slowest   rank 1, 4.5k tokens/s",
        "fastest   rank 0, 9k tokens/s",
        "waiting   0.3s, 0.0s, 0.2s",
        "by rank   1 GB, 2 GB, 1 GB",
    ):
        assert line in text
    on_gpus = replace(LOGGED, ranks=((9_000.0, None, None), (4_500.0, None, None)))
    assert "ranks 4.5k to 9k" in plain(on_gpus)
    assert "wait" not in plain(on_gpus) + ESCAPE.sub("", raw([STARTED, on_gpus], width=120))
    assert from_record(to_record(event)) == event
    assert dict(numbers_of(event))[event.step]["rank_1/waiting_seconds"] == 0.02


def test_a_line_of_numbers_says_them_all() -> None:
    assert plain(LOGGED) == (
        "step 310/600 51.7% loss 4.0000 lr 3.00e-04 grad 1.25* tok/s 41.2k mem 1.23 GB eta 2m10s\n"
    )


@pytest.mark.parametrize(("clip", "shown"), [(None, "grad 1.25 "), (2.0, "grad 1.25 ")])
def test_a_gradient_that_was_not_clipped_has_no_star(clip: float | None, shown: str) -> None:
    assert shown in plain(replace(LOGGED, clip_norm=clip))


def test_a_text_of_many_lines_is_shown_on_one() -> None:
    assert plain(SAMPLED) == (
        "step 300 \"Return the\" → ' number' 0.31  ' list' 0.22  | …number of items\n"
    )


def test_a_stream_that_cannot_spell_an_arrow_gets_a_question_mark() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", newline="")
    PlainLines(stream)(SAMPLED)
    stream.flush()
    assert '"Return the" ? ' in stream.buffer.getvalue().decode("cp1252")  # type: ignore[attr-defined]


def test_a_reader_who_leaves_is_told_of_once() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    display = PlainLines(stream)
    calls = list[str]()
    display.when_unread = lambda: calls.append("unread")
    display(LOGGED)
    display(FINISHED)
    assert calls == ["unread"]
    with pytest.raises(BrokenPipeError):
        stream.close()


# -- the panel


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("last", KINDS, ids=lambda event: type(event).__name__)
def test_the_panel_keeps_within_its_columns(last: Event, width: int) -> None:
    long = replace(SAMPLED, sentence="漢字 " * 30, continuation="wörd 漢字 👩‍👩‍👧 " * 30, step=301)
    panel = frame(*WHOLE, long, replace(SAVED, path="/deep" * 40), last, width=width)
    for line in panel.splitlines():
        assert cell_len(line) <= width
        assert line[0] in "╭│╰"


def test_a_very_narrow_terminal_gets_numbers_without_a_curve() -> None:
    panel = frame(*WHOLE, width=20)
    assert all(cell_len(line) <= 20 for line in panel.splitlines())
    assert "train     4" in panel
    assert not re.search("[⠁-⣿]", panel)


@pytest.mark.parametrize("width", [60, 80])
def test_no_number_of_the_panel_is_cut_or_wrapped(width: int) -> None:
    panel = frame(*WHOLE, logged(99_999, 12.3456), replace(EVALUATED, step=100_000), width=width)
    for words in (
        "train     12.3456 nats/token ▲8.346",
        "held-out  3.6215 nats/token",
        "1.5129 bits/byte",
        "best      1.5129 bits/byte @100000",
        "guessing  7.6246 nats/token = ln V",
        "grad      1.25 clipped (clip 1)",
        "memory    1.23 GB   left 2m10s",
    ):
        assert words in panel


def test_columns_stay_where_they_are_while_numbers_come_in() -> None:
    early = frame(STARTED, FIRST, logged(10)).splitlines()
    late = frame(*WHOLE).splitlines()
    for early_line, late_line in zip(early[1:10], late[1:10], strict=True):
        assert early_line[38:48] == late_line[38:48]


@pytest.mark.parametrize(
    "text", ["[bold]x[/]", "[/]", ":smile:", "a[red", "back\\", "[link=x]y[/link]"]
)
def test_brackets_and_colons_are_shown_as_they_are(text: str) -> None:
    sample = replace(SAMPLED, sentence=text, next_tokens=((text, 0.5),), continuation=text)
    start = replace(STARTED, name=text, facts=(("text", text),))
    full_text = ESCAPE.sub("", raw([start, sample, LOGGED, replace(SAVED, path=text)]))
    panel = frame(start, sample, LOGGED, replace(SAVED, path=text))
    assert f"text         {text}" in full_text
    assert f"╭─ {text}  step 310/600" in panel
    assert f'"{text}" → {text!r} 0.50' in panel
    assert f"…{text}" in panel
    assert f"saved {text}" in panel


@pytest.mark.parametrize("show", [raw, lambda shown: plain(*shown)], ids=["panel", "plain"])
def test_control_characters_of_a_model_never_reach_the_terminal(show: object) -> None:
    evil = "\x1b[2J\x07\x9b2J\x7f\r"
    sample = replace(SAMPLED, sentence=evil, next_tokens=((evil, 0.5),), continuation=f"a{evil}b")
    text: str = show([replace(STARTED, name=evil), sample, replace(SAVED, path=evil), LOGGED])  # type: ignore[operator]
    assert "[2J" in text
    assert "\x1b[2J" not in text
    assert not re.search(r"[\x07\x7f-\x9f]", text)
    assert "␛[2J␇�2J␡" in text


def test_a_long_command_is_not_broken_by_the_panel() -> None:
    command = "pellucid train --resume " + "folder/" * 20
    assert command in raw([replace(STARTED, facts=(("to resume", command),))])


@pytest.mark.parametrize("width", [40, 80])
def test_a_long_fact_is_folded_between_its_words(width: int) -> None:
    value = "hidden matrices 3.58k; embeddings and head 4.13k; gains and biases 80, no decay"
    lines = ESCAPE.sub("", raw([replace(STARTED, facts=(("updated", value),))], width)).splitlines()
    start = next(i for i, line in enumerate(lines) if "updated" in line)
    folded = [line for line in lines[start:] if "guessing" not in line]
    assert all(cell_len(line) <= width for line in folded)
    assert all(line.startswith(" " * 15) for line in folded[1:])
    assert " ".join(line[15:] for line in folded) == value


@settings(max_examples=200)
@given(text=st.text(st.sampled_from("ab  漢é-")), columns=st.integers(2, 30))
def test_a_folded_line_fits_and_loses_no_letter(text: str, columns: int) -> None:
    lines = folded(text, columns)
    assert all(cell_len(line) <= columns for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_both_displays_say_the_same_facts() -> None:
    lines = plain(*WHOLE)
    text = ESCAPE.sub("", raw(WHOLE))
    for fact in (
        "nano-20260101-120000",
        "Files, 3.1 MB",
        "7.6246 nats/token = ln V",
        "310/600",
        "4.0000",
        "3.00e-04",
        "1.25",
        "41.2k",
        "1.23 GB",
        "2m10s",
        "3.6215 nats/token",
        "1.5129 bits/byte",
        "\"Return the\" → ' number' 0.31",
        "…number of items",
        "…qqz q",
        "saved runs/nano/checkpoints/step-300",
    ):
        assert fact in lines
        assert fact in text


@pytest.mark.parametrize("last", [FINISHED, INTERRUPTED, STOPPED])
def test_how_a_run_ended_is_the_last_thing_both_say(last: Event) -> None:
    last_line = plain(last).strip()
    lines = [line.strip("│ ") for line in frame(*WHOLE, last).splitlines()]
    assert " ".join(lines[:-1]).endswith(last_line)


def test_what_is_being_prepared_is_said_at_once() -> None:
    assert plain(PREPARING) == f"{PREPARING.what} …\n"
    assert f"{PREPARING.what} …" in ESCAPE.sub("", raw([PREPARING]))


def test_how_far_a_long_work_has_come_is_a_line_that_the_next_one_replaces() -> None:
    half = events.Preparing(what="encoding: 1 GB of 2 GB", fleeting=True)
    finished_work = events.Preparing(what="encoding: 2 GB of 2 GB", fleeting=True)
    assert plain(PREPARING, half, finished_work).count("\n") == 3
    output = raw([PREPARING, half, finished_work, STARTED])
    assert "1 GB of 2 GB" in output
    assert output.index("1 GB of 2 GB") < output.index("\x1b[2K", output.index("1 GB of 2 GB"))
    assert "\n" not in ESCAPE.sub(
        "", output[output.index("1 GB of 2 GB") : output.index("2 GB of 2 GB")]
    )
    assert STARTED.name in output[output.rindex("2 GB of 2 GB") :]


def test_a_resumed_run_says_from_where_and_knows_its_length() -> None:
    text = ESCAPE.sub("", raw([RESUMED, logged(210)]))
    assert plain(RESUMED).strip() in text
    assert "run  step 210/600" in text


def test_a_resumed_run_does_not_call_a_worse_loss_its_best() -> None:
    assert "best      –" in frame(RESUMED, logged(210), replace(EVALUATED, best=False))


def test_the_best_loss_stays_when_a_later_one_is_worse() -> None:
    worse = replace(EVALUATED, step=400, measures=(("bits_per_byte", 1.9),), best=False)
    panel = frame(*WHOLE, worse)
    assert "1.9000 bits/byte" in panel
    assert "best      1.5129 bits/byte @300" in panel


def test_the_panel_is_redrawn_four_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))

    class Time:
        @staticmethod
        def monotonic() -> float:
            return 1000 + next(clock) / 100

    monkeypatch.setattr(panel_file, "time", Time)
    # 1000 reports at 100 a second are ten seconds, and each drawing takes a hundredth of one
    n_panels = raw(logged(step) for step in range(1, 1001)).count("╭")
    assert 35 <= n_panels <= 45


def test_the_last_panel_shows_the_last_numbers() -> None:
    panel = frame(*(logged(step, loss=step / 100) for step in range(1, 500)))
    assert "step 499/600" in panel
    assert "train     4.9900" in panel


def test_the_cursor_comes_back() -> None:
    text = raw([*WHOLE, FINISHED])
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


# -- other objectives


def test_a_line_of_pairs_says_their_unit_and_the_parts_of_their_loss() -> None:
    assert plain(logged_pairs(310)) == (
        "step 310/600 51.7% loss 0.6500 lr 3.00e-04 grad 1.25* pairs/s 41.2k mem 1.23 GB eta 2m10s"
        " | margin 0.2500, chosen reward -0.1250, rejected rew. -0.3750, my_own 3.0000\n"
    )
    assert plain(PAIRS) == (
        "step 300 held-out loss 0.6012 nats/pair, 0.7333 pairs right, 0.4321 margin, "
        "0.0123 KL (k3) (best)\n"
    )
    assert "guessing     0.6931 nats/pair = ln 2" in plain(PAIRS_STARTED)


@pytest.mark.parametrize("width", [60, 80])
def test_the_panel_of_pairs_shows_their_parts_and_measures_uncut(width: int) -> None:
    panel = frame(*PREFERENCES, width=width)
    for words in (
        "train     0.6500 nats/pair ▼0.000",
        "held-out  0.6012 nats/pair",
        "          0.7333 pairs right",
        "best      0.7333 pairs right @300",
        "guessing  0.6931 nats/pair = ln 2",
        "speed     41.2k pairs/s",
        "chosen reward    -0.1250",
        "rejected rew.    -0.3750",
        "KL (k3)           0.0123",
        "my_own            3.0000",
    ):
        assert words in panel
    assert "log Z" not in panel
    assert "…" not in panel
    assert all(cell_len(line) == width for line in panel.strip().splitlines())


def test_cells_stay_where_they_are_while_their_numbers_change() -> None:
    def places(margin: float) -> list[int]:
        later_event = replace(logged_pairs(320), parts=(("margin", (margin,)), ("reward", (0.1,))))
        return [line.find("reward") for line in frame(PAIRS_STARTED, later_event).splitlines()]

    assert places(0.1) == places(-9876.54321) == places(float("nan")) == places(3e12)


def test_a_run_without_a_guess_says_none_and_one_without_measures_says_its_loss() -> None:
    start, judged = replace(PAIRS_STARTED, guessing_nats=None), replace(PAIRS, measures=())
    assert "guessing" not in plain(start)
    panel = frame(start, logged_pairs(300), judged)
    assert "guessing" not in panel
    assert "best      0.6012 nats/pair @300" in panel


@pytest.mark.parametrize("name", LABELS)
def test_every_known_name_fits_its_cell_and_says_what_it_is(name: str) -> None:
    metric = measured(name)
    assert cell_len(metric.label) <= 14
    assert metric.title
    for value in (0.0, -0.12345, 99.99, -999.9, 12345.6, 1e30, float("inf"), float("nan")):
        assert cell_len(metric.number(value)) <= 9


@pytest.mark.parametrize("name", list(LABELS)[:10])
def test_the_best_by_a_telling_measure_is_not_cut(name: str) -> None:
    assert len(f"best      {measured(name).with_unit(0.1234)} @100000") <= 36


def test_a_name_that_is_not_known_is_shown_as_it_is() -> None:
    assert measured("my_own").with_unit(1.5) == "1.5000 my_own"
    assert measured("a_name_that_is_very_long").label == "a_name_that_i…"
    evil = replace(PAIRS, measures=(("\x1b[2J", 1.0), ("x\x9b", 2.0)))
    for text in (plain(evil), raw([PAIRS_STARTED, logged_pairs(300), evil])):
        assert "\x1b[2J1" not in text
        assert "\x9b" not in text


# -- which one


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_panel() -> None:
    assert isinstance(display_for(Terminal()), Panel)


def test_a_stream_that_is_no_terminal_gets_plain_lines() -> None:
    stream = io.StringIO()
    display = display_for(stream)
    assert isinstance(display, PlainLines)
    display(LOGGED)
    assert stream.getvalue() == plain(LOGGED)


@pytest.mark.parametrize(
    ("name", "value"),
    [("TERM", "dumb"), ("TERM", "unknown"), ("TTY_INTERACTIVE", "0"), ("CI", "true"), ("CI", "1")],
)
def test_a_terminal_that_cannot_redraw_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert isinstance(display_for(Terminal()), PlainLines)


@pytest.mark.parametrize(
    ("name", "value"), [("FORCE_COLOR", "1"), ("FORCE_COLOR", "3"), ("TTY_COMPATIBLE", "1")]
)
def test_a_log_that_wants_colours_still_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    stream = io.StringIO()
    display = display_for(stream)
    for event in WHOLE:
        display(event)
    display.close()
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue() == plain(*WHOLE)


# -- in a notebook


class Cell:
    """What a notebook does with `display`: one output, and a handle to update it."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, str]] = []
        self.updates = 0

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert raw
        assert display_id
        self.outputs.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.outputs[-1] = bundle
        self.updates += 1


def test_a_notebook_keeps_one_output_and_ends_with_the_last_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cell = Cell()
    display = NotebookPanel(cell.display)
    for event in (PREPARING, *WHOLE, logged(420, loss=1.5)):
        display(event)
    display.close()
    (output,) = cell.outputs
    assert "step 420/600" in output["text/plain"]
    assert "train     1.5000" in output["text/plain"]
    assert not ESCAPE.search("".join(output.values()))
    assert output["text/html"].startswith("<pre")
    # permanent lines are printed once, as ordinary lines
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed == plain(PREPARING, STARTED)


def test_a_notebook_is_redrawn_twice_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))

    class Time:
        @staticmethod
        def monotonic() -> float:
            return 1000 + next(clock) / 100

    monkeypatch.setattr(panel_file, "time", Time)
    cell = Cell()
    display = NotebookPanel(cell.display)
    for step in range(1, 1001):  # ten seconds
        display(logged(step))
    assert 15 <= cell.updates <= 20


def test_text_of_a_model_is_text_in_a_notebook_too() -> None:
    cell = Cell()
    display = NotebookPanel(cell.display)
    display(replace(SAMPLED, continuation="<script>x</script>\x1b[2J"))
    assert "<script" not in cell.outputs[0]["text/html"]
    assert "␛[2J" in cell.outputs[0]["text/plain"]


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    def colours() -> list[str]:
        stream = Terminal()
        display = display_for(stream)
        for event in WHOLE:
            display(event)
        display.close()
        return re.findall(r"\x1b\[(?:3\d|9\d)m", stream.getvalue())

    assert colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours()


def test_every_kind_of_event_is_covered_here() -> None:
    kinds = {type(event) for event in KINDS} | {StepFinished, events.Vitals}
    assert kinds == set(events.Event.__args__)
