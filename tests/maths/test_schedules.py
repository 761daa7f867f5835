from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.maths import constant, cosine, linear, warm_up_stable_decay

FEW_EXAMPLES = settings(max_examples=60)
Schedule = Callable[[int], float]


@st.composite
def schedules(draw: st.DrawFn) -> tuple[str, Schedule, int, int, int, float]:
    """Name, schedule, warm-up, first step of the descent, all steps, where it ends."""
    warm_up, falling = draw(st.integers(0, 50)), draw(st.integers(1, 100))
    plateau, final = draw(st.integers(0, 50)), draw(st.floats(0, 1))
    name = draw(st.sampled_from(["linear", "cosine", "warm_up_stable_decay"]))
    if name == "warm_up_stable_decay":
        total = warm_up + plateau + falling
        schedule = partial(
            warm_up_stable_decay, warm_up=warm_up, decay=falling, total=total, final=final
        )
        return name, schedule, warm_up, warm_up + plateau, total, final
    total = warm_up + falling
    shape = {"linear": linear, "cosine": cosine}[name]
    full_schedule = partial(shape, warm_up=warm_up, total=total, final=final)
    return name, full_schedule, warm_up, warm_up, total, final


@FEW_EXAMPLES
@given(drawn=schedules())
def test_schedule_rises_stays_falls_and_ends_at_final(
    drawn: tuple[str, Schedule, int, int, int, float],
) -> None:
    name, schedule, warm_up, descent, total, final = drawn
    values = [schedule(step) for step in range(total + 20)]
    assert values[0] == (0.0 if warm_up else 1.0)
    assert all(value == 1.0 for value in values[warm_up : descent + 1])
    assert all(value == pytest.approx(final, abs=1e-12) for value in values[total:])
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in values)
    # continuous: no step jumps further than the steepest slope allows
    steepest = math.pi / 2 if name == "cosine" else 1.0
    for step in range(total + 19):
        change = values[step + 1] - values[step]
        if step < warm_up:
            assert change == pytest.approx(1 / warm_up, abs=1e-12)
        else:
            assert -steepest * (1 - final) / (total - descent) - 1e-9 <= change <= 1e-12


@FEW_EXAMPLES
@given(warm_up=st.integers(0, 50))
def test_constant_rises_and_stays(warm_up: int) -> None:
    assert constant(0, warm_up=warm_up) == (0.0 if warm_up else 1.0)
    assert {constant(step, warm_up=warm_up) for step in range(warm_up, warm_up + 5)} == {1.0}


def test_cosine_is_half_way_down_half_way_through() -> None:
    assert cosine(60, warm_up=20, total=100, final=0.2) == pytest.approx(0.6, rel=1e-12)


def test_published_cosine_with_warm_up_is_reproduced(shared_data: Path) -> None:
    file = shared_data / "reference-vectors" / "lr_schedule.json"
    expected = json.loads(file.read_text())["cosine_with_warmup"]["lrs_for_it_0_to_24"]
    own_factors = [cosine(step, warm_up=7, total=21, final=0.1) for step in range(25)]
    assert own_factors == pytest.approx(expected, rel=1e-12)
