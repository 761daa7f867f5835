"""What the first call shows of targets, positions, masks and weights; what losses show."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pellucid.diagnosis import Reading, diagnose
from pellucid.vitals import Mark, MarkName
from support.courses import GUESSING, UNIGRAM, but, flat, healthy


def once(id: str, value: float, word: Any = "sick") -> dict[str, tuple[Reading, ...]]:
    """One reading at the first update."""
    return {id: (Reading(1, value, word),)}


@pytest.mark.parametrize(
    ("signs", "code"),
    [
        (once("call.past", 0.0), "ATT005"),
        (once("call.rest", 0.0), "ATT005"),
        (once("call.row_order", 0.2), "POS003"),
        (once("weights.added_rows", 3.0), "GRD003"),
        (once("weights.added_rows", 0.0, ""), None),
        (once("targets.early", 10.0), "LOS003"),
        (once("targets.early", 0.0, ""), None),
        (once("weights.new_table", 1.0, "") | once("weights.trained", 1.0, ""), "WGT004"),
        (once("weights.new_table", 1.0, "") | once("weights.trained", 0.0, ""), None),
        (once("call.row_order", 0.0, ""), None),
        (once("call.past", 1e-3, ""), None),
        (once("call.past", 0.0) | once("call.one_position", 1.0), "POS003"),
        (once("call.joined", 0.5), "ATT004"),
        (once("call.joined", 0.0, ""), None),
        (once("call.joined_ends", 0.0, ""), None),
        (once("batch.columns", 4.0), "DAT009"),
        (once("batch.columns", 0.0, ""), None),
        (once("batch.disorder", 1.0, ""), None),
        (once("call.past", 0.0) | once("norm.variance_over_eps", 1e-6), "INI006"),
        (once("call.misfit", 0.5), "ATT011"),
        (once("call.misfit", 0.0, ""), None),
        (once("call.first_position", 60.0), "POS005"),
        (once("call.first_position", 2.0, ""), None),
        (once("call.wavelength", 0.1), "POS006"),
        (once("weights.alike", 1.0), "INI007"),
        (once("weights.alike", 1.0) | once("weights.trained", 1.0, ""), None),
        (once("weights.alike", 1.0) | once("weights.trained", 0.5, ""), "INI007"),
        (once("targets.beside", 4.0), "LOS034"),
        (once("targets.beside", 2.0, ""), None),
        (once("targets.unasked", 0.2), "LOS031"),
        (once("targets.unpaid_masks", 0.5), "LOS031"),
        (once("targets.one_id", 1.0) | once("targets.own", 0.0), "LOS004"),
        (once("targets.own", 0.0), "LOS003"),
        (once("targets.evenness", 0.04), "LOS004"),
        (once("targets.evenness", 0.4, ""), None),
        (once("batch.falls", 0.0), "DAT009"),
        (once("batch.scattered", 0.5), "DAT012"),
        (once("batch.scattered", 0.2, ""), None),
        (once("batch.unspelt", 0.5), "DAT004"),
        (once("batch.unspelt", 0.2, ""), None),
        (once("call.shown_before", 0.5), "ATT003"),
        (once("call.shown_before", 0.1, ""), None),
        (once("targets.nats", GUESSING, ""), None),
        (once("targets.taught", -0.7) | once("targets.single", 0.2), "LOS003"),
        (once("targets.taught", 40.0) | once("targets.single", 0.2), None),
        (once("targets.taught", 0.1) | once("targets.single", 1.0), None),
        (once("targets.skipped", 0.75) | once("targets.single", 0.2), "LOS002"),
        (once("answers.last", 1.0), "LOS004"),
        (once("answers.last", 0.0), None),
    ],
)
def test_what_the_first_call_shows_is_named(signs: dict[str, Any], code: str | None) -> None:
    course = healthy()
    codes = [finding.code for finding in diagnose(replace(course, signs=course.signs | signs))]
    assert codes[:1] == ([code] if code else [])


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_tokens_without_order_are_named_where_frequencies_are_all_that_is_learnt(
    ratio: float,
) -> None:
    course, entropy = healthy(), once("batch.entropy", UNIGRAM, "")
    signs = course.signs | once("batch.disorder", ratio, "") | entropy
    for end, codes in ((UNIGRAM, ["DAT009"]), (UNIGRAM - 0.5, [])):
        losses = tuple((step, max(end, GUESSING - 0.1 * step)) for step in range(1, 120))
        found = diagnose(replace(course, signs=signs, losses=losses))
        assert [finding.code for finding in found if finding.severity != "note"] == codes


def test_an_end_between_packed_texts_makes_a_note_of_what_they_read() -> None:
    course = healthy()
    (finding,) = diagnose(replace(course, signs=course.signs | once("call.joined_ends", 0.5)))
    assert (finding.code, finding.severity) == ("ATT004", "note")


@pytest.mark.parametrize(
    ("first", "kept", "severity"),
    [(2, 1, "warn"), (1, None, "note"), (2, None, "note"), (2, 7, "note"), (9, None, "warn")],
)
def test_a_model_that_was_in_training_mode_before_has_been_left_in_the_other(
    first: int, kept: int | None, severity: str
) -> None:
    mark = Mark(n_seen=40, n_seeable=40, first=first, values=[1.0] * 9)
    course, signs = healthy(), {i: r for i, r in healthy().signs.items() if "call." not in i}
    if kept is not None:
        signs["call.inputs"] = (Reading(kept, 0.5, ""),)
    rested = replace(course, marks={"resting": mark}, signs=signs)
    findings = diagnose(replace(rested, facts=replace(course.facts, dropout=0.1)))
    assert [(f.code, f.severity) for f in findings] == [("UPD007", severity)]


def test_a_new_model_that_is_trained_in_evaluation_mode_is_no_note() -> None:
    mark = Mark(n_seen=40, n_seeable=40, first=1, values=[1.0] * 9)
    course = healthy()
    for trained, severity in ((0.0, "warn"), (1.0, "note")):
        signs = {i: r for i, r in course.signs.items() if "call." not in i}
        signs |= once("weights.trained", trained, "calm")
        facts = replace(course.facts, dropout=0.1)
        findings = diagnose(replace(course, marks={"resting": mark}, signs=signs, facts=facts))
        assert [(f.code, f.severity) for f in findings] == [("UPD007", severity)]


def test_rows_that_are_paid_to_their_end_are_not_cut_off_by_it() -> None:
    course = healthy()
    cut = Mark(n_seen=9, n_seeable=9, first=1, values=[1.0] * 9)
    seen = once("targets.padding", 0.7) | once("targets.open_answers", 1.0)
    findings = diagnose(replace(course, signs=course.signs | seen, marks={"padded": cut}))
    assert [f.code for f in findings if f.severity != "note"] == ["DAT006"]


def test_a_loss_of_the_wrong_sign_asks_for_no_teacher() -> None:
    course = healthy()
    lowered = Mark(n_seen=7, n_seeable=7, first=1, values=[1.0] * 7)
    signs = course.signs | once("targets.taught", -0.7) | once("targets.single", 0.2)
    losses = ((1, GUESSING), (60, GUESSING))
    found = diagnose(replace(course, losses=losses, signs=signs, marks={"lowered": lowered}))
    assert {"LOS009", "LOS003"} & {finding.code for finding in found} == {"LOS009"}


def test_a_loss_that_begins_far_below_its_targets_has_another_term() -> None:
    course = healthy()
    signs = once("targets.nats", GUESSING, "")
    for name in ("weight", "single", "evenness"):
        signs |= once(f"targets.{name}", 1.0, "")
    losses = tuple((step, 0.05) for step in range(1, 100))
    (first, *_) = diagnose(replace(course, losses=losses, signs=signs))
    assert first.code == "LOS013"


@pytest.mark.parametrize(("noise", "codes"), [(0.1, ["DAT001"]), (None, [])])
def test_losses_that_stop_going_up_and_down_are_of_one_batch(
    noise: float | None, codes: list[str]
) -> None:
    """A run without ups and downs at all has one large batch by design."""
    course = healthy()
    smooth = tuple((s, 2.3 + 3.0 / s**0.5) for s, _ in course.losses)
    losses = tuple((s, v + noise * (-1) ** s) if noise and s < 160 else (s, v) for s, v in smooth)
    found = diagnose(replace(course, losses=losses))
    assert [finding.code for finding in found if finding.severity != "note"] == codes


def test_weights_that_come_back_slowly_met_no_bad_batch() -> None:
    course = healthy()
    torn = tuple((s, v + (3.0 * 0.8 ** (s - 120) if s >= 120 else 0.0)) for s, v in course.losses)
    assert "DAT008" not in [finding.code for finding in diagnose(replace(course, losses=torn))]


def test_steps_that_become_far_shorter_at_once_are_told() -> None:
    course, steps = healthy(), list(range(21, 61))
    for shorter, codes in ((1e-3, ["UNK001"]), (0.2, [])):
        values = [1e-2 if step < 40 else 1e-2 * shorter for step in steps]
        mark = Mark(n_seen=40, n_seeable=40, first=21, values=values, steps=steps)
        assert [f.code for f in diagnose(replace(course, marks={"stride": mark}))] == codes


def test_batches_that_come_in_turn_are_all_the_data() -> None:
    mark = Mark(n_seen=4, n_seeable=8, first=5, values=[1.0] * 4, steps=[5, 6, 7, 8])
    (finding,) = diagnose(replace(healthy(), marks={"known_rows": mark}))
    assert finding.code == "DAT021"
    some = replace(mark, values=[1.0, 0.875, 1.0, 1.0])
    assert diagnose(replace(healthy(), marks={"known_rows": some})) == []
    # each batch twice in a row: half of those that were looked at were new
    twice = replace(mark, n_seeable=9)
    assert diagnose(replace(healthy(), marks={"known_rows": twice})) == []


@pytest.mark.parametrize(("optimiser", "codes"), [("LBFGS", []), ("AdamW", ["LOS007"])])
def test_an_optimiser_that_asks_for_a_loss_again_has_no_parts(
    optimiser: str, codes: list[str]
) -> None:
    course = healthy()
    marks: dict[MarkName, Mark] = {
        name: Mark(n_seen=9, n_seeable=9, first=1, values=[value] * 9, steps=[*range(1, 10)])
        for name, value in (("parts", 3.0), ("outputs", 5.9))
    }
    facts = replace(course.facts, optimiser=optimiser)
    assert [f.code for f in diagnose(replace(course, marks=marks, facts=facts))] == codes


def test_a_norm_that_brings_a_small_embedding_to_size_is_a_note() -> None:
    course = healthy()
    small = once("norm.variance_over_eps", 1e-3)
    for size, severity in ((0.03, "note"), (1e-4, "warn")):
        signs = course.signs | small | once("stream.rms", size, "")
        (finding,) = diagnose(replace(course, signs=signs))
        assert (finding.code, finding.severity) == ("INI006", severity)


def test_a_plateau_of_text_whose_tokens_tell_their_targets_is_no_fault_of_the_data() -> None:
    course = but(losses=flat(UNIGRAM))()
    for tied, is_said in ((1.0, True), (8.0, False)):
        findings = diagnose(replace(course, signs=course.signs | once("targets.tied", tied, "")))
        assert ("DAT009" in {finding.code for finding in findings}) == is_said


@pytest.mark.parametrize(
    ("tied", "paid", "is_said"),
    [(1.0, 0.15, True), (2.6, 0.15, False), (None, 0.15, False), (None, 0.9, True)],
)
def test_a_masked_model_may_stay_at_frequencies_unless_its_masks_tell_nothing(
    tied: float | None, paid: float, is_said: bool
) -> None:
    course = but(losses=flat(UNIGRAM))()
    signs = course.signs | once("call.right", 0.1, "") | once("targets.counted", paid, "")
    signs |= {} if tied is None else once("targets.tied", tied, "")
    codes = {finding.code for finding in diagnose(replace(course, signs=signs))}
    assert ("DAT009" in codes) == is_said


def test_what_takes_the_scale_of_a_loss_off_again_is_no_cut() -> None:
    course, values = healthy(), [2.0**-12 / (1 + n % 3) for n in range(99)]
    facts = replace(course.facts, clip_norm=None, betas=None)
    mark = Mark(n_seen=99, n_seeable=99, first=2, values=values)
    for weight, is_said in ((4096.0, False), (1.0, True)):
        signs = course.signs | once("targets.weight", weight, "")
        findings = diagnose(replace(course, facts=facts, signs=signs, marks={"cut": mark}))
        assert ("UPD008" in {finding.code for finding in findings}) == is_said


def test_answers_without_an_end_are_a_fault_and_texts_without_one_are_a_note() -> None:
    course = healthy()
    for sign, severity in (("targets.endless", "note"), ("targets.open_answers", "warn")):
        (finding,) = diagnose(replace(course, signs=course.signs | once(sign, 1.0)))
        assert (finding.code, finding.severity) == ("DAT019", severity)


def test_an_answer_that_stands_in_its_prompt_is_named() -> None:
    course = healthy()
    findings = diagnose(replace(course, signs=course.signs | once("targets.copied", 1.0)))
    assert [finding.code for finding in findings] == ["DAT032"]


def test_adagrad_needs_no_warm_up() -> None:
    course = healthy()
    signs = course.signs | {"update.ratio": (Reading(1, 0.8, "sick"), Reading(150, 0.005, ""))}
    facts = replace(course.facts, warmup_steps=0, betas=None)
    for slows_down, severity in ((True, "note"), (None, "warn")):
        history = replace(course, signs=signs, facts=replace(facts, slows_down=slows_down))
        assert [f.severity for f in diagnose(history) if f.code == "OPT006"] == [severity]


def test_a_trained_model_that_learns_no_more_of_a_text_is_no_fault_and_a_new_head_is() -> None:
    losses = tuple((step, GUESSING + 0.01 * math.sin(step)) for step in range(1, 201))
    facts = replace(healthy().facts, unigram=None, bigram=None)
    course = replace(healthy(), losses=losses, facts=facts, signs={})

    def named(**values: float) -> bool:
        signs = {id.replace("__", "."): (Reading(1, v, ""),) for id, v in values.items()}
        findings = diagnose(replace(course, signs=signs))
        return "FIT004" in {finding.code for finding in findings}

    assert named(weights__trained=0.5)
    assert not named(weights__trained=1.0)
    assert named(weights__trained=1.0, targets__classes=70.0)


def test_answers_of_a_models_own_end_where_a_limit_of_length_ends_them() -> None:
    course = healthy()
    signs = course.signs | once("targets.open_answers", 1.0)
    for is_own, codes in ((True, []), (None, ["DAT019"])):
        facts = replace(course.facts, own_answers=is_own)
        findings = diagnose(replace(course, facts=facts, signs=signs))
        assert [finding.code for finding in findings] == codes
