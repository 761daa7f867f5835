from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.display.curve import History, braille

VALUES = st.lists(st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf]), max_size=300)


def dots(lines: list[str]) -> list[tuple[int, int]]:
    """The places (x, y) of all dots, y from the top, by Unicode's numbering of braille cells."""
    places = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
    return sorted(
        (2 * column + x, 4 * row + y)
        for row, line in enumerate(lines)
        for column, cell in enumerate(line)
        for bit, (x, y) in enumerate(places)
        if (ord(cell) - 0x2800) >> bit & 1
    )


@settings(max_examples=80)
@given(values=VALUES, columns=st.integers(1, 40), rows=st.integers(1, 9))
def test_a_curve_fills_its_box_and_has_one_dot_in_each_dot_column(
    values: list[float], columns: int, rows: int
) -> None:
    lines = braille(values, columns, rows)
    assert [len(line) for line in lines] == [columns] * rows
    assert all(0x2800 <= ord(cell) <= 0x28FF for line in lines for cell in line)
    finite = sum(map(math.isfinite, values))
    assert [x for x, _ in dots(lines)] == list(range(min(finite, 2 * columns)))


def test_the_largest_value_is_at_the_top_and_the_smallest_at_the_bottom() -> None:
    assert dots(braille([3.0, 1.0, 2.0, 5.0], columns=2, rows=3)) == [
        (0, 6),
        (1, 11),
        (2, 8),
        (3, 0),
    ]


def test_a_falling_loss_is_drawn_falling() -> None:
    heights = [y for _, y in dots(braille([math.exp(-i / 40) for i in range(200)], 20, 7))]
    assert heights == sorted(heights)
    assert (heights[0], heights[-1]) == (0, 27)


def test_more_values_than_dots_are_averaged() -> None:
    zigzag = [0.0, 2.0] * 2 + [4.0, 6.0] * 2
    assert dots(braille(zigzag, columns=1, rows=1)) == [(0, 3), (1, 0)]


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]])
def test_nothing_finite_is_an_empty_box(values: list[float]) -> None:
    assert braille(values, 3, 2) == ["⠀⠀⠀", "⠀⠀⠀"]


def test_a_value_that_never_changes_is_a_flat_line() -> None:
    assert len({y for _, y in dots(braille([2.5] * 9, 5, 4))}) == 1


@settings(max_examples=60)
@given(n=st.integers(0, 3000), limit=st.sampled_from([2, 8, 64]), parts=st.integers(1, 7))
def test_a_long_history_stays_short_and_keeps_its_means(n: int, limit: int, parts: int) -> None:
    history = History(limit)
    for start in range(parts):
        history.add(float(i) for i in range(start * n // parts, (start + 1) * n // parts))
    averages = history.averages
    assert len(averages) < limit
    stretch = 1
    while n // stretch >= limit:
        stretch *= 2
    expected = [stretch * i + (stretch - 1) / 2 for i in range(n // stretch)]
    assert averages == pytest.approx(expected)
