"""Losses of single answers and against teachers, other tokenizers, policies that say one token."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pellucid.diagnosis import Finding, History, Reading, diagnose
from support.courses import UNIGRAM, but, flat
from support.pair_histories import UPDATES, history, mark
from support.post_training import Loop, dpo, grpo, named, sft

FALLING = [5.0 - 0.05 * step for step in range(UPDATES)]


def alarms(training: History) -> list[str]:
    return [f.code for f in diagnose(training) if f.severity != "note"]


def notes(training: History) -> list[Finding]:
    return [finding for finding in diagnose(training) if finding.severity == "note"]


def read(nats: float, share: float, *, new: float = 0.0, trained: float = 1.0) -> History:
    """Trained weights that read a text; guessing costs 6.9 nats."""
    signs = {"targets.text_nats": nats, "targets.recognised": share}
    signs |= {"weights.trained": trained, "weights.new_table": new}
    losses = [nats - 0.03 * step for step in range(UPDATES)]
    return history(None, losses, signs=signs, vocab_size=1000, pretrained=None)


def taught(end: float = 0.01, single: float = 0.5, **facts: Any) -> History:
    losses = [5.0 * math.exp(-step / 4) + end for step in range(UPDATES)]
    return history(None, losses, signs={"targets.single": single}, pretrained=None, **facts)


def nameless(norm: float, stride: float = 1e-3) -> History:
    """A training whose losses are all NaN."""
    losses, marks = [math.nan] * UPDATES, {"stride": mark(stride)}
    plain = history(None, losses, norms=[norm] * UPDATES, marks=marks, pretrained=None)
    return replace(plain, stopped=(1, "loss", ""))


def stuck(first: float, last: float, objective: str | None = "rewards") -> History:
    columns = {"reward": [0.1 + 0.01 * i for i in range(UPDATES)], "reward_spread": [0.3] * UPDATES}
    plain = history(objective, [0.0] * UPDATES, columns)
    readings = (Reading(8, first, "calm"), Reading(40, last, "calm"))
    return replace(plain, signs={"batch.stuck": readings})


@pytest.mark.parametrize(("balance", "codes"), [(50.0, ["PRF011"]), (0.02, ["PRF011"]), (4.0, [])])
def test_a_side_with_nearly_all_of_the_weight_is_named(balance: float, codes: list[str]) -> None:
    signs = {"answers.lowered": 0.5, "answers.balance": balance}
    assert alarms(history("rewards", [0.5] * UPDATES, signs=signs)) == codes


def test_ids_of_another_tokenizer_are_named_and_text_of_another_kind_is_a_note() -> None:
    assert alarms(read(9.0, 0.55)) == ["WGT004"]
    assert alarms(read(8.4, 0.57)) == []
    assert [note.code for note in notes(read(8.4, 0.57))] == ["UNK002"]
    assert alarms(read(9.0, 0.65)) == []


def test_a_new_vocabulary_and_new_weights_are_no_other_tokenizer() -> None:
    for training in (read(9.0, 0.5, new=1.0), read(9.0, 0.5, trained=0.0)):
        texts = [finding.text() for finding in diagnose(training)]
        assert not any("other tokens" in text for text in texts)
        assert "UNK002" not in [note.code for note in notes(training)]


@pytest.mark.parametrize(("nats", "severity"), [(9.0, "warn"), (4.0, "note")])
def test_a_table_drawn_anew_is_meant_if_its_tokens_are_learnt(nats: float, severity: str) -> None:
    training = read(nats, 0.5, new=1.0)
    entropy = (Reading(1, 5.0, ""),)
    training = replace(training, signs=training.signs | {"batch.entropy": entropy})
    assert [f.severity for f in diagnose(training) if f.code == "WGT004"] == [severity]


def test_a_teacher_that_the_optimiser_trains_is_named() -> None:
    assert alarms(taught(trains_another=True)) == ["REF002"]
    assert alarms(taught(trains_another=False)) == []
    assert alarms(taught(trains_another=True, single=1.0)) == []
    assert alarms(taught(trains_another=True, end=1.0)) == []


def test_a_reference_that_the_optimiser_trains_is_named() -> None:
    falling = [0.69 - 0.005 * i for i in range(UPDATES)]
    for trains_another, codes in ((True, ["REF002"]), (False, [])):
        assert alarms(history("preferences", falling, trains_another=trains_another)) == codes
    assert alarms(history("rewards", falling, trains_another=True)) == []  # it may be a critic


def test_losses_that_are_no_numbers_beside_sound_gradients_are_the_losses_fault() -> None:
    assert alarms(nameless(3.0)) == ["LOS005"]
    assert alarms(nameless(math.nan)) == ["NUM004"]
    assert alarms(nameless(3.0, stride=math.nan)) == ["NUM004"]


def test_a_policy_that_says_one_token_is_named_although_its_reward_rises() -> None:
    assert alarms(stuck(0.0, 0.9)) == ["RLH007"]
    assert alarms(stuck(0.0, 0.1)) == []
    assert alarms(stuck(0.0, 0.9, objective=None)) == []


def test_a_distance_from_a_teacher_is_not_a_mean_of_cross_entropies_that_is_too_small() -> None:
    signs = {"targets.single": 0.69, "targets.nats": 1.27, "targets.weight": 0.76}
    signs |= {"targets.counted": 0.62}
    marks = {"parts": mark(1.0)}
    losses = [0.9 - 0.01 * step for step in range(UPDATES)]
    options: dict[str, Any] = {"signs": signs, "marks": marks, "pretrained": None}
    codes = [finding.code for finding in diagnose(history(None, losses, **options))]
    assert "LOS007" not in codes
    options["signs"] = signs | {"targets.single": 1.0, "targets.smoothing": 0.0}
    assert "LOS007" in [finding.code for finding in diagnose(history(None, losses, **options))]


def test_a_teacher_whose_shares_are_nearly_even_asks_for_them_and_not_for_one_token() -> None:
    signs = {"targets.own": 0.002, "targets.smoothing": 0.99, "targets.single": 0.2}
    assert alarms(history(None, FALLING, signs=signs, pretrained=None)) == ["LOS013"]


def test_copies_of_a_policy_are_no_pairs() -> None:
    signs = {"answers.tail": 0.0, "answers.equal": 1.0}
    assert "PRF003" in alarms(history("preferences", signs=signs))
    assert "PRF003" not in alarms(history("rewards", signs=signs))


@pytest.mark.parametrize("loss", [dpo, grpo], ids=["pairs", "rewards"])
def test_only_a_cross_entropy_is_compared_with_guessing(loss: Any) -> None:
    _, w = Loop(loss, updates=12).run()
    assert not {"loss.value", "loss.learnt"} & {sign.id for sign in w.signs}
    assert "not known to be of tokens" in w.missing["loss.value"]
    _, w = Loop(partial(sft), model=named, updates=12).run()
    assert "loss.value" in {sign.id for sign in w.signs}


@pytest.mark.parametrize(("trained", "severity"), [(0.0, "fault"), (1.0, "note")])
def test_answers_may_cost_trained_weights_as_much_as_frequencies_by_chance(
    trained: float, severity: str
) -> None:
    course = but(losses=flat(UNIGRAM))()
    signs = course.signs | {"weights.trained": (Reading(1, trained, ""),)}
    facts = replace(course.facts, has_prompts=True)
    findings = diagnose(replace(course, signs=signs, facts=facts))
    assert [f.severity for f in findings if f.code == "DAT009"] == [severity]
