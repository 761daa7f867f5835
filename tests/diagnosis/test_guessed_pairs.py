"""Pairs that are guessed, saturated, or weighed by an unusual beta, and sound ones beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.long_steps import usual_stride
from pellucid.diagnosis.causes.pairing import decided_pairs
from pellucid.diagnosis.causes.preferences import saturated, unusual_beta
from pellucid.diagnosis.causes.rates import too_high
from pellucid.diagnosis.causes.rewards import lost_gradient
from pellucid.diagnosis.finding import read_codes
from support.pair_histories import UPDATES, history, mark

COIN = math.log(2)


def view(
    losses: Sequence[float] = (0.6,) * UPDATES, objective: str = "preferences", **parts: Any
) -> HistoryView:
    return HistoryView(history(objective, losses, **parts))


def code(candidate: Any) -> str | None:
    return None if candidate is None else candidate.code


@pytest.mark.parametrize(
    ("end", "stride", "n", "expected"),
    [
        (COIN, 0.01, UPDATES, "OPT005"),
        (COIN - 0.01, 0.01, UPDATES, "OPT005"),
        (COIN - 0.03, 0.01, UPDATES, None),  # they are told apart
        (COIN, 0.004, UPDATES, None),  # the steps add up to 0.24 of the weights
        (COIN, 0.02, 29, None),  # it may still learn
        (COIN, 0.02, 30, "OPT005"),
    ],
)
def test_pairs_that_are_guessed_after_a_long_way_had_too_high_a_rate(
    end: float, stride: float, n: int, expected: str | None
) -> None:
    guessed = view([COIN, *[end] * (n - 1)], marks={"stride": mark(stride, 8)})
    assert code(too_high(guessed)) == expected


def test_a_new_model_may_go_a_long_way_while_it_guesses() -> None:
    marks = {"stride": mark(0.01, 8)}
    assert code(too_high(view([COIN] * UPDATES, None, marks=marks))) is None
    adapters = view([COIN] * UPDATES, marks=marks, frozen=0.9)
    assert code(too_high(adapters)) is None


@pytest.mark.parametrize(
    ("n", "least", "stride"),
    [(3, "few", 0.0), (4, "few", 0.02), (7, "strides", 0.0), (8, "strides", 0.02)],
)
def test_fewer_steps_tell_the_usual_one_where_the_loss_shows_it_too(
    n: int, least: str, stride: float
) -> None:
    assert usual_stride(view(marks={"stride": mark(0.02, n)}), least) == stride
    assert usual_stride(view(marks={"stride": mark(0.02, 7)})) == 0


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([4.0, 3.9, *[5.0] * 10, *[4.0] * 48], "OPT005"),
        ([4.0, 3.9, *[4.2] * 10, *[4.0] * 48], None),
        ([4.5, *[5.0] * 10, *[4.0] * 49], None),  # one batch may be an easy one
    ],
)
def test_a_rate_that_tears_a_model_in_its_third_update_is_too_high(
    losses: list[float], expected: str | None
) -> None:
    marks = {"stride": mark(0.02, 7)}
    torn = view(losses, None, marks=marks, pretrained=None, vocab_size=1000, betas=(0.9, 0.999))
    assert code(too_high(torn)) == expected


@pytest.mark.parametrize(
    ("n_blank", "end", "equal", "objective", "expected"),
    [
        (15, 20.0, 0.0, "preferences", "GRD002"),
        (15, COIN + 0.05, 0.0, "preferences", "GRD002"),
        (9, 20.0, 0.0, "preferences", None),
        (15, 0.0, 0.0, "preferences", None),  # all pairs are told apart
        (15, COIN, 0.0, "preferences", None),  # all pairs are equal
        (15, 20.0, 1.0, "preferences", None),
        (15, 20.0, 0.0, "rewards", None),
    ],
)
def test_scores_are_saturated_if_wrong_pairs_have_no_gradient(
    n_blank: int, end: float, equal: float, objective: str, expected: str | None
) -> None:
    flat = view(
        [end] * UPDATES,
        objective,
        signs={"answers.equal": equal},
        marks={"blank": mark(0.0, n_blank, 20)},
    )
    assert code(saturated(flat)) == expected


@pytest.mark.parametrize(
    ("beta", "has_reference", "expected"),
    [
        (0.004, True, "PRF007"),
        (0.005, True, None),
        (2.0, True, None),
        (2.1, True, "PRF007"),
        (2.1, False, None),
        (10.0, False, None),
        (11.0, False, "PRF007"),
        (0.004, False, "PRF007"),
    ],
)
def test_beta_may_be_larger_in_a_loss_without_a_reference(
    beta: float, has_reference: bool, expected: str | None
) -> None:
    log_ps = [-30.0, -29.0, -31.0]
    rewards = [0.0, 0.1, 0.2] if has_reference else [beta * log_p for log_p in log_ps]
    columns = {"beta": [beta] * 3, "chosen_reward": rewards, "chosen_logp": log_ps}
    assert code(unusual_beta(view(columns=columns))) == expected


@pytest.mark.parametrize(
    ("start", "dropout", "n_pairs", "expected"),
    [
        (0.798, 0.0, 8, "REF001"),
        (0.798, None, 8, "REF001"),
        (0.798, 0.1, 8, None),
        (0.798, 0.1, None, None),
        (1.2, 0.1, 8, "REF001"),
        (0.86, 0.1, 400, "REF001"),  # chance moves the mean of many pairs by less
        (0.86, 0.1, 8, None),
    ],
)
def test_dropout_moves_the_first_loss_of_a_few_pairs(
    start: float, dropout: float | None, n_pairs: int | None, expected: str | None
) -> None:
    signs = {"uneven": 0.18, "explained": 0.3, "paired": 1.0, "weight": 0.15}
    if n_pairs is not None:
        signs["pairs"] = n_pairs
    named = {f"answers.{name}": value for name, value in signs.items()}
    assert code(decided_pairs(view([start, 0.7], signs=named, dropout=dropout))) == expected


@pytest.mark.parametrize(("groups", "expected"), [(0.4, "LOG006"), (0.5, None), (0.9, None)])
def test_a_norm_of_0_beside_groups_without_spread_may_be_theirs(
    groups: float, expected: str | None
) -> None:
    rows = 4
    columns = {"reward_spread": [0.2] * rows, "equal_groups": [groups] * rows, "cut_off": [0.0] * 4}
    still = view([0.0] * rows, "rewards", columns=columns, norms=[0.0] * rows)
    assert code(lost_gradient(still)) == expected


@pytest.mark.parametrize(
    ("cause", "effect"), [("REF005", "OPT012"), ("REF005", "UPD008"), ("RLH007", "LOG006")]
)
def test_what_a_beta_and_a_temperature_explain(cause: str, effect: str) -> None:
    assert effect in read_codes()[cause].explains
