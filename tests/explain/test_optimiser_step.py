"""The step is the one the run would make: the run's own optimiser is the witness."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import get_args

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.checkpoints import load_optimiser
from pellucid.explain import trace
from pellucid.explain.addresses.recompute import check_address
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import build_chapter
from pellucid.explain.optimiser_settings import choose_settings
from pellucid.explain.optimiser_step import (
    after_update,
    divisor,
    newton_schulz_steps,
    singular_values,
)
from pellucid.maths import adamw_step
from pellucid.optim import assemble_optimiser, assemble_schedule, gate, orthogonaliser
from support.models import BASE, build
from support.plain_loss import plain_loss
from support.tiny import train_tiny
from support.traced import traced

WEIGHT = "decoder.blocks.1.attention.query.weight"


@pytest.mark.parametrize("orthogonal", get_args(config.Orthogonal))
def test_the_step_is_the_next_one_of_the_run_in_the_type_of_its_plan(
    trained: Path, tmp_path: Path, orthogonal: config.Orthogonal
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    plan = tmp_path / "run" / "plan.json"
    table = json.loads(plan.read_text(encoding="utf-8")) | {"orthogonal": orthogonal}
    plan.write_text(json.dumps(table), encoding="utf-8")
    run = pellucid.load(tmp_path / "run" / "checkpoints" / "step-8")
    assert isinstance(run.config.optimiser, config.Muon)
    text_trace = trace(run, "the fox sat")
    model = copy.deepcopy(run.model)
    loss = plain_loss(model(text_trace.ids[None])[0], text_trace.ids)
    loss.backward()
    tensors, step = load_optimiser(run.checkpoint)
    optimiser = assemble_optimiser(
        run.config.optimiser, model.named_parameters(), orthogonal=orthogonal
    )
    optimiser.load_state_tensors(tensors)
    gated = gate(
        optimiser.gradients(),
        loss.detach(),
        clip_norm=run.config.training.clip_norm,
        blocked=torch.zeros(()),
    )
    optimiser.step(gated, assemble_schedule(run.config.schedule, total=12)(step))
    assert step == 8
    assert choose_settings(text_trace, WEIGHT).step == 9
    after = after_update(text_trace)
    now = dict(after.model.named_parameters())
    for name, weight in model.named_parameters():
        torch.testing.assert_close(now[name], weight.detach(), rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(text_trace[f"{WEIGHT}.next"], now[WEIGHT].detach())
    assert not torch.equal(text_trace[WEIGHT], now[WEIGHT])
    chapter = build_chapter(text_trace, "update", Place(layer=1))
    assert "after 8 updates" in chapter.notes[0]
    assert all(receipt.agrees for receipt in chapter.receipts)
    m, mu = text_trace[f"{WEIGHT}.m"], run.config.optimiser.momentum
    look_ahead = (
        text_trace[f"{WEIGHT}.grad"] / divisor(text_trace, choose_settings(text_trace, WEIGHT))
        + mu * m
    )[None]
    expected_direction = orthogonaliser(run.config.optimiser, orthogonal, look_ahead.device)(
        look_ahead, 5
    )[0]
    torch.testing.assert_close(
        text_trace[f"{WEIGHT}.direction"], expected_direction, rtol=0, atol=0
    )


def test_the_moments_are_those_of_the_equation() -> None:
    text_trace = traced(build(BASE))
    settings = choose_settings(text_trace, WEIGHT)
    zeros = torch.zeros(16, 16, dtype=torch.float64)
    w, m, v = adamw_step(
        text_trace[WEIGHT],
        text_trace[f"{WEIGHT}.grad"],
        zeros,
        zeros,
        step=1,
        learning_rate=settings.learning_rate,
        beta1=settings.beta1,
        beta2=settings.beta2,
        eps=settings.eps,
        weight_decay=settings.weight_decay,
    )
    for part, expected in (("next", w), ("m", m), ("v", v)):
        torch.testing.assert_close(text_trace[f"{WEIGHT}.{part}"], expected)


def test_a_first_step_from_zero_is_the_learning_rate_times_a_sign() -> None:
    text_trace = traced(build(BASE))
    settings = choose_settings(text_trace, WEIGHT)
    assert settings.origin.startswith("first step from zero state")
    change = text_trace[f"{WEIGHT}.next"] - text_trace[WEIGHT] * (
        1 - settings.learning_rate * settings.weight_decay
    )
    sign = -settings.learning_rate * text_trace[f"{WEIGHT}.grad"].sign()
    large = text_trace[f"{WEIGHT}.grad"].abs() > 1e-5
    assert large.float().mean() > 0.5
    torch.testing.assert_close(change[large], sign[large], rtol=1e-2, atol=0)


def test_a_step_lowers_the_loss_and_the_receipts_are_of_the_copy() -> None:
    text_trace = traced(build(BASE))
    before = float(text_trace["loss"])
    chapter = build_chapter(text_trace, "after-update", Place(token=3))
    assert float(text_trace["after_update.loss"]) < before == float(text_trace["loss"])
    assert {receipt.address.partition(".")[0] for receipt in chapter.receipts} == {"after_update"}
    assert all(receipt.agrees for receipt in chapter.receipts)


STEPS = {
    "AdamW": ("betas=[0.9, 0.95]", "eps=1e-8", "weight_decay=0.1"),
    "Adam": ("betas=[0.9, 0.95]", "eps=1e-8", "l2=0.2"),
    "SGD": ("momentum=0.9", "l2=0.2"),
    "SGD without momentum": ("momentum=0.0", "l2=0.0"),
}


@pytest.mark.parametrize("name", STEPS)
def test_each_optimiser_makes_its_own_step_and_every_number_of_it_has_a_receipt(
    tmp_path: Path, name: str
) -> None:
    from support.tiny import train_tiny

    kind = name.partition(" ")[0]
    table = ", ".join((f"kind='{kind}'", "learning_rate=0.01", *STEPS[name]))
    folder = tmp_path / "run"
    settings_ = [f"optimiser={{{table}}}", "training.clip_norm=0.1"]
    train_tiny(folder, steps=4, settings=settings_)
    text_trace = trace(pellucid.load(folder), "the fox")
    chapter = build_chapter(text_trace, "update", Place(layer=1, row=3, column=2))
    assert all(receipt.agrees for receipt in chapter.receipts)
    assert len(chapter.receipts) == {"AdamW": 5, "Adam": 5, "SGD": 4}.get(name, 3)
    assert "each is divided by" in chapter.notes[-1]
    assert text_trace.backward().norm > 0.1
    parts = ["m", "v"] if "Adam" in kind else ["m"] if name == "SGD" else []
    for weight in (WEIGHT, "decoder.blocks.0.feed_forward_norm.gain"):
        for part in (*parts, "next", "grad"):
            assert check_address(text_trace, f"{weight}.{part}").agrees, part
    settings = choose_settings(text_trace, WEIGHT)
    if parts:
        assert text_trace[f"{WEIGHT}.m_before"].any()
        moment_receipt = text_trace.receipt(f"{WEIGHT}.m[3, 2]")
        addresses = [operand.address for operand in moment_receipt.operands]
        decays = [f"{WEIGHT}[3, 2]"] * bool(settings.l2)
        assert addresses == [
            f"{WEIGHT}.m_before[3, 2]",
            f"{WEIGHT}.grad[3, 2]",
            "grad_norm",
            *decays,
        ]
    else:
        divided = text_trace.backward().norm / 0.1
        expected = (
            text_trace[WEIGHT] - settings.learning_rate * text_trace[f"{WEIGHT}.grad"] / divided
        )
        torch.testing.assert_close(text_trace[f"{WEIGHT}.next"], expected)


def test_muon_has_receipts_through_all_its_iterations(trained: Path) -> None:
    text_trace = trace(pellucid.load(trained / "checkpoints" / "step-8"), "the fox sat")
    steps = newton_schulz_steps(text_trace)
    tall = "decoder.blocks.1.feed_forward.up.weight"
    for weight in (WEIGHT, tall):
        parts = ["m", "look_ahead", "direction", "next"]
        parts += [f"iterate{step}" for step in range(steps + 1)]
        parts += [f"gram{step}" for step in range(steps)]
        for part in parts:
            assert check_address(text_trace, f"{weight}.{part}").agrees, (weight, part)
        assert torch.equal(
            text_trace[f"{weight}.iterate{steps}"], text_trace[f"{weight}.direction"]
        )
    values = singular_values(text_trace, WEIGHT)
    assert len(values) == steps + 1
    assert float(values[0].max()) <= 1.0 < 1.3 * float(values[-1].median())
    with pytest.raises(pellucid.PellucidError, match="there is no"):
        text_trace[f"{WEIGHT}.iterate{steps + 1}"]
    address, walked = f"{WEIGHT}.next[3, 2]", list[str]()
    while "grad" not in address:  # along the longest of its operands' names
        walked.append(address.partition("[")[0].rpartition(".")[2])
        address = max(text_trace.receipt(address).operands, key=lambda x: len(x.address)).address
    assert {"next", "direction"} < set(walked)


def test_muon_has_receipts_with_other_polynomials_at_each_iteration(tmp_path: Path) -> None:
    train_tiny(
        tmp_path / "run",
        steps=2,
        settings=["optimiser.polynomials=Polar Express", "optimiser.newton_schulz_steps=3"],
    )
    found = trace(pellucid.load(tmp_path / "run"), "the fox sat")
    for step in range(4):
        assert check_address(found, f"{WEIGHT}.iterate{step}").agrees, step
    assert torch.equal(found[f"{WEIGHT}.iterate3"], found[f"{WEIGHT}.direction"])


def test_what_a_checkpoint_does_not_remember_starts_from_zero(trained: Path) -> None:
    run = pellucid.load(trained)
    text_trace = trace(run, "the fox")
    settings = choose_settings(text_trace, WEIGHT)
    assert settings.step == 13
    assert settings.learning_rate > 0  # of the last update: the schedule has ended
    with pytest.raises(pellucid.PellucidError, match=r"there is no 'nothing\.m'"):
        text_trace["nothing.m"]
