"""One example as it will be trained: readable, folded where it is long, never where it turns."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from pellucid.display import NotebookPanel, Panel, PlainLines
from pellucid.display.example import example_lines
from pellucid.report import build_story
from pellucid.report.page import page
from pellucid.training import Example, events, from_record, to_record
from support.events import EXAMPLE, STARTED, logged


def long(asked: int, answered: int) -> Example:
    """A long prompt, and a long answer."""
    prompt = [(f" p{i}", None, f"0 to {i}") for i in range(asked)]
    answer = [(f" a{i}", f" a{i + 1}", f"0 to {asked + i}") for i in range(answered)]
    return Example(title="row 1", rows=(*prompt, *answer))


def test_packed_neighbours_are_shown_with_the_boundary_between_them() -> None:
    assert example_lines(EXAMPLE) == [
        "one example as it will be trained: row 1 of the first update",
        "  place  token                 learns                sees",
        f"  -- example 7 {'-' * 65}",
        "      0  'Say'                 –                     itself",
        "      1  ' hi'                 ' Hello'              0 to 1",
        "      2  ' Hello'              '.'                   0 to 2",
        f"  -- example 8 {'-' * 65}",
        "      3  'Add'                 –                     itself",
        "      4  ' 2+2'                '4'                   3 to 4",
        "  3 of 5 tokens are learnt (60%)",
        "  2 places of padding are left out",
    ]


def test_a_long_example_is_folded_but_not_where_learning_begins() -> None:
    lines = "\n".join(example_lines(long(200, 100)))
    for part in (" p0'", " p199'", " a0'", " a99'"):
        assert part in lines
    assert "… 194 more, none learnt …" in lines
    assert "… 94 more, all learnt …" in lines
    assert "100 of 300 tokens are learnt (33%)" in lines
    assert lines.count("\n") < 20


def test_hidden_tokens_here_and_there_are_folded_too() -> None:
    rows = tuple(
        (f"t{i}", f"t{i}" if i % 5 == 0 else None, "both ways: 0 to 99") for i in range(100)
    )
    lines = example_lines(Example(title="row 1", rows=rows))
    assert len(lines) < 25
    assert any("more, 17 of them learnt …" in line for line in lines)


ROW = st.tuples(
    st.text(st.sampled_from("ab 漢\n\x1b\x9b\"'é"), max_size=30),
    st.none() | st.text(st.sampled_from("ab 漢\n\x1b\x9b"), max_size=30),
    st.text(st.sampled_from("0 to9,漢\n\x1b"), max_size=40),
)


@given(rows=st.lists(ROW, max_size=60).map(tuple), width=st.integers(30, 120))
def test_every_line_fits_and_says_no_control_character(
    rows: tuple[tuple[str, str | None, str], ...], width: int
) -> None:
    row_titles = ((0, "one"), (len(rows) // 2, "two\x1b")) if len(rows) > 1 else ()
    example = replace(EXAMPLE, rows=rows, begins=row_titles)
    for line in example_lines(example, width):
        assert cell_len(line) <= min(width, 80)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line)


def test_every_row_is_shown_or_counted_as_left_out() -> None:
    for example in (long(7, 1), long(8, 0), long(0, 9), long(40, 3), long(1, 1), EXAMPLE):
        lines = example_lines(example)
        n_rows = sum(bool(re.match(r" +\d+  '", line)) for line in lines)
        n_left_out = sum(int(count) for count in re.findall(r"… (\d+) more", "\n".join(lines)))
        assert n_rows + n_left_out == len(example.rows)


@pytest.mark.parametrize("width", [60, 80])
def test_terminal_and_log_get_the_table(width: int) -> None:
    terminal, log = io.StringIO(), io.StringIO()
    panel = Panel(Console(force_terminal=True, width=width, file=terminal))
    panel(EXAMPLE)
    panel.close()
    PlainLines(log)(EXAMPLE)
    assert terminal.getvalue().splitlines() == example_lines(EXAMPLE, width)
    assert log.getvalue().splitlines() == example_lines(EXAMPLE)


def test_a_notebook_gets_the_table_as_an_output_of_its_own() -> None:
    outputs: list[dict[str, str]] = []

    class Handle:
        def update(self, bundle: dict[str, str], *, raw: bool) -> None: ...

    def show(bundle: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        outputs.append(bundle)
        return Handle()

    display = NotebookPanel(show)
    for event in (replace(EXAMPLE, note="<script>x</script>"), STARTED, logged(10)):
        display(event)
    table, panel = outputs
    assert "example 8" in table["text/plain"]
    assert "<pre" in table["text/html"]
    assert "<script" not in table["text/html"]
    assert "step 10/600" in panel["text/plain"]


def test_an_example_is_recorded_and_stands_in_the_report() -> None:
    assert from_record(to_record(EXAMPLE)) == EXAMPLE
    evil = replace(EXAMPLE, title="<script>x()</script>")
    run_events: tuple[events.Event, ...] = (evil, STARTED)
    report_page = page(build_story(run_events, "run"), config_text="", papers=[])
    assert "What is learnt from an example" in report_page
    assert "-- example 8 " in report_page
    assert "<script" not in report_page
    assert "What is learnt" not in page(build_story([STARTED], "run"), config_text="", papers=[])
