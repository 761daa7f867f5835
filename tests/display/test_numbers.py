from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.display.numbers import duration, short, size


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (7, "7"),
        (41.25, "41.2"),
        (999.4, "999"),
        (999.6, "1k"),
        (1234, "1.23k"),
        (412_000, "412k"),
        (999_600, "1M"),
        (3.4e6, "3.4M"),
        (124_439_808, "124M"),
        (6.9e9, "6.9G"),
        (2e12, "2T"),
        (-1500, "-1.5k"),
    ],
)
def test_a_number_is_said_in_three_digits(value: float, said: str) -> None:
    assert short(value) == said


@settings(max_examples=200)
@given(value=st.floats(1, 1e17))
def test_a_short_number_is_right_within_half_a_percent(value: float) -> None:
    match = re.fullmatch(r"([\d.]+)([kMGTP]?)", short(value))
    assert match is not None
    scale = 1000 ** " kMGTP".index(match[2] or " ")
    assert float(match[1]) * scale == pytest.approx(value, rel=0.0051)
    assert len(short(value)) <= 5


@pytest.mark.parametrize(
    ("n_bytes", "said"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (999.9, "1 kB"),
        (1_234_000_000, "1.23 GB"),
        (999_999, "1 MB"),
        (3e12, "3 TB"),
    ],
)
def test_a_size_has_a_unit(n_bytes: float | None, said: str) -> None:
    assert size(n_bytes) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"),
        (59.4, "59s"),
        (59.7, "1m00s"),
        (130, "2m10s"),
        (3599.8, "1h00m"),
        (7260, "2h01m"),
        (360_000, "100h00m"),
        (math.inf, "–"),
        (math.nan, "–"),
    ],
)
def test_a_duration_rounds_over_its_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said
