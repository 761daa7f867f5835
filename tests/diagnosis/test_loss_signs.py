"""Losses whose size is wrong: below zero, of a teacher, or with places that are not paid for."""

from __future__ import annotations

import pytest

from pellucid.diagnosis.causes.fit import solved
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.objective import CAUSES, diluted, negative_loss
from pellucid.diagnosis.causes.reference import foreign_teacher
from support.courses import but, curve


@pytest.mark.parametrize(("start", "end", "is_turned"), [(0.6, -4.0, False), (-0.6, -4.0, True)])
def test_only_a_loss_that_begins_below_zero_is_turned_round(
    start: float, end: float, is_turned: bool
) -> None:
    candidate = negative_loss(HistoryView(but(signs={}, losses=curve(start, end))()))
    assert (candidate is not None) == is_turned


def test_a_loss_against_a_teacher_that_begins_below_zero_is_of_probabilities() -> None:
    for single, end, code in (
        (0.0, -24.0, "LOS005"),
        (0.0, -90.0, "LOS009"),  # what is turned round falls without end
        (0.25, -90.0, "LOS005"),
        (1.0, -24.0, None),
    ):
        signs, losses = {"targets.single": (single, single)}, curve(-23.0, end)
        candidate = negative_loss(HistoryView(but(signs=signs, losses=losses)()))
        assert (candidate and candidate.code) == code


@pytest.mark.parametrize(("single", "is_solved"), [(0.3, False), (1.0, True)])
def test_a_small_divergence_from_a_teacher_says_nothing_of_what_is_left(
    single: float, *, is_solved: bool
) -> None:
    signs = {"targets.single": (single, single), "loss.probe": (1.07, 0.03)}
    view = HistoryView(but(signs=signs, losses=curve(1.07, 0.03), facts={"vocab_size": None})())
    assert (solved(view) is not None) == is_solved


@pytest.mark.parametrize(("smoothing", "is_named"), [(0.9, False), (0.0, True)])
def test_a_teacher_whose_shares_are_even_favours_no_token(
    smoothing: float, *, is_named: bool
) -> None:
    signs = {"targets.single": (0.1, 0.1), "targets.taught": (0.5, 0.5)}
    signs["targets.smoothing"] = (smoothing, smoothing)
    assert (foreign_teacher(HistoryView(but(signs=signs)())) is not None) == is_named


@pytest.mark.parametrize(("single", "is_named"), [(0.75, False), (1.0, True)])
def test_a_squared_distance_from_a_teacher_is_no_softmax_and_sound(
    single: float, *, is_named: bool
) -> None:
    signs = {"targets.single": (single, single), "targets.unbalanced": (0.6, 0.6)}
    view = HistoryView(but(signs=signs)())
    named = [candidate.code for cause in CAUSES if (candidate := cause(view)) is not None]
    assert ("LOS005" in named) == is_named


@pytest.mark.parametrize(("counted", "code"), [(0.33, "LOS010"), (0.26, "LOS007")])
def test_ignored_places_are_counted_if_targets_weigh_by_just_their_share(
    counted: float, code: str
) -> None:
    signs = {"loss.probe": (4.5, 2.5), "targets.single": (1.0, 1.0), "targets.weight": (0.33, 0.33)}
    signs |= {"targets.counted": (counted, counted), "targets.smoothing": (0.0, 0.0)}
    losses = tuple((step, 0.33 * loss) for step, loss in curve(4.5, 2.5))
    candidate = diluted(HistoryView(but(signs=signs, losses=losses)()))
    assert candidate is not None
    assert (candidate.code, candidate.severity) == (code, "note")


def test_a_teacher_beside_the_text_is_no_factor_of_the_loss() -> None:
    signs = {"loss.probe": (4.5, 2.5), "targets.single": (0.9, 0.9), "targets.weight": (0.6, 0.6)}
    signs["targets.counted"] = (1.0, 1.0)  # its gradient is not that of one target: no smoothing
    losses = tuple((step, 0.6 * loss) for step, loss in curve(4.5, 2.5))
    assert diluted(HistoryView(but(signs=signs, losses=losses)())) is None


@pytest.mark.parametrize(
    ("raised", "start", "is_named"), [(0.1, 2.6, True), (0.5, 2.6, False), (0.0, -2.6, False)]
)
def test_a_teacher_that_knows_less_than_its_student_is_foreign(
    raised: float, start: float, *, is_named: bool
) -> None:
    signs = {"targets.single": (0.1, 0.1), "targets.raised": (raised, raised)}
    view = HistoryView(but(signs=signs, losses=curve(start, start - 1))())
    assert (foreign_teacher(view) is not None) == is_named
