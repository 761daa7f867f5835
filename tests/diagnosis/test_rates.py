"""How sure a diagnosis of the learning rate is: more with more that runs away, or far from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.rates import no_warm_up, sudden_rise, too_high
from pellucid.diagnosis.causes.standstill import (
    motionless_model,
    short_plain_steps,
    too_low,
)
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.history.history import Reading
from pellucid.vitals import Mark
from support.courses import GUESSING, UNIGRAM, but, curve, flat

#: Signs that ran away, in the order in which they are added.
RUNAWAYS: dict[str, tuple[float, float]] = {
    "update.ratio": (0.5, 0.2),
    "attention.max_logit": (0.4, 900.0),
    "stream.size": (0.1, 300.0),
    "update.kl_forward": (1e-3, 30.0),
}


def view(**changes: Any) -> HistoryView:
    return HistoryView(but(**changes)())


@pytest.mark.parametrize(
    ("n_runaways", "is_hurt", "likely"),
    [(2, False, 0.7), (3, False, 0.8), (2, True, 0.85), (3, True, 0.95), (4, True, 0.95)],
)
def test_a_rate_is_too_high_the_surer_the_more_runs_away(
    n_runaways: int, is_hurt: bool, likely: float
) -> None:
    signs = dict(list(RUNAWAYS.items())[:n_runaways])
    losses = flat(GUESSING - 0.05) if is_hurt else curve(GUESSING, 2.5)
    candidate = too_high(view(signs=signs, losses=losses))
    assert candidate is not None
    assert candidate.likely == pytest.approx(likely)
    assert candidate.severity == (None if is_hurt or n_runaways > 2 else "warn")
    assert candidate.rivals == ()


@pytest.mark.parametrize(("first", "severity"), [(0.2, "note"), (0.8, None)])
def test_a_plateau_alone_makes_no_small_first_update_a_fault(
    first: float, severity: str | None
) -> None:
    signs = {"update.ratio": (first, 0.005)}
    stuck = view(facts={"warmup_steps": 0}, signs=signs, losses=flat(UNIGRAM))
    candidate = no_warm_up(stuck)
    assert candidate is not None
    assert candidate.severity == severity


def test_a_loss_that_began_at_0_need_not_come_down() -> None:
    signs = {"update.ratio": (0.2, 0.005)}
    solved = view(
        facts={"warmup_steps": 0}, signs=signs, losses=[(step, 0.01) for step in range(1, 201)]
    )
    candidate = no_warm_up(solved)
    assert candidate is not None
    assert candidate.severity == "note"


def test_a_sudden_start_makes_it_less_sure_and_names_its_rival() -> None:
    sudden = {"facts": {"warmup_steps": 0}, "losses": curve(GUESSING, 2.5)}
    candidate = too_high(view(signs=dict(list(RUNAWAYS.items())[:3]), **sudden))
    assert candidate is not None
    assert candidate.likely == pytest.approx(0.55)
    assert candidate.rivals == ("OPT006",)


@pytest.mark.parametrize(("later", "likely", "rivals"), [(0.008, 0.8, ()), (0.3, 0.6, ("OPT005",))])
def test_a_missing_warm_up_is_sure_where_later_updates_are_calm(
    later: float, likely: float, rivals: tuple[str, ...]
) -> None:
    changes = {"facts": {"warmup_steps": 0}, "signs": {"update.ratio": (0.5, later)}}
    candidate = no_warm_up(view(**changes))
    assert candidate is not None
    assert (candidate.likely, candidate.rivals) == (likely, rivals)


@pytest.mark.parametrize(("share", "likely"), [(0.4, 0.9), (0.7, 0.7), (1.2, None)])
def test_a_rate_is_too_low_the_surer_the_smaller_the_updates(
    share: float, likely: float | None
) -> None:
    update = share * limit("OPT007", "update")
    changes = {"signs": {"update.ratio": (update, update)}, "losses": curve(GUESSING, 4.5)}
    candidate = too_low(view(**changes))
    assert (None if candidate is None else candidate.likely) == likely


@pytest.mark.parametrize(("stride", "is_hurt"), [(0.2, True), (0.2, False), (0.01, True)])
def test_long_steps_in_the_ledger_count_only_if_the_training_goes_badly(
    stride: float, is_hurt: bool
) -> None:
    losses = [*flat(GUESSING - 1.5)[:60], *flat(GUESSING)[60:]] if is_hurt else curve(GUESSING, 2.5)
    mark = Mark(n_seen=40, n_seeable=40, first=1, values=[stride] * 40)
    history = replace(but(losses=losses)(), marks={"stride": mark})
    candidate = too_high(HistoryView(history))
    assert (candidate is not None) == (is_hurt and stride > limit("OPT005", "stride"))


@pytest.mark.parametrize(("first", "severity"), [(0.2, "note"), (0.8, None)])
def test_a_full_first_step_is_a_note_while_the_loss_comes_down(
    first: float, severity: str | None
) -> None:
    changes = {"facts": {"warmup_steps": 0}, "signs": {"update.ratio": (first, 0.008)}}
    candidate = no_warm_up(view(losses=curve(GUESSING, 2.5), **changes))
    assert candidate is not None
    assert candidate.severity == severity


def test_long_steps_of_a_trained_model_need_no_loss_to_tell() -> None:
    mark = Mark(n_seen=40, n_seeable=40, first=1, values=[0.2] * 40)
    for objective, is_named in (("rewards", True), ("NextToken", False)):
        facts = {"objective": objective, "pretrained": objective == "rewards"}
        history = but(losses=curve(GUESSING, 2.5), facts=facts)()
        candidate = too_high(HistoryView(replace(history, marks={"stride": mark})))
        assert (candidate is not None) == is_named


def test_a_first_step_in_a_warm_up_tells_how_far_the_full_rate_would_go() -> None:
    rates = tuple((step, 0.3 * min(1.0, step / 15)) for step in range(1, 201))
    for first, is_named in ((1.0, True), (0.01, False)):
        signs = {"update.ratio": (first, 0.008)}
        history = but(losses=curve(GUESSING, 3.5), signs=signs, facts={"learning_rate": 0.3})()
        candidate = too_high(HistoryView(replace(history, rates=rates)))
        assert (candidate is not None) == is_named


@pytest.mark.parametrize("peak", [4e-2, 1e-3])
def test_a_warm_up_that_begins_at_a_rate_of_0_is_read_at_its_second_update(peak: float) -> None:
    rates = tuple((step, peak * min(1.0, (step - 1) / 10)) for step in range(1, 81))
    reading = Reading(2, 2 * peak, "calm")  # Adam, weights of a twentieth, a tenth of the rate
    facts = {"learning_rate": peak, "pretrained": False, "objective": "preferences"}
    history = but(losses=curve(0.69, 0.6, 80), facts=facts, signs={})()
    signs = {"update.ratio": (reading,)}
    candidate = too_high(HistoryView(replace(history, rates=rates, signs=signs)))
    assert (candidate is not None) == (peak == 4e-2)


@pytest.mark.parametrize(
    ("rates", "after", "is_named"),
    [
        ([1e-3] * 75 + [3e-2] * 15, 3.5, True),
        ([1e-3] * 75 + [3e-2] * 15, 2.5, False),  # as a warm-up in stages
        ([3e-2] * 20 + [1e-3] * 55 + [3e-2] * 15, 3.5, False),  # a restart
        ([1e-3] * 75 + [3e-3] * 15, 3.5, False),
    ],
)
def test_a_rate_that_jumps_above_all_before_it_is_named_if_the_loss_rises(
    rates: list[float], after: float, *, is_named: bool
) -> None:
    losses = [*enumerate([2.8] * 75 + [after] * 15, start=1)]
    history = replace(but(losses=losses)(), rates=tuple(enumerate(rates, start=1)))
    candidate = sudden_rise(HistoryView(history))
    assert (candidate is not None) == is_named
    assert candidate is None or candidate.step == 76


@pytest.mark.parametrize(
    ("stride", "end", "is_named"), [(1e-5, 0.69, True), (1e-5, 0.4, False), (1e-3, 0.69, False)]
)
def test_weights_that_stand_still_are_named_if_the_loss_does(
    stride: float, end: float, *, is_named: bool
) -> None:
    mark = Mark(n_seen=40, n_seeable=40, first=1, values=[stride] * 40, steps=[*range(1, 41)])
    history = but(losses=curve(0.69, end, 100), facts={"vocab_size": None})()
    candidate = motionless_model(HistoryView(replace(history, marks={"stride": mark})))
    assert (candidate is not None) == is_named


@pytest.mark.parametrize(("peak", "is_named"), [(1.0, False), (0.01, True)])
def test_few_steps_of_a_warm_up_speak_of_the_full_rate(peak: float, *, is_named: bool) -> None:
    rates = tuple((step, peak * min(1.0, step / 100)) for step in range(1, 201))
    strides = [1e-4 * rate for _, rate in rates[:8]]
    mark = Mark(n_seen=8, n_seeable=8, first=1, values=strides, steps=[*range(1, 9)])
    losses = tuple((step, 3.0 + 0.2 * (-1) ** step) for step in range(1, 201))
    history = but(losses=losses, facts={"vocab_size": None, "learning_rate": peak})()
    history = replace(history, rates=rates, marks={"stride": mark})
    assert HistoryView(history).distance == pytest.approx(0.015 * peak, rel=0.01)
    assert (motionless_model(HistoryView(history)) is not None) == is_named


@pytest.mark.parametrize(
    ("stride", "kl", "is_named"),
    [(1e-7, None, True), (1e-3, 1e-8, True), (1e-3, 1e-3, False), (1e-5, None, False)],
)
def test_a_loss_that_falls_by_chance_needs_weights_or_predictions_that_are_stiller(
    stride: float, kl: float | None, *, is_named: bool
) -> None:
    mark = Mark(n_seen=40, n_seeable=40, first=1, values=[stride] * 40, steps=[*range(1, 41)])
    losses = [(step, 3.0 + 0.2 * (-1) ** step - 0.1 * step / 100) for step in range(1, 101)]
    signs = {} if kl is None else {"update.kl_forward": (kl, kl)}
    history = but(losses=losses, signs=signs, facts={"vocab_size": None})()
    candidate = motionless_model(HistoryView(replace(history, marks={"stride": mark})))
    assert (candidate is not None) == is_named


@pytest.mark.parametrize(("share_at_peak", "is_low"), [(0.1, True), (4.0, False)])
def test_small_updates_at_the_foot_of_a_schedule_do_not_speak_of_its_peak(
    share_at_peak: float, is_low: bool
) -> None:
    least, losses = limit("OPT007", "update"), curve(GUESSING, 4.5)
    # three of four updates lie at the foot of a cycle
    rates = tuple((step, 1e-3 if step % 40 < 10 else 1e-5) for step, _ in losses)
    readings = tuple(
        Reading(step, least * (share_at_peak if rate == 1e-3 else 0.01), "calm")
        for step, rate in rates
    )
    history = but(signs={"update.ratio": readings}, losses=losses, rates=rates)()
    assert (too_low(HistoryView(history)) is not None) == is_low


@pytest.mark.parametrize(("at_peak", "is_named"), [(3e-3, False), (1e-4, True)])
def test_steps_of_a_warm_up_count_as_much_larger_as_the_rate_becomes(
    at_peak: float, is_named: bool
) -> None:
    rates = tuple((step, 1e-3 * min(step, 200 - step) / 100) for step in range(1, 201))
    steps = list(range(1, 41))
    strides = Mark(40, 40, 1, [at_peak * rates[step - 1][1] / 1e-3 for step in steps], steps)
    history = but(losses=curve(GUESSING, 4.5), signs={"update.ratio": ()})()
    history = replace(history, rates=rates, marks={"stride": strides})
    assert (too_low(HistoryView(history)) is not None) == is_named


def test_small_first_steps_say_nothing_of_the_rate() -> None:
    low = limit("OPT007", "update") / 10
    for step, is_low in ((1, False), (40, True)):
        signs = {"update.ratio": (Reading(step, low, "calm"),)}
        candidate = too_low(HistoryView(but(signs=signs, losses=curve(GUESSING, 4.5))()))
        assert (candidate is not None) == is_low


@pytest.mark.parametrize(
    ("start", "fall", "severity"), [(0.69, 0.0, "note"), (2.0, 0.05, None), (2.0, 0.2, "note")]
)
def test_a_hot_start_harms_where_a_loss_of_tokens_stays(
    start: float, fall: float, severity: str | None
) -> None:
    losses = [(step, start - (fall if step > 10 else 0.0)) for step in range(1, 121)]
    signs = {"update.ratio": (0.2, 0.005)}
    facts = {"warmup_steps": 0, "vocab_size": None, "unigram": None, "bigram": None}
    candidate = no_warm_up(view(facts=facts, signs=signs, losses=losses))
    assert candidate is not None
    assert candidate.severity == severity


def test_a_first_step_near_the_bound_is_no_note_while_the_loss_comes_down() -> None:
    for losses, is_named in ((curve(GUESSING, 2.5), False), (flat(UNIGRAM), True)):
        changes = {"facts": {"warmup_steps": 0}, "signs": {"update.ratio": (0.11, 0.008)}}
        assert (no_warm_up(view(losses=losses, **changes)) is not None) == is_named


def test_a_distance_from_a_teacher_is_not_compared_with_guessing() -> None:
    for single, severity in ((0.1, "note"), (1.0, None)):
        signs = {"update.ratio": (0.2, 0.008), "targets.single": (single, single)}
        changes = {"facts": {"warmup_steps": 0}, "signs": signs}
        candidate = no_warm_up(view(losses=curve(52.0, 22.0), **changes))
        assert candidate is not None
        assert candidate.severity == severity


@pytest.mark.parametrize(
    ("stride", "size_in_rates", "end", "is_named"),
    [
        (5e-5, 0.02, 3.0, True),
        (1e-3, 0.02, 3.0, False),  # long enough
        (5e-5, 1.0, 3.0, False),  # each number moves by the rate
        (5e-5, 0.02, 3.49, False),  # nothing is to be learnt
    ],
)
def test_plain_steps_of_a_trained_model_that_are_short_are_named_if_it_learns(
    stride: float, size_in_rates: float, end: float, *, is_named: bool
) -> None:
    steps = [*range(1, 41)]
    facts = {"betas": None, "optimiser": "SGD", "momentum": 0.9, "warmup_steps": 0}
    history = but(losses=curve(3.5, end), facts=facts | {"pretrained": True})()
    rates = tuple((step, 1e-3) for step in range(1, 201))
    marks = {
        "stride": Mark(40, 40, 1, [stride] * 40, steps),
        "drift": Mark(40, 40, 1, [stride / size_in_rates] * 40, steps),
    }
    candidate = short_plain_steps(HistoryView(replace(history, rates=rates, marks=marks)))
    assert (candidate is not None) == is_named
