"""Signs that were wrong, or missing, in loops that strangers wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid.diagnosis import History, Reading, diagnose
from pellucid.vitals import Mark, MarkName
from support.courses import GUESSING, curve, healthy

SOUND: dict[MarkName, Mark] = {
    "follows": Mark(n_seen=7, n_seeable=7, first=1, values=[1.0] * 7),
    "same_rows": Mark(n_seeable=40),
}
CAUSAL = {"call.future": (Reading(1, 0.0, ""),), "targets.unmoved": (Reading(1, 0.0, ""),)}
SOLVED = curve(GUESSING, 0.01, 200, quick=5.0)


def once(**values: float) -> dict[str, Any]:
    return {id.replace("_", ".", 1): (Reading(1, value, ""),) for id, value in values.items()}


def named(**changes: Any) -> list[tuple[str, str]]:
    signs = healthy().signs | changes.pop("signs", {})
    facts = replace(healthy().facts, **changes.pop("facts", {}))
    findings = diagnose(replace(healthy(), signs=signs, facts=facts, **changes))
    return [(finding.code, finding.severity) for finding in findings]


def codes(**changes: Any) -> list[str]:
    return [code for code, severity in named(**changes) if severity != "note"]


def test_a_schedule_at_0_from_the_first_update_on_never_steps() -> None:
    rates = tuple((step, 0.0) for step in range(1, 201))
    still = curve(GUESSING, GUESSING, 200)
    assert codes(rates=rates, losses=still, facts={"initial_rate": 1e-3})[:1] == ["UPD005"]
    assert codes(rates=rates, losses=still)[:1] == ["OPT013"]


def test_padding_makes_no_plateau_of_a_healthy_training() -> None:
    signs = once(batch_interleaved=2.2, batch_entropy=2.3)
    losses, facts = curve(GUESSING, 2.28, 200), {"unigram": None, "bigram": None}
    assert codes(signs=signs, losses=losses, facts=facts)[:1] == ["DAT009"]
    assert codes(signs=signs | once(targets_counted=0.57), losses=losses, facts=facts) == []


def test_targets_of_another_text_are_named_where_only_their_frequencies_are_learnt() -> None:
    unrelated = once(targets_unrelated=0.98, batch_entropy=3.0)
    plateau, sound = curve(GUESSING, 3.05, 200), curve(GUESSING, 2.0, 200)
    facts = {"unigram": None, "bigram": None}
    assert codes(signs=unrelated, losses=plateau, facts=facts)[:1] == ["LOS003"]
    assert codes(signs=unrelated, losses=sound, facts=facts) == []
    assert codes(losses=plateau, facts=facts) == []


@pytest.mark.parametrize(
    ("signs", "code"),
    [
        (once(call_falling_positions=0.43, call_documents=3.4), "POS004"),
        (once(batch_highest=0.6, batch_unspelt=0.6), "DAT024"),
        (once(call_hidden=1.0, call_past=0.0), "ATT011"),
        (once(call_documents=3.4), "ATT004"),
        (once(batch_unspelt=0.6), "DAT004"),
    ],
)
def test_one_fault_has_one_name(signs: dict[str, Any], code: str) -> None:
    assert codes(signs=signs) == [code]


def long_steps(size: float) -> dict[MarkName, Mark]:
    return {"stride": Mark(n_seen=7, n_seeable=7, first=2, values=[size] * 7)}


def test_adapters_whose_steps_tear_what_the_model_knew_have_too_high_a_rate() -> None:
    start = GUESSING - 2
    torn = ((1, start), (2, start), (3, start), *((n, start + 0.8) for n in range(4, 120)))
    learnt = curve(start, start - 0.5, 120)
    facts = {"frozen": 0.9, "adapted": True}
    assert codes(losses=torn, marks=long_steps(0.6), facts=facts)[:1] == ["OPT005"]
    assert "OPT005" not in codes(losses=learnt, marks=long_steps(0.6), facts=facts)
    # other texts may be harder, and steps of this size are usual for adapters
    assert "OPT005" not in codes(losses=torn, marks=long_steps(0.1), facts=facts)


@pytest.mark.parametrize(("size", "is_still"), [(1e-6, True), (1e-4, False)])
def test_eight_steps_of_a_warm_up_tell_of_a_rate_of_next_to_nothing(
    size: float, *, is_still: bool
) -> None:
    rates = tuple((step, 1e-7 * min(1.0, step / 20)) for step in range(1, 161))
    steps = list(range(1, 9))
    strides = Mark(8, 8, 1, [size * step / 20 for step in steps], steps)
    still = curve(GUESSING, GUESSING - 0.01, 160)
    signs, facts = {"update.ratio": (), "loss.probe": ()}, {"learning_rate": 1e-7}
    found = codes(losses=still, rates=rates, facts=facts, marks={"stride": strides}, signs=signs)
    assert ("OPT007" in found) is is_still


def test_gradients_that_pile_up_are_the_cause_of_a_loss_that_is_none() -> None:
    left: dict[MarkName, Mark] = {"left": Mark(n_seen=60, n_seeable=60, first=2, values=[3.0] * 60)}
    losses = (*curve(GUESSING, 30.0, 60), *((step, float("nan")) for step in range(61, 100)))
    stopped = (61, "loss", "")
    assert codes(losses=losses, stopped=stopped, marks=left)[:1] == ["OPT014"]


def test_two_readings_of_shrunken_weights_are_enough_for_a_heavy_decay() -> None:
    facts = {"weight_decay": 15.0, "decays": "matrices"}
    sizes = {"weights.size": tuple(Reading(s, v, "") for s, v in ((1, 1.0), (64, 0.2), (112, 0.2)))}
    assert codes(facts=facts, signs=sizes) == ["OPT010"]
    kept = {"weights.size": tuple(Reading(s, v, "") for s, v in ((1, 1.0), (64, 0.9), (112, 0.9)))}
    assert codes(facts=facts | {"weight_decay": 5.0}, signs=kept) == []
    # weights of any size that remember 67 updates alone
    assert named(facts=facts, signs=kept)[:1] == [("OPT010", "warn")]


def test_narrow_heads_of_trained_weights_are_no_fault_of_their_start() -> None:
    heads = once(attention_entropy=0.6, attention_max_logit=9.0)
    without_size = {id: sign for id, sign in healthy().signs.items() if id != "weights.size"}
    new = replace(healthy(), signs=without_size | heads)
    assert [finding.code for finding in diagnose(new)][:1] == ["INI004"]
    trained = replace(new, losses=curve(GUESSING - 2, 2.0, 200))
    assert "INI004" not in [finding.code for finding in diagnose(trained)]


@pytest.mark.parametrize(
    ("single", "weight", "expected"),
    [(1.0, 0.55, ["note"]), (0.01, 0.33, []), (1.0, 1.0, [])],  # Adam's steps are as long
)
def test_a_loss_below_log_p_counts_ignored_places_only_if_its_gradient_does(
    single: float, weight: float, expected: list[str]
) -> None:
    signs = once(targets_single=single, targets_weight=weight, loss_probe=GUESSING / 0.55)
    assert [severity for code, severity in named(signs=signs) if code == "LOS010"] == expected


def test_another_term_beside_a_sound_gradient_is_a_note() -> None:
    signs = once(loss_probe=GUESSING / 1.3)
    assert ("LOS013", "note") not in named(signs=signs)
    assert ("LOS013", "note") in named(signs=signs | once(targets_weight=1.0))


def test_a_rule_that_is_learnt_at_once_is_a_note_if_the_call_leaks_nothing() -> None:
    facts = replace(healthy().facts, bigram=2.4, unigram=3.2)
    signs = {id: sign for id, sign in healthy().signs.items() if id != "loss.probe"}
    fast = replace(healthy(), losses=SOLVED, facts=facts, signs=signs)
    (leak,) = (finding for finding in diagnose(fast) if finding.code == "DAT011")
    assert leak.severity == "fault"
    sound = replace(fast, signs=signs | CAUSAL, marks=SOUND)
    (rule,) = (finding for finding in diagnose(sound) if finding.code == "DAT011")
    assert rule.severity == "note"


@pytest.mark.parametrize(("share", "expected"), [(0.8, ["DAT002"]), (1.0, [])])
def test_one_text_that_fills_the_data_is_named_and_one_batch_is_not(
    share: float, expected: list[str]
) -> None:
    mark = Mark(n_seen=30, n_seeable=40, first=9, values=[share] * 30)
    assert codes(marks={"one_row": mark}) == expected


def history_of_rows(times: list[float], losses: Any) -> History:
    known = Mark(
        n_seen=40, n_seeable=40, first=2, values=times, steps=list(range(1, len(times) + 1))
    )
    marks = SOUND | {"known_rows": known}
    return replace(healthy(), losses=losses, marks=marks, signs=healthy().signs | CAUSAL)


def test_rows_that_are_known_by_heart_need_few_sightings() -> None:
    times = [4.0] * 40
    (finding,) = (
        finding for finding in diagnose(history_of_rows(times, SOLVED)) if finding.code == "DAT021"
    )
    assert "by heart" in finding.text()
    unsolved = diagnose(history_of_rows(times, healthy().losses))
    assert [finding.code for finding in unsolved] == []


@pytest.mark.parametrize(("spread", "is_named"), [(0.05, True), (0.6, False)])
def test_a_loss_of_other_rows_differs_from_log_p_as_losses_do_among_themselves(
    spread: float, is_named: bool
) -> None:
    signs = once(loss_probe=GUESSING / 1.3)
    falling = curve(GUESSING, 2.0, 200)
    losses = tuple((step, loss - spread * (step % 2 == 0)) for step, loss in falling)
    assert ("LOS013" in codes(signs=signs, losses=losses)) == is_named
    # of several parts of an update, the first one shows less
    parts: dict[MarkName, Mark] = {"parts": Mark(n_seen=1, n_seeable=1, values=[400.0])}
    assert "LOS013" not in codes(signs=signs, losses=losses, marks=parts)


@pytest.mark.parametrize(("first", "is_solved"), [(0.02, False), (0.45, False), (0.55, True)])
def test_a_part_of_log_p_near_0_is_no_solved_task(first: float, is_solved: bool) -> None:
    losses = tuple((step, GUESSING * first * 0.9 ** (step - 1)) for step in range(1, 101))
    findings = named(losses=losses, signs=once(loss_probe=GUESSING))
    assert ("FIT005" in [code for code, _ in findings]) == is_solved


@pytest.mark.parametrize(
    ("ratio", "counted", "expected"),
    [(0.3, 0.3, ["LOS010"]), (0.3, 0.9, []), (0.9, 0.9, []), (0.01, 0.01, [])],
)
def test_a_loss_of_logits_counts_ignored_places_if_it_is_lower_by_their_share(
    ratio: float, counted: float, expected: list[str]
) -> None:
    single = once(targets_single=1.0, targets_weight=ratio, targets_nats=GUESSING / ratio)
    signs = {id: sign for id, sign in healthy().signs.items() if id != "loss.probe"}
    course = replace(healthy(), signs=signs | single | once(targets_counted=counted))
    assert [f.code for f in diagnose(course) if f.code == "LOS010"] == expected
