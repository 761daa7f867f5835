"""Faults of loops that the ledger of updates sees, and loops that are odd and sound."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.diagnosis import Facts, History, Reading, declare, diagnose, history_of_watch
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.updates import parts_not_divided
from pellucid.diagnosis.history.weight_shares import (
    adapter_scale,
    frozen_share,
    is_body_frozen,
    rate_fall,
    slow_share,
    untrained_share,
)
from pellucid.model.lora import LoRALinear
from pellucid.vitals import Mark, MarkName, watch
from support import loops, odd_loops
from support.courses import GUESSING, but, curve, healthy
from support.loops import Loop
from support.nightly import sampled

FAULTS: list[tuple[type[Loop], str]] = [
    (loops.Uncleared, "OPT014"),
    (loops.ClearedTooSoon, "UPD002"),
    (loops.StepBeforeBackward, "UPD002"),
    (loops.PutBack, "UPD001"),
    (loops.WrittenOver, "UPD001"),
    (loops.SteppedTwice, "UPD003"),
    (loops.UndividedDescent, "LOS007"),
    (loops.ScheduleByPart, "UPD004"),
    (loops.CoupledDecay, "UPD006"),
    (loops.Rested, "UPD007"),
    (loops.Forgetful, "OPT015"),
    (loops.MadeAnew, "OPT015"),
    (loops.Pulled, "UPD010"),
    (loops.Cut, "UPD008"),
    (loops.OldHead, "OPT003"),
    (loops.CopyHeld, "OPT003"),
    (loops.StepsEnd, "OPT017"),
    (loops.SameBatch, "DAT001"),
    (loops.Discarding, "UPD009"),
    (loops.Climbing, "LOS009"),
    (loops.Stale, "UPD011"),
    (loops.Faint, "GRD005"),
]


def _named(value: object) -> str:
    return str(getattr(value, "__name__", value))


@pytest.mark.parametrize(("kind", "code"), sampled(FAULTS), ids=_named)
def test_a_fault_of_a_loop_is_named_first(kind: type[Loop], code: str) -> None:
    assert kind().codes()[:1] == [code]


def test_a_batch_that_the_model_does_not_see_in_training_mode_is_none() -> None:
    rested = loops.Rested()
    assert rested.codes() == ["UPD007"]
    assert rested.watch is not None
    assert rested.watch.state.marks["same_rows"].n_seen == 0


@pytest.mark.nightly
def test_a_schedule_that_never_steps_is_named() -> None:
    assert loops.StuckSchedule().codes(110)[:1] == ["UPD005"]


ODD: dict[str, Any] = {
    "as it should be": Loop,
    "accumulated": loops.Accumulated,
    "undivided under Adam": loops.Undivided,
    "clipped": odd_loops.Clipped,
    "restarts": lambda: odd_loops.Scheduled(odd_loops.restarts),
    "warm, stable, decay": lambda: odd_loops.Scheduled(odd_loops.warm_then_stable_then_decayed),
    "averaged": odd_loops.Averaged,
    "pruned": odd_loops.Pruned,
    "lookahead": odd_loops.Lookahead,
    "centralised": odd_loops.Centralised,
    "in turn": odd_loops.InTurn,
    "adapted": odd_loops.Adapted,
    "tied": odd_loops.Tied,
    "eight bits": odd_loops.eight_bits,
    "scaled": odd_loops.Scaled,
}


@pytest.mark.parametrize("name", sampled(ODD))
def test_an_odd_loop_that_is_sound_gets_no_warning(name: str) -> None:
    assert ODD[name]().codes() == []


@pytest.mark.parametrize(("start", "codes"), [(-math.log(2), ["LOS009"]), (-0.4, [])])
def test_a_loss_of_pairs_that_begins_at_minus_ln_2_is_turned_round(
    start: float, codes: list[str]
) -> None:
    losses = tuple((step, start - 0.01 * (step - 1)) for step in range(1, 61))
    findings = diagnose(History(name="pairs", losses=losses, facts=Facts(objective="rewards")))
    assert [finding.code for finding in findings if finding.severity != "note"] == codes


@pytest.mark.parametrize(("climb", "is_note"), [(0.0, True), (1.0, False)])
def test_decay_in_adams_gradient_is_no_note_where_the_loss_climbs(
    climb: float, is_note: bool
) -> None:
    losses = tuple((step, 3 + climb * step / 60) for step in range(1, 61))
    marks: dict[MarkName, Mark] = {"pull": Mark(n_seen=6, n_seeable=6, first=2, values=[15.0] * 6)}
    findings = diagnose(History(name="tuned", losses=losses, facts=Facts(), marks=marks))
    severities = {finding.code: finding.severity for finding in findings}
    assert (severities["UPD006"] == "note") is is_note


@pytest.mark.parametrize(("same_rows", "codes"), [(0, ["DAT023"]), (7, [])])
def test_masks_at_the_same_places_of_other_rows_are_named(same_rows: int, codes: list[str]) -> None:
    masks = Mark(n_seen=7, n_seeable=7, first=2, values=[0.9] * 7)
    rows = Mark(n_seen=same_rows, n_seeable=7, first=2, values=[1.0] * same_rows)
    findings = diagnose(replace(healthy(), marks={"same_masks": masks, "same_rows": rows}))
    assert [finding.code for finding in findings if finding.code == "DAT023"] == codes


def test_weights_that_are_declared_are_no_finding() -> None:
    assert odd_loops.Declared().codes(12) == ["OPT001"]
    assert odd_loops.Declared().codes(12, frozen=["embed"]) == []


def test_a_few_sightings_weigh_less_than_many_and_once_may_be_meant() -> None:
    def likely(seen: int) -> tuple[str, float]:
        mark = Mark(n_seen=seen, n_seeable=60, first=11, values=[9.0] * seen)
        (finding,) = diagnose(replace(healthy(), marks={"restored": mark}))
        assert finding.code == "UPD001"
        return finding.severity, finding.confidence

    assert likely(1)[0] == "note"
    assert likely(2) < likely(30) == ("fault", 0.99)


def test_where_too_little_was_seen_nothing_is_named() -> None:
    for name in ("bare", "repeated", "unmoved", "rates", "resting", "cut", "pull", "left"):
        mark = Mark(n_seen=3, n_seeable=3, first=2, values=[0.01] * 3)
        assert diagnose(replace(healthy(), marks={name: mark})) == [], name


@pytest.mark.parametrize(("noise", "codes"), [(1e-5, ["PRF001"]), (0.02, [])])
def test_a_loss_of_a_coin_at_every_update_compares_equal_sides(
    noise: float, codes: list[str]
) -> None:
    losses = tuple((step, math.log(2) + noise * (-1) ** step) for step in range(1, 60))
    found = diagnose(History(name="pairs", losses=losses))
    assert [finding.code for finding in found if finding.severity != "note"] == codes


ROUNDED = Mark(n_seen=20, n_seeable=20, first=2, values=[0.5] * 20)
AT_BOUND = Mark(n_seen=20, n_seeable=20, first=1, values=[0.3] * 20)
NOISE = Mark(n_seen=20, n_seeable=20, first=2, values=[3.0] * 20)
CUT = {"batch.cut_length": (Reading(1, 5.0, "sick"),)}
#: masks come between the neighbours of a text
MASKED = {
    "batch.interleaved": (Reading(1, 3.0, "watch"),),
    "call.right": (Reading(1, 0.5, "calm"),),
}
STILL = tuple((step, GUESSING) for step in range(1, 80))
#: gradients that end before the first block
IDLE = {
    "gradient.depth_ratio": (Reading(1, 0.0, ""), Reading(4, 0.0, "")),
    "gradient.zeros": (Reading(1, 0.5, ""), Reading(4, 0.5, "")),
}
WRITTEN = tuple(Reading(step, 15.0, "watch") for step in (21, 41, 61))
AGAIN = {"update.written_again": (Reading(41, 1.0, ""), Reading(61, 1.0, ""))}
SAWTOOTH = tuple((step, 3.0 - 0.05 * ((step - 1) % 20)) for step in range(1, 80))
ODD_MASKS = {
    "targets.kin": (Reading(8, 0.4, "watch"),),
    "targets.equal": (Reading(8, 1.1 / math.exp(GUESSING), ""),),
    "targets.unbalanced": (Reading(1, 0.0, ""),),
}
UNEVEN = {"targets.equal": (Reading(8, 0.05, ""),)}
LENGTHS = Mark(n_seen=8, n_seeable=8, first=1, values=[5.0, 4.0] * 4)
LOWERED = Mark(n_seen=4, n_seeable=8, first=1, values=[1.0] * 4)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"marks": {"rounded": ROUNDED}}, "NUM001"),
        ({"marks": {"shifted": replace(LOWERED, values=[3.0, 1.0, 2.0, 5.0])}}, "LOS003"),
        ({"marks": {"shifted": LOWERED}}, None),
        ({"marks": {"lowered": LOWERED}}, None),
        ({"marks": {"lowered": LOWERED}, "losses": ((1, GUESSING), (60, GUESSING))}, "LOS009"),
        ({"signs": {"targets.class_weights": (Reading(9, 25.0, "sick"),)}}, "LOS019"),
        ({"signs": {"targets.class_smoothing": (Reading(9, 0.9, "sick"),)}}, "LOS013"),
        (
            {"signs": {"targets.gap": (Reading(24, 0.4, "sick"), Reading(40, 9.0, "sick"))}},
            "LOS005",
        ),
        ({"signs": {"targets.gap": (Reading(24, 0.4, "sick"), Reading(40, 0.1, ""))}}, None),
        (
            {"signs": {"logits.most": (Reading(33, 0.05, "sick"), Reading(65, 0.05, "sick"))}},
            "LOS038",
        ),
        ({"signs": {"logits.most": (Reading(33, 0.05, "sick"), Reading(65, 1.0, ""))}}, None),
        ({"signs": {"logits.class_most": (Reading(8, 0.4, "sick"),)}}, "LOS038"),
        ({"signs": {"logits.class_most": (Reading(8, 1.0, ""),)}}, None),
        ({"signs": {"logits.class_zeros": (Reading(8, 0.4, "sick"),)}}, "LOS038"),
        ({"signs": {"logits.class_zeros": (Reading(8, 0.0, ""),)}}, None),
        (
            {"signs": {"logits.pull": (Reading(33, -1.0, "sick"), Reading(65, -0.9, "sick"))}},
            "LOS038",
        ),
        ({"signs": {"logits.pull": (Reading(33, 0.3, ""), Reading(65, 0.3, ""))}}, None),
        ({"signs": {"targets.exclusive": (Reading(9, 1.0, "watch"),)}}, "LOS039"),
        ({"signs": {"targets.exclusive": (Reading(9, 0.8, ""),)}}, None),
        (
            {
                "signs": {
                    "targets.none_first": (Reading(9, 3.0, ""), Reading(41, 19.0, "")),
                    "targets.unclassed": (Reading(9, 0.1, ""),),
                }
            },
            "DAT038",
        ),
        ({"signs": {"targets.none_first": (Reading(9, 3.0, ""),)}}, None),
        ({"signs": {"targets.squashed": (Reading(9, 1.0, "sick"),)}}, "LOS008"),
        ({"signs": {"targets.focus": (Reading(9, 30.0, "watch"),)}}, "LOS013"),
        ({"signs": {"targets.focus": (Reading(9, 2.5, ""),)}}, None),
        ({"signs": {"targets.one_number": (Reading(9, 1.0, "sick"),)}}, "LOS003"),
        ({"signs": {"targets.misplaced": (Reading(9, 0.4, "sick"),)}}, "LOS003"),
        ({"signs": {"targets.misplaced": (Reading(9, 0.01, ""),)}}, None),
        ({"signs": {"targets.impossible": (Reading(9, 0.3, "sick"),)}}, "LOS005"),
        ({"signs": {"targets.several": (Reading(9, 0.3, "sick"),)}}, "LOS005"),
        ({"signs": {"targets.reshaped": (Reading(1, 1.0, "sick"),)}}, "LOS005"),
        ({"signs": {"targets.label_weights": (Reading(9, 50.0, "sick"),)}}, "LOS019"),
        ({"signs": {"targets.key": (Reading(9, 1.0, "sick"),)}}, "DAT011"),
        ({"signs": {"targets.unread": (Reading(1, 0.99, "sick"),)}}, "LOS003"),
        ({"signs": {"targets.unclosed": (Reading(1, 1.0, "watch"),)}}, "DAT019"),
        ({"signs": {"batch.decoder": (Reading(1, 1.0, "sick"),)}}, "DAT014"),
        ({"signs": ODD_MASKS}, None),
        ({"signs": ODD_MASKS, "losses": ((1, GUESSING), (150, GUESSING))}, "LOS003"),
        ({"signs": ODD_MASKS | UNEVEN, "losses": ((1, GUESSING), (150, GUESSING))}, "FIT004"),
        ({"facts": replace(healthy().facts, untrained=0.5)}, "GRD003"),
        ({"signs": {"batch.highest": (Reading(1, 0.7, "sick"),)}}, "DAT024"),
        ({"signs": {"targets.renamed": (Reading(1, 1.0, "watch"),)}}, "DAT030"),
        ({"signs": {"targets.easiness": (Reading(1, 1.0, "watch"),)}}, "LOS030"),
        ({"signs": {"targets.paid": (Reading(1, 0.02, "watch"),)}}, "LOS004"),
        ({"signs": {"targets.paid": (Reading(1, 0.06, "calm"),)}}, None),
        ({"signs": {"batch.interleaved": (Reading(1, 3.0, "watch"),)}}, None),
        (
            {"signs": {"batch.interleaved": (Reading(1, 3.0, "watch"),)}, "losses": STILL},
            "DAT009",
        ),
        ({"marks": {"unlike": ROUNDED}}, "DAT031"),
        ({"marks": {"unlike": replace(ROUNDED, n_seen=19)}}, None),
        ({"marks": {"unlike": replace(ROUNDED, n_seen=19)}, "losses": STILL}, "DAT031"),
        ({"signs": IDLE}, "GRD002"),
        ({"signs": IDLE | {"gradient.zeros": (Reading(1, 0.0, ""), Reading(4, 0.0, ""))}}, None),
        ({"signs": {"update.written": WRITTEN}, "losses": SAWTOOTH}, "UPD010"),
        ({"signs": {"update.written": WRITTEN} | AGAIN, "losses": SAWTOOTH}, "UPD001"),
        ({"signs": healthy().signs | {"update.written": WRITTEN}}, None),
        ({"signs": CUT}, "DAT015"),
        ({"signs": CUT, "marks": {"length": LENGTHS}}, None),
        ({"marks": {"weight_bound": AT_BOUND}}, "UPD012"),
        ({"marks": {"noise": NOISE}}, "UPD011"),
        ({"signs": {"targets.started": (Reading(1, 1.0, "sick"),)}}, "DAT013"),
        ({"facts": replace(healthy().facts, betas=(0.999, 0.9995))}, "OPT018"),
        ({"facts": replace(healthy().facts, betas=(0.98, 0.99))}, None),
    ],
)
def test_what_later_updates_show_is_named(changes: dict[str, Any], code: str | None) -> None:
    codes = [finding.code for finding in diagnose(replace(healthy(), **changes))]
    assert code in codes if code else codes == []


def test_masks_between_neighbours_do_not_interleave_a_text() -> None:
    findings = diagnose(replace(healthy(), signs=MASKED, losses=STILL))
    assert [finding.code for finding in findings] == ["FIT004"]


@pytest.mark.parametrize(("lost", "severity"), [(0.02, "note"), (0.6, "warn")])
def test_weights_in_bfloat16_are_a_note_while_steps_arrive(lost: float, severity: str) -> None:
    facts = replace(healthy().facts, weights="bfloat16")
    mark = Mark(n_seen=20, n_seeable=20, first=1, values=[lost] * 20)
    (finding,) = diagnose(replace(healthy(), facts=facts, marks={"lost": mark}))
    assert (finding.code, finding.severity) == ("NUM001", severity)


@pytest.mark.parametrize("name", ["noise", "gradient_bound"])
def test_short_noise_and_cut_gradients_are_notes_while_the_loss_falls(name: MarkName) -> None:
    mark = Mark(n_seen=20, n_seeable=20, first=2, values=[0.8] * 20)
    (finding,) = diagnose(replace(healthy(), marks={name: mark}))
    assert (finding.code, finding.severity) == (
        "UPD011" if name == "noise" else "UPD012",
        "note",
    )


@pytest.mark.parametrize(
    ("size", "losses", "severity"),
    [(3.0, None, "note"), (3.0, STILL, "warn"), (1.9, STILL, "note")],
)
def test_long_noise_is_a_warning_only_where_little_is_learnt(
    size: float, losses: Any, severity: str
) -> None:
    mark = Mark(n_seen=20, n_seeable=20, first=2, values=[size] * 20)
    course = replace(healthy(), marks={"noise": mark}, losses=losses or healthy().losses)
    severities = [f.severity for f in diagnose(course) if f.code == "UPD011"]
    assert severities == [severity]


def test_a_loop_of_several_tasks_is_not_judged_by_its_first_call() -> None:
    signs = healthy().signs | {"targets.skipped": (Reading(1, 1.0, "sick"),)}
    (skipped,) = diagnose(replace(healthy(), signs=signs))
    marks: dict[MarkName, Mark] = {"follows": LOWERED}
    (one_of_two,) = diagnose(replace(healthy(), signs=signs, marks=marks))
    assert (skipped.code, skipped.severity) == ("LOS002", "fault")
    assert (one_of_two.code, one_of_two.severity) == ("LOS002", "note")


@pytest.mark.parametrize(
    ("times", "last_step", "codes"),
    [(30.0, 40, ["DAT021"]), (6.0, 40, []), (12.0, 40, []), (12.0, 80, ["DAT021"]), (6.0, 200, [])],
)
def test_rows_that_came_many_times_are_few(times: float, last_step: int, codes: list[str]) -> None:
    """Of 40 updates that were looked at; rows came in the others as often."""
    values, steps = zip(*((times * n / 40, n * last_step // 40) for n in range(1, 41)), strict=True)
    mark = Mark(n_seen=40, n_seeable=40, first=2, values=[*values], steps=[*steps])
    found = diagnose(replace(healthy(), marks={"known_rows": mark}))
    assert [finding.code for finding in found if finding.severity != "note"] == codes


def test_a_class_0_without_rows_is_a_note_if_no_row_is_left_out() -> None:
    signs = {"targets.none_first": (Reading(9, 19.0, ""),)}
    found = diagnose(replace(healthy(), signs=signs))
    assert [(finding.code, finding.severity) for finding in found] == [("DAT038", "note")]


@pytest.mark.parametrize(
    ("kinds", "codes"),
    [([0.0, 1.0], ["DAT022"]), ([1.0], ["DAT022"]), ([0.0] * 19 + [1.0], [])],
)
def test_batches_of_one_class_are_named_unless_one_is_rare(
    kinds: list[float], codes: list[str]
) -> None:
    values = (kinds * 40)[:40]
    mark = Mark(n_seen=40, n_seeable=40, first=1, values=values, steps=list(range(1, 41)))
    found = diagnose(replace(healthy(), marks={"one_class": mark}))
    assert [finding.code for finding in found if finding.severity != "note"] == codes


@pytest.mark.parametrize(("size", "codes"), [(3.0, ["UPD010"]), (0.3, [])])
def test_weights_that_move_between_updates_are_written_over(size: float, codes: list[str]) -> None:
    steps = list(range(2, 42))
    mark = Mark(n_seen=40, n_seeable=40, first=2, values=[size] * 40, steps=steps)
    found = diagnose(replace(healthy(), marks={"overwritten": mark}))
    assert [finding.code for finding in found if finding.severity != "note"] == codes


@pytest.mark.parametrize(("rise", "codes"), [(1.0, ["UPD010"]), (0.0, [])])
def test_new_weights_are_named_only_where_the_loss_rises(rise: float, codes: list[str]) -> None:
    mark = Mark(n_seen=3, n_seeable=150, first=40, values=[40.0] * 3, steps=[40, 80, 120])
    course = healthy()
    losses = tuple((s, v + rise * (s in (40, 80, 120))) for s, v in course.losses)
    found = diagnose(replace(course, losses=losses, marks={"overwritten": mark}))
    assert [finding.code for finding in found if finding.severity != "note"] == codes


@pytest.mark.parametrize(("mark", "code"), [("blank", "GRD002"), ("swapped", "UPD011")])
def test_gradients_that_are_zero_or_replaced_are_named(mark: MarkName, code: str) -> None:
    course = replace(healthy(), losses=tuple((n, GUESSING) for n in range(1, 201)))
    seen = Mark(n_seen=40, n_seeable=40, first=1, values=[0.1] * 40)
    assert diagnose(replace(course, marks={mark: seen}))[0].code == code
    rare = Mark(n_seen=4, n_seeable=40, first=1, values=[0.1] * 4)
    assert code not in {f.code for f in diagnose(replace(course, marks={mark: rare}))}


@pytest.mark.parametrize(
    ("rates", "code"),
    [
        ([0.0] * 50 + [1e-3] * 150, "OPT004"),
        ([1e-3 * (1 - n / 80) for n in range(200)], "LOS009"),
        ([1e-8 * n for n in range(200)], "OPT007"),
        ([1e-8 * (1 + n // 50) for n in range(200)], "UPD005"),
        ([0.0] + [1e-3] * 199, ""),
    ],
)
def test_rates_of_0_below_0_and_at_the_foot_of_a_warm_up_are_named(
    rates: list[float], code: str
) -> None:
    course = healthy()
    facts = replace(course.facts, initial_rate=1e-3, learning_rate=max(rates))
    losses = course.losses if not code else tuple((n, GUESSING) for n in range(1, 201))
    points = tuple(enumerate(rates, start=1))
    found = diagnose(replace(course, rates=points, facts=facts, losses=losses))
    assert [f.code for f in found if f.severity != "note"][:1] == ([code] if code else [])


@pytest.mark.parametrize(
    ("total", "rate", "end", "is_named"),
    [
        (50, 1e-8, GUESSING, True),
        (50, 2e-7, GUESSING, True),  # a hundredth of the optimiser's own
        (50, 1e-6, GUESSING, True),
        (50, 6e-6, GUESSING, False),  # a third
        (50, 2e-7, GUESSING - 1, False),  # it learns
        (5000, 1e-8, GUESSING, False),
        (None, 1e-8, GUESSING, False),
    ],
)
def test_a_warm_up_that_is_far_longer_than_the_training_is_named(
    total: int | None, rate: float, end: float, is_named: bool
) -> None:
    course = healthy()
    facts = replace(course.facts, initial_rate=1e-3, learning_rate=50 * rate, total_steps=total)
    points = tuple((n, rate * n) for n in range(1, 51))
    losses = tuple((n, GUESSING + (end - GUESSING) * min(1, n / 20)) for n in range(1, 51))
    findings = diagnose(replace(course, rates=points, facts=facts, losses=losses, signs={}))
    assert ("OPT007" in [f.code for f in findings if f.severity != "note"]) == is_named


def test_weights_put_back_once_are_named_if_the_loss_rises() -> None:
    course = healthy()
    mark = Mark(n_seen=1, n_seeable=150, first=120, values=[119.0], steps=[120])
    high = tuple((n, v + (n in (120, 121))) for n, v in course.losses)
    severities = [
        {f.code: f.severity for f in diagnose(replace(course, losses=ls, marks={"restored": mark}))}
        for ls in (course.losses, high)
    ]
    assert [found["UPD001"] for found in severities] == ["note", "fault"]


@pytest.mark.parametrize(("lost", "code"), [(119.0, "fault"), (118.0, "note")])
def test_first_weights_that_come_back_are_named_in_a_training_that_learns_little(
    lost: float, code: str
) -> None:
    mark = Mark(n_seen=1, n_seeable=150, first=120, values=[lost], steps=[120])
    stuck = tuple((step, GUESSING - 0.1) for step in range(1, 151))
    findings = diagnose(replace(healthy(), losses=stuck, marks={"restored": mark}))
    assert {f.code: f.severity for f in findings}["UPD001"] == code


def test_most_weights_with_next_to_no_rate_are_named_and_a_frozen_teacher_is_not() -> None:
    student, teacher = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)
    both = nn.ModuleDict({"student": student, "teacher": teacher})
    assert frozen_share(both) == 0
    frozen_block = nn.ModuleDict({"a": student, "b": nn.Sequential(teacher)})
    assert frozen_share(frozen_block) == 0.5
    assert is_body_frozen(frozen_block)
    assert not is_body_frozen(nn.ModuleDict({"a": nn.Sequential(student, teacher)}))
    groups = [{"params": [student.weight], "lr": 1e-6}, {"params": [student.bias]}]
    slow = slow_share(torch.optim.SGD(groups, lr=1e-3))
    assert slow == 0.8
    course = replace(healthy(), losses=tuple((n, GUESSING - n / 1000) for n in range(1, 201)))
    found = diagnose(replace(course, facts=replace(course.facts, slow=slow)))
    assert found[0].code == "OPT007"


class Layered(nn.Module):
    """A table, two blocks and a head.

    Args:
        has_head: Whether it has one.
    """

    def __init__(self, *, has_head: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.head = nn.Linear(4, 2) if has_head else None

    def groups(self, table: float, *rates: float) -> list[dict[str, Any]]:
        parts = [*self.blocks, *([] if self.head is None else [self.head])]
        layers = [
            {"params": list(part.parameters()), "lr": rate}
            for part, rate in zip(parts, rates, strict=True)
        ]
        return [{"params": [self.table.weight], "lr": table}, *layers]


def test_rates_that_fall_from_the_first_block_to_the_head_are_named() -> None:
    model = Layered()
    fall = rate_fall(model, torch.optim.AdamW(model.groups(1e-2, 1e-3, 3e-4, 1e-4)).param_groups)
    assert fall == pytest.approx(10)
    course = replace(healthy(), losses=tuple((n, GUESSING - n / 100) for n in range(1, 201)))
    findings = diagnose(replace(course, facts=replace(course.facts, rate_fall=fall)))
    assert findings[0].code == "OPT007"
    assert "head" in findings[0].text()


def test_usual_rates_of_layers_are_left_alone() -> None:
    model, bare = Layered(), Layered(has_head=False)
    optimizer = torch.optim.AdamW(model.groups(1e-2, 1e-4, 3e-4, 1e-3))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    optimizer.step()
    scheduler.step()
    assert rate_fall(model, optimizer.param_groups) == pytest.approx(0.1)  # of the first rates
    assert rate_fall(bare, bare.groups(1.0, 1e-3, 1e-3)) == 1
    of_two_kinds = model.groups(1.0, 1e-2, 1e-2, 1e-4)
    of_two_kinds[1]["use_muon"] = True
    assert rate_fall(model, of_two_kinds) is None
    assert rate_fall(nn.Linear(2, 2), [{"params": [], "lr": 1.0}]) is None
    frozen = [{"params": list(model.blocks.parameters()), "lr": 0.0}, model.groups(1, 1, 1, 1)[3]]
    assert rate_fall(model, frozen) is None
    course = replace(healthy(), losses=tuple((n, GUESSING - n / 100) for n in range(1, 201)))
    findings = diagnose(replace(course, facts=replace(course.facts, rate_fall=3.0)))
    assert all(finding.code != "OPT007" for finding in findings)


def test_the_faster_matrix_of_an_adapter_makes_no_fall() -> None:
    pairs = nn.ModuleList(nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4)) for _ in range(2))
    model = nn.ModuleDict({"pairs": pairs, "head": nn.Linear(4, 2)})
    parts = [[pair[0] for pair in pairs], [pair[1] for pair in pairs], [model["head"]]]
    groups = [
        {"params": [p for module in part for p in module.parameters()], "lr": rate}
        for part, rate in zip(parts, (1e-4, 16e-4, 1e-4), strict=True)
    ]
    assert rate_fall(model, groups) == 1


@pytest.mark.parametrize(("alpha", "is_named"), [(8.0, False), (0.05, False), (8e-4, True)])
def test_adapters_that_add_next_to_nothing_are_named(alpha: float, is_named: bool) -> None:
    adapter = LoRALinear(nn.Linear(4, 4), rank=4, alpha=alpha, dropout=0.0, seed=0)
    scale = adapter_scale(nn.Sequential(adapter))
    assert scale == alpha / 4
    course = healthy()
    facts = replace(course.facts, adapter_scale=scale, betas=(0.9, 0.999))
    rates = tuple((step, 1e-3) for step in range(1, 201))
    codes = [f.code for f in diagnose(replace(course, facts=facts, rates=rates))]
    assert ("OPT007" in codes) == is_named
    assert adapter_scale(nn.Linear(2, 2)) is None


def test_frozen_blocks_that_were_never_trained_are_told_from_trained_ones() -> None:
    def build() -> nn.ModuleDict:
        blocks = [nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)) for _ in range(2)]
        for block in blocks:
            nn.init.zeros_(block[0].bias)
        return nn.ModuleDict({"blocks": nn.ModuleList(blocks), "head": nn.Linear(4, 2)})

    model = build()
    assert untrained_share(model) == 0
    model["blocks"].requires_grad_(False)
    assert untrained_share(model) == 1
    with torch.no_grad():
        model["blocks"][0][1].weight[0] += 0.1
    assert untrained_share(model) == 0.5
    teacher = build().requires_grad_(False)
    assert untrained_share(nn.ModuleDict({"student": build(), "teacher": teacher})) == 0


def test_an_encoder_with_names_of_its_decoder_is_no_copy_of_it() -> None:
    def part(*names: str) -> nn.ModuleDict:
        return nn.ModuleDict({name: nn.Linear(4, 4) for name in names})

    both = nn.ModuleDict({"encoder": part("attention", "mlp"), "decoder": part("attention")})
    both["encoder"].requires_grad_(False)
    assert frozen_share(both) > 0.5


@pytest.mark.parametrize(("end", "codes"), [(0.69, ["DAT009"]), (0.6, [])])
def test_classes_that_are_only_guessed_are_named(end: float, codes: list[str]) -> None:
    course = healthy(400)
    losses = tuple((s, 0.7 if s < 60 else end) for s in range(1, 401))
    signs = {"update.ratio": course.signs["update.ratio"]}
    signs["targets.classes"] = (Reading(1, 2.0, "calm"),)
    facts = replace(course.facts, objective=None, vocab_size=None, unigram=None, bigram=None)
    history = History(name="classes", losses=losses, rates=course.rates, signs=signs, facts=facts)
    assert [f.code for f in diagnose(history) if f.severity != "note"] == codes


def test_a_loss_that_rises_steadily_is_turned_round_also_without_a_vocabulary() -> None:
    rising = tuple((step, 0.7 + 0.05 * step) for step in range(1, 61))
    assert [f.code for f in diagnose(History(name="classes", losses=rising))][:1] == ["LOS009"]
    small = tuple((step, 0.01 + 0.001 * step) for step in range(1, 61))
    assert diagnose(History(name="policy", losses=small)) == []
    text = [(step, 4.1 + 0.4 * step) for step in range(1, 61)]
    one_easy_batch = (*text[:2], (3, 3.4), *text[3:])
    assert [f.code for f in diagnose(History(name="answers", losses=one_easy_batch))] == ["LOS009"]
    learnt_first = (*((step, 3.0) for step in range(1, 9)), *text[8:])
    codes = {
        f.code for f in diagnose(History(name="answers", losses=((1, 4.1), *learnt_first[1:])))
    }
    assert "LOS009" not in codes


def test_steps_along_the_gradient_tell_a_sign_from_a_rate() -> None:
    rising = tuple((step, 4.1 + 0.02 * step) for step in range(1, 61))
    uphill = Mark(n_seen=58, n_seeable=60, first=1, values=[0.4] * 58)
    down = Mark(n_seen=2, n_seeable=60, first=9, values=[0.11] * 2)
    for mark, codes in ((uphill, ["LOS009"]), (down, [])):
        history = History(name="answers", losses=rising, marks={"uphill": mark})
        assert [finding.code for finding in diagnose(history)] == codes


def test_zeros_alone_are_no_underflow_and_a_loss_of_zero_weighs_nothing() -> None:
    zeros = {"gradient.zeros": tuple(Reading(step, 1.0, "sick") for step in (1, 20, 40))}
    still = History(
        name="policy",
        losses=tuple((step, 0.0) for step in range(1, 41)),
        signs=zeros | {"gradient.depth_ratio": tuple(Reading(s, 0.0, "sick") for s in (1, 20, 40))},
    )
    assert [f.code for f in diagnose(still) if f.severity != "note"] == ["RLH001"]
    half = replace(still, facts=replace(still.facts, weights="float16"))
    other = tuple((step, 0.5) for step in range(1, 41))
    assert diagnose(replace(half, losses=other))[0].code == "NUM009"
    assert "NUM009" not in {f.code for f in diagnose(replace(still, losses=other))}


def test_causes_that_compete_share_their_confidence() -> None:
    decay = Mark(n_seen=48, n_seeable=48, first=2, values=[9.0] * 48)
    (alone,) = diagnose(replace(healthy(), marks={"restored": decay}))
    repeated = Mark(n_seen=48, n_seeable=48, first=2, values=[1.0] * 48)
    both = diagnose(replace(healthy(), marks={"restored": decay, "repeated": repeated}))
    assert alone.confidence == 0.99
    assert [finding.confidence for finding in both] == pytest.approx([0.5, 0.5], abs=0.01)


@pytest.mark.parametrize(("first", "severity"), [(1.0, "note"), (0.009, "warn")])
def test_cut_gradients_harm_adam_only_if_eps_is_larger(first: float, severity: str) -> None:
    mark = Mark(n_seen=99, n_seeable=99, first=2, values=[1e-6 * (1 + n / 99) for n in range(99)])
    course = healthy()
    facts = replace(course.facts, clip_norm=None)
    signs = {**course.signs, "update.effective_step": (Reading(1, first, "calm"),)}
    found = diagnose(replace(course, facts=facts, signs=signs, marks={"cut": mark}))
    assert ("UPD008", severity) in [(f.code, f.severity) for f in found]


def test_a_new_model_that_is_mostly_frozen_is_named_unless_that_is_declared() -> None:
    stuck = tuple((step, GUESSING - 0.1) for step in range(1, 121))
    history = replace(healthy(), losses=stuck, facts=replace(healthy().facts, frozen=0.9))
    assert "GRD003" in {f.code for f in diagnose(history) if f.severity == "warn"}
    declared = diagnose(history, declared=declare(frozen=["layers"]))
    assert "GRD003" not in {finding.code for finding in declared}


def policy(**marks: Mark) -> list[str]:
    """The codes of a policy whose updates showed this."""
    facts = replace(healthy().facts, objective="rewards", pretrained=True, betas=None)
    signs = {"update.kl_forward": (Reading(1, 4e-8, "good"),)}
    history = replace(healthy(), facts=facts, marks=marks, signs=signs)
    return [finding.code for finding in diagnose(history)]


def test_policy_without_gradients_or_with_copies_has_no_better_answers() -> None:
    half = Mark(n_seen=24, n_seeable=40, first=3, values=[0.75] * 24, steps=[*range(3, 27)])
    assert policy(blank=half) == policy(copies=half) == ["RLH001"]
    late = replace(half, first=17)  # it may have learnt its task
    assert policy(blank=late) == policy(copies=late) == []


def test_policy_that_all_updates_together_can_hardly_change_has_too_low_a_rate() -> None:
    steps = list(range(1, 41))
    # sqrt(4e-8) = 2e-4 at the first update, and forty such steps: at most (0.008)^2
    even = Mark(n_seen=40, n_seeable=40, first=1, values=[1e-5] * 40, steps=steps)
    assert policy(stride=even) == ["OPT007"]
    still = Mark(n_seen=40, n_seeable=40, first=1, values=[1e-8] * 40, steps=steps)
    assert policy(stride=still) == ["OPT007"]
    grown = replace(even, values=[1e-5] + [1e-3] * 39)
    assert policy(stride=grown) == []


def test_the_type_of_weights_is_that_of_the_training_and_not_of_a_score_after_it() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    with watch(model, optimizer) as w:
        for _ in range(3):
            loss = model(torch.ones(2, 8, dtype=torch.bfloat16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            w.step(loss)
            optimizer.step()
    model.float()
    assert history_of_watch(w).facts.weights == "bfloat16"


def test_a_schedule_within_updates_is_why_its_rate_ends_early() -> None:
    mark = Mark()
    for step in range(1, 60):
        mark.add(step, 4.0, shows=True)
    rates = tuple((step, max(0.0, 1e-3 * (1 - step / 50))) for step in range(1, 201))
    course = replace(healthy(), rates=rates)
    assert [f.code for f in diagnose(course) if f.severity != "note"] == ["OPT013"]
    named = [f.code for f in diagnose(replace(course, marks={"rates": mark}))]
    assert named[0] == "UPD004"
    assert "OPT013" not in named


@pytest.mark.parametrize(("last", "code"), [(12, "UPD004"), (60, "OPT013")])
def test_updates_after_the_end_of_a_schedule_do_not_count_against_it(last: int, code: str) -> None:
    mark = Mark()
    for step in range(1, 101):
        mark.add(step, 8.0, shows=step <= 12)
    rates = tuple((step, 1e-3 if step <= last else 0.0) for step in range(1, 201))
    findings = diagnose(replace(healthy(), rates=rates, marks={"rates": mark}))
    assert findings[0].code == code


@pytest.mark.parametrize(("step", "severity"), [(0.9, "note"), (0.2, "fault")])
def test_cut_gradients_do_not_matter_where_steps_follow_the_rate(
    step: float, severity: str
) -> None:
    def mark(value: float) -> Mark:
        numbers = [value * (1 + n / 99) for n in range(99)]
        return Mark(99, 99, 2, numbers, list(range(1, 100)))

    course = healthy()
    stuck = tuple((step, GUESSING) for step, _ in course.losses)
    facts = replace(course.facts, clip_norm=None, betas=None, momentum=0.9)
    marks = {"cut": mark(1e-4), "drift": mark(0.01), "stride": mark(0.01 * step)}
    found = diagnose(replace(course, facts=facts, losses=stuck, marks=marks))
    assert ("UPD008", severity) in [(f.code, f.severity) for f in found]


@pytest.mark.parametrize(
    ("left", "is_warned"),
    [((1e-3, 1.4e-3), True), ((0.3, 0.5), False), ((2.0**-16, 2.0**-16), False)],
    ids=["next to nothing", "a usual clip", "a scale that is taken off"],
)
def test_what_the_ledger_sees_of_a_clip_is_enough_where_few_norms_are_known(
    left: tuple[float, float], is_warned: bool
) -> None:
    course = healthy()
    facts = replace(course.facts, clip_norm=1e-3, betas=None, momentum=0.9, optimiser="SGD")
    stuck = tuple((step, GUESSING) for step, _ in course.losses)
    mark = Mark(n_seen=8, n_seeable=8, first=1, values=[*left] * 4, steps=list(range(1, 9)))
    run = replace(course, facts=facts, losses=stuck, grad_norms=(), signs={})
    findings = diagnose(replace(run, marks={"cut": mark}))
    found = {finding.code for finding in findings if finding.severity != "note"}
    assert ("OPT012" in found) is is_warned


@pytest.mark.parametrize(
    ("norms", "is_warned"), [((0.5, 0.9, 0.6, 0.7), True), ((0.1, 0.9, 0.6), False)]
)
def test_a_short_log_of_norms_tells_a_clip_that_is_too_tight_if_all_are_far_above(
    norms: tuple[float, ...], is_warned: bool
) -> None:
    course = healthy()
    facts = replace(course.facts, clip_norm=0.02, betas=None, momentum=0.9, optimiser="SGD")
    rows = tuple((10 * (n + 1), norm) for n, norm in enumerate(norms))
    marks = {"stride": Mark(n_seen=40, n_seeable=40, first=1, values=[2e-8] * 40)}
    findings = diagnose(replace(course, facts=facts, grad_norms=rows, marks=marks, signs={}))
    found = {finding.code for finding in findings if finding.severity != "note"}
    assert ("OPT012" in found) is is_warned


@pytest.mark.parametrize(("stopped", "is_named"), [((3, "loss", ""), True), (None, False)])
def test_a_loss_that_is_lost_at_once_needs_one_update_to_show_its_parts(
    stopped: tuple[int, str, str] | None, *, is_named: bool
) -> None:
    marks = {"outputs": Mark(1, 1, 1, [16.0], [1]), "parts": Mark(1, 1, 1, [8.0], [1])}
    history = replace(but(losses=curve(GUESSING, 2.5))(), marks=marks, stopped=stopped)
    assert (parts_not_divided(HistoryView(history)) is not None) == is_named
