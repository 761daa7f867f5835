"""A loss of rows that stays where guessing is, and what words tell of the labels."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from pellucid.diagnosis import diagnose
from pellucid.diagnosis.history.history import Facts, Points, Reading
from pellucid.vitals import Mark
from support.courses import healthy

UPDATES = 150
ADAM = Facts(betas=(0.9, 0.999))


def flat(level: float) -> Points:
    return tuple((step, level + 0.01 * math.sin(step)) for step in range(1, UPDATES + 1))


def signs(**values: float) -> dict[str, tuple[Reading, ...]]:
    """Readings of the first page, and steps that move the weights."""
    named = {id.replace("__", "."): (Reading(8, value, ""),) for id, value in values.items()}
    moves = tuple(Reading(step, 0.01, "") for step in range(1, UPDATES, 10))
    return named | {"update.ratio": moves}


def codes_of(losses: Points, **values: float) -> list[str]:
    history = replace(
        healthy(), losses=losses, signs=signs(**values), facts=ADAM, marks={}, grad_norms=()
    )
    return [f.code for f in diagnose(history) if f.severity != "note"]


@pytest.mark.parametrize(
    ("level", "share", "n", "codes"),
    [
        (0.69, 0.5, 150, ["DAT009"]),
        (0.69, 0.9, 150, ["FIT004"]),
        (0.69, 0.6, 150, []),  # neither this nor that
        (0.69, 0.5, 40, []),  # few rows say little
        (0.40, 0.5, 150, []),  # it learns
        (1.30, 0.5, 150, []),  # the loss has other terms
    ],
)
def test_words_decide_whether_labels_or_the_training_is_at_fault(
    level: float, share: float, n: float, codes: list[str]
) -> None:
    named = codes_of(flat(level), targets__entropy=0.693, targets__told=share, targets__told_rows=n)
    assert named == codes


@pytest.mark.parametrize(("untrained", "code"), [(1.0, "GRD003"), (0.0, "FIT004")])
def test_blocks_frozen_as_they_were_drawn_are_why_words_are_not_learnt(
    untrained: float, code: str
) -> None:
    told = signs(targets__entropy=0.693, targets__told=0.9, targets__told_rows=150.0)
    facts = replace(ADAM, untrained=untrained)
    history = replace(healthy(), losses=flat(0.69), signs=told, facts=facts, marks={})
    (finding,) = [f for f in diagnose(history) if f.severity != "note"]
    assert (finding.code, finding.severity) == (code, "fault")


def test_words_need_not_tell_what_two_texts_are_to_each_other() -> None:
    pairs = {"targets__told": 0.5, "targets__told_rows": 150.0, "targets__two_texts": 1.0}
    assert codes_of(flat(0.69), targets__entropy=0.693, **pairs) == []
    signs_of_pairs = signs(targets__entropy=0.693, **pairs)
    history = replace(healthy(), losses=flat(0.69), signs=signs_of_pairs, facts=ADAM, marks={})
    assert "UNK002" in [f.code for f in diagnose(history)]
    assert codes_of(flat(1.0), targets__square=1.0, targets__variance=1.0, **pairs) == []


def test_guessing_a_rare_class_costs_its_entropy() -> None:
    rare = {"targets__entropy": 0.4, "targets__told": 0.5, "targets__told_rows": 150.0}
    assert codes_of(flat(0.4), targets__classes=2.0, **rare) == ["DAT009"]


@pytest.mark.parametrize(
    ("error", "share", "codes"), [(1.0, 0.5, ["DAT009"]), (0.5, 0.5, []), (1.0, 0.8, ["FIT004"])]
)
def test_a_squared_error_of_a_constant_is_the_variance(
    error: float, share: float, codes: list[str]
) -> None:
    told = {"targets__told": share, "targets__told_rows": 150.0}
    named = codes_of(flat(error), targets__square=error, targets__variance=1.0, **told)
    assert named == codes


def test_weights_that_start_next_to_nothing_are_named_by_their_size() -> None:
    for size, codes in ((1e-5, ["INI006"]), (0.2, []), (0.0, [])):
        readings = healthy().signs | {"weights.size": (Reading(1, size, ""),)}
        named = [f.code for f in diagnose(replace(healthy(), signs=readings))]
        assert named == codes


def test_another_loss_is_not_held_against_the_variance() -> None:
    told = {"targets__told": 0.5, "targets__told_rows": 150.0}
    assert codes_of(flat(3.0), targets__square=1.0, targets__variance=1.0, **told) == []


@pytest.mark.parametrize(
    ("level", "codes"), [(math.log(12), ["UNK001"]), (math.log(24), ["UNK001"]), (1.0, [])]
)
def test_partners_that_are_guessed_among_the_rows(level: float, codes: list[str]) -> None:
    assert codes_of(flat(level), targets__vectors=12.0) == codes


@pytest.mark.parametrize(
    ("stride", "share", "codes"),
    [
        (4e-4, 0.5, ["DAT009"]),
        (4e-5, 0.5, ["OPT007"]),
        (4e-4, 0.9, []),  # it may be slow
        (4e-3, 0.9, ["FIT004"]),
    ],
)
def test_steps_of_the_ledger_tell_that_weights_move(
    stride: float, share: float, codes: list[str]
) -> None:
    told = signs(targets__entropy=0.693, targets__told=share, targets__told_rows=150.0)
    del told["update.ratio"]
    mark = Mark()
    for step in range(1, 60):
        mark.add(step, stride, shows=True)
    history = replace(
        healthy(),
        losses=flat(0.69),
        signs=told,
        facts=ADAM,
        marks={"stride": mark},
        grad_norms=(),
    )
    assert [f.code for f in diagnose(history) if f.severity != "note"] == codes


@pytest.mark.parametrize(("size", "codes"), [(0.3, ["DAT009"]), (0.01, [])])
def test_means_of_few_losses_differ_by_chance(size: float, codes: list[str]) -> None:
    draws = random.Random(1)
    noisy = [0.85 + size * draws.gauss(0, 1) for _ in range(UPDATES)]
    # the loss that is set against the variance is that of the page
    losses = tuple((step, 1.0 if step <= 8 else v) for step, v in enumerate(noisy, 1))
    told = {"targets__told": 0.5, "targets__told_rows": 150.0}
    assert codes_of(losses, targets__square=1.0, targets__variance=1.0, **told) == codes


@pytest.mark.parametrize(
    ("level", "matched", "spread", "codes"),
    [
        (2.3, 0.5, 0.2, ["LOS014"]),
        (2.3, 0.49, 0.2, []),
        (2.3, 0.5, 0.19, []),  # vectors that are alike give such a loss at any temperature
        (2.08, 0.9, 0.5, []),
        (2.56, 0.9, 0.5, []),  # above guessing
        (math.log(12), 0.9, 0.5, ["LOS014"]),  # and no longer of an unknown cause
    ],
)
def test_partners_that_are_found_and_not_known_are_divided_by_too_much(
    level: float, matched: float, spread: float, codes: list[str]
) -> None:
    vectors = {"vectors__matched": matched, "vectors__spread": spread}
    assert codes_of(flat(level), targets__vectors=12.0, **vectors) == codes


def test_two_rows_are_too_few_to_find_partners_among() -> None:
    vectors = {"vectors__matched": 1.0, "vectors__spread": 0.5}
    assert codes_of(flat(math.log(3)), targets__vectors=3.0, **vectors) == []


@pytest.mark.parametrize(
    ("level", "spread", "share_kept", "codes"),
    [
        (0.02, 0.04, 0.4, ["ARC011"]),
        (0.02, 0.06, 0.4, []),
        (0.02, 0.04, 0.6, []),  # they began alike
        (0.2, 0.04, 0.4, []),
        (-0.02, 0.04, 0.4, ["ARC011"]),
    ],
)
def test_vectors_that_become_one_while_the_loss_goes_to_0_have_collapsed(
    level: float, spread: float, share_kept: float, codes: list[str]
) -> None:
    vectors = {"vectors__spread": spread, "vectors__kept": share_kept}
    assert codes_of(flat(level), targets__vectors=12.0, **vectors) == codes


@pytest.mark.parametrize(
    ("share_kept", "falls", "codes"),
    [(0.05, 0.0, ["ARC011"]), (0.2, 0.0, []), (0.05, 0.001, [])],  # not all is gone; it learns
)
def test_equal_vectors_leave_the_loss_of_exchanged_pairs_where_it_is(
    share_kept: float, falls: float, codes: list[str]
) -> None:
    losses = tuple((step, 0.5 - falls * step) for step in range(1, UPDATES + 1))
    vectors = {"vectors__spread": 0.01, "vectors__kept": share_kept, "targets__vectors": 12.0}
    assert codes_of(losses, **vectors) == codes
    assert codes_of(losses, targets__entropy=3.0, **vectors) == []  # logits of many classes


@pytest.mark.parametrize(("share_kept", "codes"), [(0.05, ["UNK001"]), (0.6, ["OPT007"])])
def test_partners_are_guessed_by_equal_vectors_whose_weights_stand_still(
    share_kept: float, codes: list[str]
) -> None:
    still = tuple(Reading(step, 1e-4, "") for step in range(1, UPDATES, 10))
    ids = {"targets__vectors": 12.0, "vectors__spread": 0.01, "vectors__kept": share_kept}
    named = signs(**ids) | {"update.ratio": still}
    course = replace(healthy(), losses=flat(math.log(12)), signs=named, facts=ADAM, marks={})
    course = replace(course, grad_norms=())
    assert [f.code for f in diagnose(course) if f.severity != "note"] == codes


@pytest.mark.parametrize(
    ("share", "n", "codes"),
    [(0.5, 150.0, ["DAT009"]), (0.9, 150.0, ["UNK001"]), (0.5, 90.0, ["UNK001"])],
)
def test_partners_without_common_words_stand_at_other_rows(
    share: float, n: float, codes: list[str]
) -> None:
    partners = {"vectors__told": share, "vectors__told_rows": n}
    assert codes_of(flat(math.log(12)), targets__vectors=12.0, **partners) == codes


@pytest.mark.parametrize(
    ("updates", "n", "codes"),
    [(70, 1000.0, ["DAT009"]), (70, 999.0, []), (55, 1000.0, []), (120, 999.0, ["DAT009"])],
)
def test_of_many_pairs_words_tell_sooner(updates: int, n: float, codes: list[str]) -> None:
    told = signs(targets__entropy=0.693, targets__told=0.5, targets__told_rows=n)
    course = replace(healthy(), losses=flat(0.69)[:updates], signs=told, facts=ADAM, marks={})
    course = replace(course, grad_norms=(), rates=())
    assert [f.code for f in diagnose(course) if f.severity != "note"] == codes


def test_losses_that_are_no_numbers_are_no_coin() -> None:
    coin = tuple((step, math.log(2)) for step in range(1, UPDATES + 1))
    assert codes_of(coin, call__inputs=1.0) == ["PRF001"]
    broken = tuple((step, math.nan) for step, _ in coin)
    assert "PRF001" not in codes_of(broken, call__inputs=1.0)


@pytest.mark.parametrize(
    ("level", "nats", "severities"),
    [
        (300.0, 0.69, ["fault"]),  # another term is all that is learnt
        (300.0, 0.3, ["note"]),
        (9.0, 0.69, []),  # another task beside it
        (300.0, 0.0, []),  # the gradient is not that of a mean
        (0.4, 0.01, []),  # what is left of a loss that came down
    ],
)
def test_a_cross_entropy_of_classes_that_drowns_in_other_terms_is_told(
    level: float, nats: float, severities: list[str]
) -> None:
    readings = signs(targets__entropy=0.693, targets__class_nats=nats)
    history = replace(healthy(), losses=flat(level), signs=readings, facts=ADAM, marks={})
    drowned = [f.severity for f in diagnose(history) if f.code == "LOS013"]
    assert drowned == severities


@pytest.mark.parametrize(
    ("longer", "partner", "changes", "is_named"),
    [
        (0.5, 0.51, {}, True),
        (0.8, 0.5, {}, False),
        (0.5, 0.8, {}, False),
        (0.5, 0.5, {"targets__different": 0.1}, False),  # words for classes
        (0.5, 0.5, {"targets__longer_rows": 30.0}, False),  # targets of one length
    ],
)
def test_targets_that_nothing_ties_to_their_texts_belong_to_others(
    longer: float, partner: float, changes: dict[str, float], is_named: bool
) -> None:
    rows = {"targets__longer_rows": 200.0, "targets__partner_rows": 280.0}
    shares = {"targets__longer": longer, "targets__partner": partner, "targets__different": 1.0}
    readings = signs(**(rows | shares | changes)) | {"batch.decoder": (Reading(1, 0.0, ""),)}
    findings = diagnose(replace(healthy(), signs=readings, facts=ADAM, marks={}))
    assert ("LOS003" in [f.code for f in findings]) == is_named
    of_a_decoder = {id: value for id, value in readings.items() if id != "batch.decoder"}
    findings = diagnose(replace(healthy(), signs=of_a_decoder, facts=ADAM, marks={}))
    assert "LOS003" not in [f.code for f in findings]


@pytest.mark.parametrize(
    ("end", "bends", "told", "betas", "codes"),
    [
        (0.53, False, 0.94, None, ["OPT007"]),
        (0.53, True, 0.94, None, []),  # it bends: the classes are hard
        (0.1, False, 0.94, None, []),  # it comes far
        (0.53, False, 0.6, None, []),  # words hardly tell the classes
        (0.53, False, 0.94, (0.9, 0.999), []),
    ],
)
def test_plain_descent_that_is_slow_at_easy_classes_has_a_low_rate(
    end: float,
    bends: bool,
    told: float,
    betas: tuple[float, float] | None,
    codes: list[str],
) -> None:
    draws = random.Random(0)
    ways = [step / UPDATES for step in range(UPDATES)]
    ways = [1 - math.exp(-6 * way) for way in ways] if bends else ways
    losses = tuple(
        (step, 0.68 + (end - 0.68) * way + draws.gauss(0, 0.01)) for step, way in enumerate(ways, 1)
    )
    readings = signs(targets__entropy=0.645, targets__told=told, targets__told_rows=102.0)
    facts, rates = Facts(betas=betas, momentum=0.0), tuple((step, 3e-4) for step, _ in losses)
    history = replace(healthy(), losses=losses, rates=rates, signs=readings, facts=facts, marks={})
    causes = [finding.code for finding in diagnose(history) if finding.severity != "note"]
    assert [code for code in causes if code == "OPT007"] == codes
