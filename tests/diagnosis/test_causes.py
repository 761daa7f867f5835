"""Causes from histories that are made up: each is named, and none in the healthy twin."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from pellucid.diagnosis import (
    Facts,
    History,
    Reading,
    build_finding,
    declare,
    diagnose,
    read_codes,
)
from pellucid.diagnosis.history.run import facts_of
from pellucid.errors import ConfigError
from pellucid.presets import PRESETS
from support.courses import GUESSING, UNIGRAM, but, curve, flat, healthy, sign

STUCK = flat(UNIGRAM)
JUMP = tuple((n, 2.6 if n < 100 else 3.6 - 0.002 * (n - 100)) for n in range(1, 201))
SPIKE = tuple((n, v + (3.0 if n == 120 else 0.0)) for n, v in curve(GUESSING, 2.5))
RISING = ((50, 2.6), (100, 2.4), (150, 2.7), (200, 3.0))
DPO = {"objective": "DPO"}


def low(value: float) -> tuple[tuple[int, float], ...]:
    return tuple((n, value) for n in range(1, 201))


CAUSES: dict[str, tuple[str, Callable[[], History]]] = {
    "no residual path": ("ARC001", but(facts={"residual": False}, losses=STUCK)),
    "post-norm, deep": (
        "ARC002",
        but(facts={"norm": "post"}, signs={"gradient.depth_ratio": (1.0, 1e-5)}, losses=STUCK),
    ),
    "no norms": ("ARC003", but(facts={"norm": "none"})),
    "deep blocks idle": (
        "ARC004",
        but(signs={"stream.growth": (2.0, 400.0), "stream.branch_ratio": (0.5, 1e-4)}),
    ),
    "no final norm": (
        "ARC005",
        but(facts={"final_norm": False}, losses=curve(GUESSING + 0.8, 2.5)),
    ),
    "scores not scaled": ("ARC006", but(facts={"score_scale": 8.0, "d_head": 64})),
    "scores scaled twice": ("ARC007", but(facts={"score_scale": 0.125})),
    "queries and keys zero": ("ARC008", but(signs={"attention.max_logit": (0.0, 0.0)})),
    "dead units": ("ARC009", but(signs={"units.dead": (1.0, 1.0)})),
    "router collapsed": ("ARC015", but(signs={"experts.evenness": (0.9, 0.05)})),
    "experts unused": ("ARC015", but(signs={"experts.unused": (0.0, 0.75)})),
    "dropout absurd": ("ARC010", but(facts={"dropout": 0.9}, losses=flat(3.3))),
    "tokens alike": (
        "ARC011",
        lambda: replace(
            healthy(400),
            losses=flat(3.9, 400),
            signs={"tokens.cosine": sign(0.99, 0.999, updates=400)},
            facts=Facts(vocab_size=96, unigram=3.2, learning_rate=1e-3),
        ),
    ),
    "gradients vanish": (
        "ARC012",
        but(signs={"gradient.depth_ratio": (1.0, 1e-4)}, losses=flat(4.0)),
    ),
    "gradients explode": (
        "ARC013",
        but(signs={"gradient.depth_ratio": (1.0, 1e5)}, losses=flat(4.0)),
    ),
    "eps of norms": (
        "ARC014",
        but(facts={"norm_eps": 10.0}, signs={"norm.variance_over_eps": (1e-4, 1e-3)}),
    ),
    "weights too large": (
        "INI004",
        but(
            signs={
                "attention.entropy": (0.3, 0.3),
                "attention.max_logit": (32.0, 30.0),
                "weights.size": (6.0, 6.0),
            },
            losses=curve(6.6, 2.8),
        ),
    ),
    "head too large": (
        "INI005",
        but(losses=curve(21.0, 2.6), signs={"loss.probe": (21.0, 2.6)}),
    ),
    "weights too small": ("INI006", but(signs={"norm.variance_over_eps": (0.002, 30.0)})),
    "never loaded": ("WGT004", but(facts={"pretrained": True})),
    "rate too high": (
        "OPT005",
        but(
            signs={
                "update.ratio": (0.5, 0.2),
                "attention.max_logit": (0.4, 900.0),
                "stream.size": (0.1, 300.0),
            },
            losses=flat(3.6),
        ),
    ),
    "no warm-up": (
        "OPT006",
        but(
            facts={"warmup_steps": 0, "learning_rate": 1e-2},
            signs={"update.ratio": (0.5, 0.008)},
            rates=low(1e-2),
        ),
    ),
    "rate too low": (
        "OPT007",
        but(signs={"update.ratio": (3e-5, 3e-5)}, losses=curve(GUESSING, 4.5)),
    ),
    "stale memory": (
        "OPT008",
        but(
            facts={"betas": (0.9, 0.999)},
            signs={"update.effective_step": (*sign(1.0, 0.3)[:12], *sign(0.1, 0.1)[12:])},
            losses=JUMP,
        ),
    ),
    "eps too large": (
        "OPT009",
        but(facts={"eps": 1e-2}, signs={"update.effective_step": (0.08, 0.02)}),
    ),
    "decay too strong": (
        "OPT010",
        but(
            facts={"weight_decay": 100.0},
            signs={"weights.size": (0.4, 0.01), "embeddings.rms": (1.0, 0.03)},
        ),
    ),
    "decay on gains": (
        "OPT011",
        but(
            facts={"weight_decay": 10.0, "decays": "all"},
            signs={"norm.gain_low": (1.0, 0.2)},
        ),
    ),
    "clip too tight": (
        "OPT012",
        but(facts={"clip_norm": 1e-3, "betas": None}, signs={"update.effective_step": ()}),
    ),
    "rate zero for good": (
        "OPT013",
        but(rates=tuple((n, 1e-3 if n < 50 else 0.0) for n in range(1, 201))),
    ),
    "never cleared": ("OPT014", but(signs={"gradient.left": (1.0, 3.0)})),
    "memory lost": (
        "OPT015",
        but(
            losses=JUMP,
            signs={
                "update.effective_step": (
                    *sign(1.0, 0.3)[:11],
                    Reading(101, 1.0, "calm"),
                    *sign(0.3, 0.3)[12:],
                )
            },
        ),
    ),
    "betas swapped": ("OPT016", but(facts={"betas": (0.999, 0.9)})),
    "a weight stands still": (
        "OPT002",
        but(signs={"update.ratio_low": tuple(Reading(n, 0.0, "calm", "w") for n in (5, 10, 20))}),
    ),
    "no gradient": ("GRD001", but(signs={"gradient.missing": (0.3, 0.3)})),
    "float16 overflows": (
        "NUM007",
        but(facts={"precision": "float16"}, losses=(), stopped=(40, "loss", "block 2")),
    ),
    "not finite": ("NUM008", but(losses=(), stopped=(40, "gradient", ""))),
    "attention over nothing": (
        "NUM010",
        but(losses=(), stopped=(40, "loss", "blocks.1.attention")),
    ),
    "not finite at once": ("NUM004", but(losses=(), stopped=(1, "loss", ""))),
    "float16 vanishes": (
        "NUM009",
        but(facts={"precision": "float16"}, grad_norms=low(0.0), losses=flat(4.5)),
    ),
    "gradients mostly zero": (
        "NUM009",
        but(signs={"update.effective_step": (0.15, 0.03)}, losses=flat(2.9)),
    ),
    "gradients exactly zero": (
        "NUM009",
        but(signs={"gradient.zeros": (0.99, 0.95)}, losses=flat(2.9)),
    ),
    "steps no more": (
        "OPT017",
        lambda: replace(
            healthy(),
            signs={id: tuple(r for r in rs if r.step <= 60) for id, rs in healthy().signs.items()},
        ),
    ),
    "partly loaded": (
        "WGT004",
        but(
            facts={"pretrained": True},
            losses=curve(UNIGRAM + 0.4, 2.5),
            signs={"loss.probe": (UNIGRAM + 0.4, 2.5)},
        ),
    ),
    "post-norm, deep, at frequencies": (
        "ARC002",
        but(facts={"norm": "post", "n_layers": 10}, losses=STUCK),
    ),
    "bf16 weights": ("NUM001", but(facts={"weights": "bfloat16"})),
    "scores grow": ("ATT007", but(signs={"attention.max_logit": (0.4, 150.0)})),
    "logits drift": ("LOS012", but(signs={"logits.log_z": (4.6, 400.0)})),
    "labels shuffled": ("DAT009", but(losses=STUCK)),
    "one bad batch": ("DAT008", but(losses=SPIKE)),
    "small batches": ("DAT010", but(facts={"batch_tokens": 32})),
    "too good too soon": (
        "DAT011",
        but(losses=flat(0.05), signs={"loss.probe": (GUESSING, 0.05)}),
    ),
    "degenerate texts": ("DAT012", but(signs={"batch.repetitive": (0.5, 0.5)})),
    "same batch": ("DAT001", but(signs={"batch.repeats": (0.0, 9.0)}, losses=flat(0.1))),
    "loss summed": ("LOS006", but(losses=tuple((n, 1024 * v) for n, v in curve(GUESSING, 2.5)))),
    "parts not divided": ("LOS007", but(losses=tuple((n, 4 * v) for n, v in curve(GUESSING, 2.5)))),
    "labels not moved": ("LOS001", but(losses=flat(0.1), signs={"loss.probe": (GUESSING, 9.0)})),
    "sign turned": ("LOS009", but(losses=curve(-GUESSING, -30.0))),
    "a loss of pairs turned round": ("LOS009", but(facts=DPO, losses=curve(-math.log(2), -9.0))),
    "swapped betas, and a loss that rises": (
        "OPT016",
        but(
            facts={"betas": (0.95, 0.3)}, losses=tuple((n, GUESSING + 0.2 * n) for n in range(200))
        ),
    ),
    "softmax twice": (
        "LOS008",
        but(losses=curve(GUESSING, 4.3), grad_norms=low(0.05)),
    ),
    "something is counted that is easy": (
        "LOS010",
        but(losses=tuple((n, 0.5 * v) for n, v in curve(GUESSING, 2.5))),
    ),
    "something else dominates": (
        "LOS013",
        but(losses=curve(GUESSING, 4.1), signs={"loss.probe": (GUESSING, 2.6)}),
    ),
    "by heart": ("FIT001", but(held_out=RISING, losses=curve(GUESSING, 1.0, quick=80.0))),
    "flat": ("FIT002", lambda: replace(healthy(600), losses=flat(2.5, 600))),
    "still falling": (
        "FIT003",
        lambda: replace(
            healthy(400), losses=tuple((n, GUESSING - 0.006 * n) for n in range(1, 401))
        ),
    ),
    "nothing learnt": (
        "FIT004",
        but(losses=low(GUESSING), signs={"loss.probe": (GUESSING, GUESSING)}),
    ),
    "another reference": ("REF001", but(signs={"reference.kl_start": (0.5, 0.5)})),
    "shared reference": ("REF002", but(signs={"reference.kl": (0.0, 0.0)})),
    "far from the reference": ("REF003", but(signs={"reference.kl": (0.0, 30.0)})),
    "a coin": ("PRF001", but(facts=DPO, losses=low(0.6931))),
    "margins that rise, answers that stay": (
        "PRF002",
        but(
            facts=DPO,
            losses=tuple((n, 0.69 / n) for n in range(1, 201)),
            measures={"margin": tuple((n, 0.08 * n) for n in range(1, 201))},
            samples=((0, "Paris."), (100, "Paris."), (200, "Paris.")),
        ),
    ),
    "rewards that rise, answers that stay": (
        "PRF002",
        but(
            facts={"objective": "PolicyGradient"},
            losses=low(0.1),
            measures={"reward": tuple((n, 0.01 * n) for n in range(1, 201))},
            samples=((0, "Paris."), (200, "Paris.")),
        ),
    ),
    "a solved task": (
        "FIT005",
        but(
            facts={"objective": "SFT", "pretrained": True},
            losses=tuple((n, 3 * 0.95**n + 0.01) for n in range(1, 201)),
            signs={"predictions.certain": (0.1, 1.0), "predictions.error_norm": (0.9, 0.005)},
        ),
    ),
    "a teacher that is met": (
        "FIT005",
        but(facts={"objective": "Distillation"}, signs={"teacher.kl": (2.0, 0.004)}),
    ),
    "equal rewards": (
        "RLH001",
        but(facts={"objective": "PolicyGradient"}, grad_norms=low(0.0), losses=low(0.0)),
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_cause_is_found_by_its_code_and_comes_first(name: str) -> None:
    code, history = CAUSES[name]
    findings = diagnose(history())
    assert findings, name
    assert findings[0].code == code, [(each.code, each.confidence) for each in findings]


def test_answers_that_changed_are_no_cause_for_alarm() -> None:
    rising = tuple((n, 0.08 * n) for n in range(1, 201))
    changed = but(facts=DPO, measures={"margin": rising}, samples=((0, "Paris."), (200, "Rome.")))
    assert "PRF002" not in {each.code for each in diagnose(changed())}


def test_what_is_solved_in_training_alone_was_learnt_by_heart() -> None:
    history = but(losses=low(0.01), held_out=((100, 2.0), (200, 2.0)))
    (finding,) = (each for each in diagnose(history()) if each.code == "FIT005")
    assert finding.severity == "warn"


def test_a_loss_that_comes_down_from_far_above_guessing_has_learnt_something() -> None:
    far = {
        "loss.value": sign(15.0, 5.0, word="sick"),
        "loss.probe": (GUESSING + 15, GUESSING + 2),
    }
    falling = but(signs=far, losses=curve(GUESSING + 15, GUESSING + 2, quick=80.0))
    assert {"FIT004", "UNK001"}.isdisjoint(finding.code for finding in diagnose(falling()))


def test_healthy_history_is_silent() -> None:
    assert diagnose(healthy()) == []
    assert diagnose(healthy(30)) == []


def test_at_least_forty_five_causes_can_be_named_apart_from_those_of_probes() -> None:
    causes = [code for code, told in read_codes().items() if told.explains or told.limits]
    assert len({code for code, _ in CAUSES.values()}) >= 45
    assert len(causes) >= 45


ODD: dict[str, Callable[[], History]] = {
    "a rate ten times smaller": but(
        signs={"update.ratio": (2e-4, 8e-4)}, losses=curve(GUESSING, 2.9, quick=80.0)
    ),
    "a rate three times higher": but(signs={"update.ratio": (0.006, 0.03)}),
    "stopped early": lambda: healthy(15),
    "dropout": but(facts={"dropout": 0.2}),
    "preferences at their own rate": but(
        facts={"objective": "preferences", "vocab_size": None, "learning_rate": 5e-7},
        signs={"update.ratio": (3e-5, 3e-5)},
        losses=curve(math.log(2), 0.5),
    ),
    "pairs of a loop that states nothing": but(
        facts={"objective": None, "vocab_size": None, "learning_rate": 5e-7, "unigram": None},
        signs={"update.ratio": (3e-5, 3e-5), "loss.probe": (math.log(2), 0.5)},
        losses=curve(math.log(2), 0.5),
    ),
    "a constant rate": but(rates=low(1e-3), facts={"warmup_steps": 0}),
    "sinks": but(signs={"attention.entropy": (0.99, 0.02), "attention.max_logit": (0.4, 25.0)}),
    "the phase of single tokens": lambda: replace(
        healthy(90),
        losses=flat(UNIGRAM, 90),
        signs={**healthy(90).signs, "tokens.cosine": sign(0.9, 0.97)},
    ),
    "branches that start at zero": but(
        signs={"update.effective_step": (Reading(1, 0.0, "calm"), *sign(0.6, 0.3)[1:])}
    ),
    "a warm-up from 0": but(rates=((1, 0.0), *((n, 1e-3) for n in range(2, 201)))),
    "SGD that is slow": but(
        facts={"betas": None, "eps": None}, signs={"update.effective_step": ()}, losses=STUCK
    ),
    "another term of the loss": but(
        facts={"vocab_size": 2048},
        losses=curve(math.log(2048) + 1.1, 3.7),
        signs={"loss.probe": (math.log(2048), 2.6)},
    ),
    "fine-tuning": but(
        facts={"pretrained": True},
        losses=curve(2.4, 2.2),
        signs={"update.ratio": (5e-5, 5e-5), "loss.probe": (2.4, 2.2)},
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_but_healthy_history_gets_no_warning(name: str) -> None:
    assert [each.code for each in diagnose(ODD[name]()) if each.severity != "note"] == []


@pytest.mark.parametrize("preset", PRESETS)
def test_config_of_a_preset_smells_of_nothing(preset: str) -> None:
    facts = facts_of(PRESETS[preset], 10_000)
    assert [
        e.code for e in diagnose(History(name=preset, facts=facts)) if e.severity != "note"
    ] == []


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("OPT006", Facts(learning_rate=1e-2, warmup_steps=0, total_steps=1000)),
        ("OPT005", Facts(learning_rate=0.5, warmup_steps=500)),
        ("OPT007", Facts(learning_rate=1e-7)),
        ("ARC002", Facts(norm="post", n_layers=12, warmup_steps=0, learning_rate=3e-3)),
        ("OPT010", Facts(weight_decay=10.0, learning_rate=1e-2)),
        ("OPT009", Facts(eps=1e-3)),
        ("OPT008", Facts(betas=(0.9, 0.999), total_steps=100)),
        ("OPT012", Facts(clip_norm=1e-5)),
        ("NUM007", Facts(precision="float16")),
        ("ARC005", Facts(final_norm=False)),
        ("ARC010", Facts(dropout=0.4)),
        ("ARC014", Facts(norm_eps=0.1)),
        ("DAT010", Facts(batch_tokens=16)),
        ("OPT016", Facts(betas=(0.999, 0.9))),
    ],
)
def test_config_alone_is_enough_for_a_smell(code: str, facts: Facts) -> None:
    assert code in {each.code for each in diagnose(History(name="config", facts=facts))}


@pytest.mark.parametrize(
    ("share", "n_updates", "is_said"), [(0.93, 100, True), (0.3, 100, False), (0.93, 10, False)]
)
def test_most_weights_without_a_gradient_show_in_one_reading(
    share: float, n_updates: int, is_said: bool
) -> None:
    losses = curve(GUESSING, 2.5)[:n_updates]
    rates = tuple((step, 1e-3) for step, _ in losses)
    history = but(facts={"norm": "post"}, losses=losses, rates=rates)()
    signs = history.signs | {
        "gradient.missing": (Reading(1, share, "sick"),),
        "gradient.depth_ratio": (Reading(1, 0.0, "sick"),),
    }
    codes = [f.code for f in diagnose(replace(history, signs=signs)) if f.severity != "note"]
    assert ("GRD001" in codes) == is_said
    assert "ARC002" not in codes


def test_one_cause_is_one_finding_with_its_symptoms_as_evidence() -> None:
    sick = {"gradient.depth_ratio": sign(1.0, 1e-6, word="sick")}
    [finding] = diagnose(but(facts={"residual": False}, signs=sick, losses=STUCK)())
    assert finding.code == "ARC001"
    assert any("gradient.depth_ratio" in each.sign for each in finding.evidence)


def test_what_a_probe_found_explains_the_curve() -> None:
    probe = build_finding("LOS003", "Labels are of other rows.")
    [finding] = diagnose(replace(but(losses=STUCK)(), findings=(probe,)))
    assert finding.code == "LOS003"


def test_unknown_cause_is_said_to_be_unknown() -> None:
    sick = {
        "predictions.error_norm": sign(1.0, 0.001, word="sick"),
        "loss.probe": sign(GUESSING, 4.4),
    }
    history = but(signs=sick, losses=flat(4.4))()
    [finding] = [each for each in diagnose(history) if each.severity != "note"]
    assert finding.code == "UNK001"
    assert "predictions.error_norm" in finding.what


def test_what_cannot_be_told_apart_is_named() -> None:
    [finding] = diagnose(but(losses=SPIKE)())
    assert "cannot tell this from" in finding.cause
    assert "OPT008" in finding.cause


def test_batches_that_are_worse_than_guessing_are_more_than_a_note() -> None:
    lasting = tuple((n, v + (3.0 if 120 <= n < 123 else 0.0)) for n, v in curve(GUESSING, 2.5))
    [harmless] = diagnose(but(losses=SPIKE)())
    [foreign] = diagnose(but(losses=lasting)())
    assert (harmless.code, harmless.severity) == ("DAT008", "note")
    assert (foreign.code, foreign.severity) == ("DAT008", "warn")
    # a training that was as bad before has hard batches, and no foreign ones
    rough = tuple((n, 8.0 if n in (5, 12) else v) for n, v in lasting)
    assert [f.severity for f in diagnose(but(losses=rough)())] == ["note"]


def test_loss_far_above_guessing_at_first_is_no_sign_of_labels_not_moved() -> None:
    loud = but(losses=curve(29.0, 2.6), signs={"loss.probe": (29.0, 9.0)})()
    assert "LOS001" not in [each.code for each in diagnose(loud)]


def test_ignored_and_declared_is_no_finding() -> None:
    still = but(
        signs={
            "update.ratio_low": tuple(Reading(n, 0.0, "calm", "head.weight") for n in (5, 10, 20))
        }
    )
    assert [each.code for each in diagnose(still())] == ["OPT002"]
    assert diagnose(still(), declared=declare(frozen=["head"])) == []
    assert diagnose(still(), ignore=["OPT002"]) == []
    with pytest.raises(ConfigError, match="no finding has the code"):
        diagnose(still(), ignore=["XYZ"])


@pytest.mark.parametrize("name", CAUSES)
def test_finding_can_be_read_and_written(name: str) -> None:
    for finding in diagnose(CAUSES[name][1]()):
        told = json.loads(finding.to_json())
        assert told["fix"]
        assert 0 < finding.confidence <= 1
        assert all(isinstance(e.value, str) or math.isfinite(e.value) for e in finding.evidence)
        assert finding.code in finding.text()


def test_decay_that_leaves_no_room_is_named_where_little_was_seen() -> None:
    seen = but(facts={"weight_decay": 100.0, "optimiser": "AdamW"})()
    few = {
        id: readings[:2] for id, readings in seen.signs.items() if not id.startswith("embeddings")
    }
    short = replace(seen, signs=few, losses=tuple((step, 4.5) for step in range(1, 81)))
    assert "OPT010" in {each.code for each in diagnose(short)}
    mild = replace(short, facts=replace(short.facts, weight_decay=0.1))
    assert "OPT010" not in {each.code for each in diagnose(mild)}


def test_what_was_measured_long_ago_is_not_compared_with_the_loss_of_now() -> None:
    late = tuple((step, 0.05) for step in range(1, 201))
    stale = replace(healthy(), losses=late, signs={"loss.probe": (Reading(7, 4.0, "calm"),)})
    assert "LOS001" not in {each.code for each in diagnose(stale)}


@pytest.mark.parametrize(
    ("weights", "eps", "code"),
    [("float16", 1e-8, "NUM003"), ("float16", 1e-6, "NUM007"), ("float32", 1e-8, "NUM004")],
)
def test_an_eps_of_0_in_float16_is_told_from_an_overflow(
    weights: str, eps: float, code: str
) -> None:
    facts = Facts(weights=weights, eps=eps, betas=(0.9, 0.999))
    losses = ((1, 6.2), *((step, math.nan) for step in range(2, 30)))
    stopped = (1, "norm.gain_low", "model.layers.0.input_layernorm")
    findings = diagnose(History(name="half", losses=losses, facts=facts, stopped=stopped))
    assert findings[0].code == code


@pytest.mark.parametrize(
    ("start", "weight", "slope", "codes"),
    [
        (1665.0, 120.0, 0.1, ["LOS006"]),
        (1665.0, 120.0, -0.01, []),  # at a rate that is small enough
        (6.94, 120.0, 0.1, []),
        (6.94, 1.0, 0.1, []),
    ],
)
def test_a_sum_shows_in_the_first_loss_and_its_gradient(
    start: float, weight: float, slope: float, codes: list[str]
) -> None:
    values = {"targets.nats": 6.94, "targets.weight": weight, "targets.single": 1.0}
    signs = {id: (Reading(1, value, "calm"),) for id, value in values.items()}
    losses = tuple((step, start * (1 + slope * (step - 1))) for step in range(1, 41))
    facts = Facts(betas=None, momentum=0.9, optimiser="SGD")
    findings = diagnose(History(name="sum", losses=losses, facts=facts, signs=signs))
    assert ("LOS006" in [f.code for f in findings]) == (start > 1000)
    assert [f.code for f in findings if f.severity != "note" and f.code == "LOS006"] == codes
