"""Fixes: each is a valid change of the config, for every preset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid import config
from pellucid.config import run_from_table
from pellucid.diagnosis import (
    Evidence,
    History,
    build_finding,
    diagnose,
    propose_fixes,
    read_codes,
    reduce_model,
)
from pellucid.diagnosis.fixes.loop import LOOP_FIXES
from pellucid.diagnosis.fixes.model import MODEL_FIXES
from pellucid.diagnosis.fixes.propose import apply_assignments, build_fix, read_fixes
from pellucid.diagnosis.fixes.training import TRAINING_FIXES
from pellucid.diagnosis.history.run import facts_of
from pellucid.model import assemble
from pellucid.presets import PRESETS, find

NANO = find("nano")


def changed(base: str = "nano", **changes: Any) -> config.Run:
    """A preset with some values changed, by their paths with __ for the dots."""
    return run_from_table(
        {"base": base}, find, [f"{k.replace('__', '.')}={v}" for k, v in changes.items()]
    )


def first(code: str, run: config.Run) -> tuple[str, ...]:
    """The assignments that are tried first."""
    return propose_fixes(build_finding(code, "seen"), run)[0].assignments


def test_causes_name_every_fix_and_only_fixes_with_words_and_code() -> None:
    named = {name for code in read_codes().values() for name in code.fixes}
    assert set(read_fixes()) == {*TRAINING_FIXES, *MODEL_FIXES, *LOOP_FIXES} == named


def test_no_cause_names_a_fix_twice() -> None:
    for code in read_codes().values():
        assert len(set(code.fixes)) == len(code.fixes), code.code


@pytest.mark.parametrize("preset", PRESETS)
def test_every_fix_applies_to_every_preset_and_changes_it(preset: str) -> None:
    run = find(preset)
    given = [each for name in read_fixes() if (each := build_fix(name, run)) is not None]
    assert len(given) > 15
    for each in given:
        assert each.assignments
        assert each.reason
        assert each.source


@pytest.mark.parametrize("kind", ["GrowingBatch", "GrowingLength"])
def test_every_fix_applies_to_a_run_that_begins_small(kind: str) -> None:
    run = changed(training__growth=f"{{kind = '{kind}', first = 2, until = 0.5}}")
    given = [each for name in read_fixes() if (each := build_fix(name, run)) is not None]
    assert len(given) > 15
    assert all(apply_assignments(run, each.assignments) != run for each in given)


def test_assignments_are_texts_for_set() -> None:
    (each,) = propose_fixes(build_finding("OPT009", ""), changed(optimiser__rest__eps=1e-2))
    by_hand = run_from_table({"base": "nano"}, find, each.assignments)
    assert by_hand == changed(optimiser__rest__eps=1e-8)


@pytest.mark.parametrize("preset", ["nano", "nano-pair"])
def test_what_is_replayed_has_the_shapes_of_the_run(preset: str) -> None:
    run = find(preset)
    small = replace(run, model=replace(reduce_model(run.model), vocab_size=64))
    shapes = {name: t.shape for name, t in assemble(small.model, seed=0).state_dict().items()}
    given = [each for name in read_fixes() if (each := build_fix(name, small)) is not None]
    models = {
        each.assignments: apply_assignments(small, each.assignments).model
        for each in given
        if each.start == "replay"
    }
    for assignments, model in models.items():
        if model != small.model:
            made = assemble(model, seed=0).state_dict()
            assert {name: t.shape for name, t in made.items()} == shapes, assignments


@pytest.mark.parametrize(
    ("code", "run", "wanted"),
    [
        ("OPT009", changed(optimiser__rest__eps=1e-2), ("optimiser.rest.eps=1e-08",)),
        ("OPT010", changed(optimiser__weight_decay=50.0), ("optimiser.weight_decay=0.1",)),
        (
            "ARC001",
            changed(model__decoder__residual="NoResidual"),
            ('model.decoder.residual={kind = "PreNorm"}', "model.decoder.final_norm=true"),
        ),
        ("ARC005", changed(model__decoder__final_norm="false"), ("model.decoder.final_norm=true",)),
        (
            "ARC006",
            changed(model__decoder__attention__scale=1.0),
            ('model.decoder.attention.scale="none"',),
        ),
        ("ARC010", changed(model__decoder__dropout=0.9), ("model.decoder.dropout=0.1",)),
        ("LOS013", changed(objective__label_smoothing=0.9), ("objective.label_smoothing=0.0",)),
        ("OPT012", changed(training__clip_norm=1e-4), ("training.clip_norm=1.0",)),
        (
            "ARC009",
            changed(model__decoder__feed_forward__activation="relu_squared"),
            ('model.decoder.feed_forward.activation="gelu"',),
        ),
        (
            "ARC015",
            changed("nano-experts", model__decoder__feed_forward__load_loss=0.0),
            ("model.decoder.feed_forward.load_loss=0.01",),
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_config_is_what_is_changed_first(
    code: str, run: config.Run, wanted: tuple[str, ...]
) -> None:
    assert first(code, run) == wanted


def test_what_is_right_already_is_not_proposed() -> None:
    for code in ("OPT009", "ARC001", "ARC005", "ARC007", "LOS013", "OPT012"):
        assert propose_fixes(build_finding(code, ""), NANO) == []


def test_evidence_of_how_far_updates_go_chooses_the_learning_rate() -> None:
    def rate(moved: float) -> str:
        said = replace(
            build_finding("OPT005", ""), evidence=(Evidence("update.ratio", moved, "", ""),)
        )
        return propose_fixes(said, NANO)[0].change

    assert rate(0.03) == "a third of the learning rate"
    assert rate(0.1) == "a tenth of the learning rate"
    assert rate(1.0) == "a hundredth of the learning rate"
    assert rate(3e4) == "a usual learning rate"


def test_rate_of_sgd_far_beyond_the_usual_is_the_usual_one_next() -> None:
    hot = apply_assignments(
        NANO, ['optimiser={kind="SGD", learning_rate=30.0, momentum=0.0, l2=0.0}']
    )
    assert propose_fixes(build_finding("OPT005", ""), hot)[0].assignments == (
        "optimiser.learning_rate=0.1",
    )


def test_swapped_betas_and_large_eps_of_norms_are_set_right_first() -> None:
    run = apply_assignments(
        NANO, ["optimiser.rest.betas=[0.99, 0.5]", "model.decoder.norm.eps=10.0"]
    )
    assert propose_fixes(build_finding("OPT016", ""), run)[0].assignments == (
        "optimiser.rest.betas=[0.9, 0.95]",
    )
    assert propose_fixes(build_finding("ARC014", ""), run)[0].assignments == (
        "model.decoder.norm.eps=1e-05",
    )


def test_a_model_that_was_trained_elsewhere_keeps_its_architecture() -> None:
    run = replace(NANO, start="elsewhere")
    given = [each for name in read_fixes() if (each := build_fix(name, run)) is not None]
    assert given
    models = [apply_assignments(run, each.assignments).model for each in given]
    assert {m.initialisation for m in models} == {NANO.model.initialisation}
    assert all(replace(m, decoder=NANO.model.decoder) == NANO.model for m in models)
    kinds = {type(m.decoder.residual) for m in models if m.decoder is not None}
    assert kinds == {config.PreNorm}


def test_layers_that_take_turns_are_changed_in_their_list() -> None:
    assert isinstance(find("gemma2-2b").model.stacks[0].attention, config.Alternating)
    (each,) = (
        one
        for one in propose_fixes(build_finding("ATT007", ""), find("gemma2-2b"))
        if "QK-norm" in one.change
    )
    after = apply_assignments(find("gemma2-2b"), each.assignments).model.stacks[0].attention
    assert isinstance(after, config.Alternating)
    assert all(isinstance(l, config.MultiHead) and l.qk_norm for l in after.layers)


def test_what_is_found_in_a_config_carries_a_patch_that_applies_to_it() -> None:
    run = find("gpt2")
    run = replace(run, optimiser=replace(run.optimiser, learning_rate=1.0))
    hot = History(name="hot", facts=facts_of(run, 600), config=run)
    patches = {each.code: each.patch for each in diagnose(hot)}
    assert all(patch == () or apply_assignments(run, patch) != run for patch in patches.values())
    assert apply_assignments(run, patches["OPT005"]).optimiser.learning_rate < 1.0
    assert all(each.patch == () for each in diagnose(replace(hot, config=None)))
