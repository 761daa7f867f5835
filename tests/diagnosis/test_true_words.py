"""Sentences say what was measured, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid.diagnosis import History, Reading, diagnose
from pellucid.diagnosis.causes.config_warnings import hot_without_warm_up
from pellucid.diagnosis.causes.data import too_good
from pellucid.diagnosis.causes.fit import nothing_learnt, solved, stopped_falling
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.rates import find_runaways, no_warm_up
from pellucid.diagnosis.causes.repetition import other_vocabularies
from pellucid.diagnosis.causes.schedules import idle_schedule, zero_start
from pellucid.diagnosis.finding import limit, read_codes
from pellucid.vitals import Mark
from support.courses import GUESSING, but, curve, flat, healthy


def view(**changes: Any) -> HistoryView:
    return HistoryView(but(**changes)())


def rows_of_log(losses: Any, step: int = 10) -> Any:
    """Each tenth point, as a log has it."""
    return tuple(point for point in losses if point[0] % step == 0)


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (tuple((n, 1e-3) for n in range(1, 201)), ", at 100% of the highest rate,"),
        (tuple((n, 1e-3 if n > 5 else 6e-4) for n in range(1, 201)), ", at 60% of the"),
    ],
)
def test_a_hot_start_names_its_share_of_the_highest_rate(rates: Any, words: str) -> None:
    signs = {"update.ratio": (0.6, 0.005)}
    candidate = no_warm_up(view(rates=rates, signs=signs, facts={"learning_rate": 1e-3}))
    assert candidate is not None
    assert words in candidate.message


def test_predictions_that_jump_are_given_in_nats() -> None:
    runaways = find_runaways(view(signs={"update.kl_forward": (1e-3, 30.0)}))
    assert runaways["kl"][1].endswith("nats a token")


def test_a_log_without_its_first_updates_has_no_known_start() -> None:
    losses = flat(GUESSING - 0.01, 400)
    whole, log = (view(losses=points) for points in (losses, rows_of_log(losses)))
    known, unknown = nothing_learnt(whole), nothing_learnt(log)
    assert known is not None
    assert unknown is not None
    assert "it began at" in known.message
    assert "began" not in unknown.message


def test_a_flat_end_says_which_way_it_moved() -> None:
    rising = tuple((n, loss + 4e-5 * n) for n, loss in curve(GUESSING, 2.5, 400, quick=10.0))
    candidate = stopped_falling(view(losses=rising))
    assert candidate is not None
    assert "above that of the third before" in candidate.message


def test_rows_of_a_log_are_no_updates() -> None:
    zeros = tuple((n, 0.0 if n <= 120 else 1e-3) for n in range(10, 401, 10))
    candidate = zero_start(view(rates=zeros, losses=rows_of_log(curve(GUESSING, 2.5, 400))))
    assert candidate is not None
    assert "up to update 120 of 400" in candidate.message
    foot = tuple((n, 1e-5) for n in range(10, 1001, 10))
    candidate = idle_schedule(
        view(rates=foot, facts={"initial_rate": 1e-3}, losses=rows_of_log(flat(3.0, 1000)))
    )
    assert candidate is not None
    assert "in all 1000 updates" in candidate.message


def test_a_loss_that_is_too_low_names_the_update_of_its_lowest() -> None:
    losses = rows_of_log(((n, max(0.02, 4.0 - 0.1 * n)) for n in range(1, 201)), 5)
    losses = ((1, GUESSING), *losses)
    candidate = too_good(view(losses=losses, facts={"bigram": 2.5}))
    assert candidate is not None
    assert "by update 40" in candidate.message


def test_a_batch_that_came_thrice_is_not_called_the_only_one() -> None:
    repeats = tuple(Reading(n, float(n > 90) * (n - 90), "calm") for n in (1, 50, 90, 91, 92))
    history: History = replace(healthy(), signs={"batch.repeats": repeats})
    (finding,) = [f for f in diagnose(history) if f.code == "DAT001"]
    assert "update 92 met the same batch as the 2 readings before" in finding.what


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("ARC009", "dead"),
        ("ARC010", "high"),
        ("ARC012", "least"),
        ("ARC013", "most"),
        ("FIT002", "flat"),
        ("FIT003", "falling"),
        ("INI006", "variance"),
    ],
)
def test_what_is_expected_is_what_is_asked(code: str, name: str) -> None:
    assert f"{limit(code, name):g}" in read_codes()[code].threshold


@pytest.mark.parametrize(("start", "is_solved"), [(0.7, True), (0.2, False)])
def test_a_loss_that_began_low_is_not_solved_by_being_low(start: float, *, is_solved: bool) -> None:
    losses = tuple((n, max(0.02, start * 0.9**n)) for n in range(1, 201))
    signs = {"loss.probe": (start, 0.02)}
    assert (solved(view(losses=losses, signs=signs)) is not None) == is_solved


@pytest.mark.parametrize(("end", "is_named"), [(2.5, False), (GUESSING + 0.1, True)])
def test_a_config_says_nothing_against_a_loss_that_came_down(end: float, *, is_named: bool) -> None:
    facts = {"learning_rate": 0.05, "warmup_steps": 0}
    signs = {"update.ratio": ()}
    hot = view(facts=facts, signs=signs, losses=curve(GUESSING, end))
    assert (hot_without_warm_up(hot) is not None) == is_named


@pytest.mark.parametrize(("objective", "is_named"), [(None, True), ("rewards", False)])
def test_answers_that_change_with_their_policy_are_no_other_vocabulary(
    objective: str | None, *, is_named: bool
) -> None:
    marks = {"unlike": Mark(n_seen=37, n_seeable=40, first=2)}
    changing = view(facts={"objective": objective}, marks=marks)
    assert (other_vocabularies(changing) is not None) == is_named
