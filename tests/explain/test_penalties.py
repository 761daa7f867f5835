"""A penalty's proximal step and clipping: the training's own step and numpy are the witnesses."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import pellucid
from pellucid.checkpoints import load_optimiser
from pellucid.explain import Trace, trace
from pellucid.explain.addresses.recompute import check_address
from pellucid.explain.chapter_types import Chapter, Place, Table
from pellucid.explain.chapters import build_chapter
from pellucid.explain.optimiser_settings import choose_settings
from pellucid.explain.optimiser_step import after_update
from pellucid.optim import assemble_optimiser, assemble_schedule, gate
from support.plain_loss import plain_loss
from support.tiny import train_tiny

STEPS = 4
WEIGHT = "decoder.blocks.1.attention.query.weight"
OTHER = "decoder.blocks.1.attention.key.weight"
OPTIMISERS = {
    "AdamW": "kind='AdamW', learning_rate=0.01, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1",
    "SGD": "kind='SGD', learning_rate=0.01, momentum=0.9, l2=0.2",
    "Muon": "kind='Muon'",
}
#: The strengths l1 and l2 of the penalty of each run, and where it clips.
RUNS = {"AdamW": (5.0, 3.0, 0.1), "SGD": (5.0, 0.0, 0.1), "Muon": (0.0, 3.0, 1e6)}


@pytest.fixture(scope="module", params=RUNS)
def penalised(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A sentence in a trained run with a penalty on the queries."""
    return traced_run(tmp_path_factory.mktemp("penalties") / "run", str(request.param))


def traced_run(folder: Path, optimiser: str) -> Trace:
    """A sentence in the run that an optimiser trains, with the penalty of `RUNS`."""
    l1, l2, clip_norm = RUNS[optimiser]
    settings = [
        f"optimiser={{{OPTIMISERS[optimiser]}}}",
        f"penalties=[{{l1={l1}, l2={l2}, parameters=['*.query.weight', '{WEIGHT}']}}]",
        f"training.clip_norm={clip_norm}",
    ]
    train_tiny(folder, steps=STEPS, settings=settings)
    return trace(pellucid.load(folder), "the fox")


def kind_of(found: Trace) -> str:
    """The optimiser of the run."""
    assert found.run is not None
    return type(found.run.config.optimiser).__name__


def next_weights_of_the_run(sentence: Trace) -> dict[str, torch.Tensor]:
    """All weights after the trainer's own optimiser, gate and penalties took the gradient."""
    run = sentence.run
    assert run is not None
    model = copy.deepcopy(run.model)
    loss = plain_loss(model(sentence.ids[None])[0], sentence.ids)
    loss.backward()
    tensors, step = load_optimiser(run.checkpoint)
    parameters = model.named_parameters()
    optimiser = assemble_optimiser(run.config.optimiser, parameters, run.config.penalties)
    optimiser.load_state_tensors(tensors)
    gated = gate(
        optimiser.gradients(),
        loss.detach(),
        clip_norm=run.config.training.clip_norm,
        blocked=torch.zeros(()),
    )
    factor = assemble_schedule(run.config.schedule, total=STEPS)(min(step, STEPS - 1))
    optimiser.step(gated, factor)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def table_of(chapter: Chapter, title: str) -> dict[str, float]:
    """The numbers of a table by the names of its rows."""
    tables = [x for x in chapter.pictures if isinstance(x, Table) and x.title.startswith(title)]
    return {str(row[0]): float(row[1]) for table in tables for row in table.rows}


def test_the_step_with_a_penalty_is_the_one_of_the_run(penalised: Trace) -> None:
    text_trace = penalised
    l1, l2, _ = RUNS[kind_of(text_trace)]
    expected = next_weights_of_the_run(text_trace)
    next_weights = dict(after_update(text_trace).model.named_parameters())
    for name, weight in expected.items():
        torch.testing.assert_close(next_weights[name].detach(), weight, rtol=1e-5, atol=1e-8)
    for weight in (WEIGHT, OTHER):
        torch.testing.assert_close(
            text_trace[f"{weight}.next"], expected[weight], rtol=1e-5, atol=1e-8
        )
    assert bool((expected[WEIGHT] == 0).any()) == bool(l1)  # the penalty acts: exact zeros
    assert not (expected[OTHER] == 0).any()
    settings = choose_settings(text_trace, WEIGHT)
    # two patterns match the weight, and it pays once
    assert (settings.penalty_l1, settings.penalty_l2) == (l1, l2)
    before, rate = text_trace[f"{WEIGHT}.before_penalty"].double().numpy(), settings.learning_rate
    soft = np.sign(before) * np.maximum(np.abs(before) - rate * l1, 0) / (1 + 2 * rate * l2)
    np.testing.assert_allclose(text_trace[f"{WEIGHT}.next"].numpy(), soft, rtol=1e-5, atol=1e-8)
    for part in ("grad", "clipped_grad", "before_penalty", "next"):
        check = check_address(text_trace, f"{WEIGHT}.{part}")
        assert check.agrees, part
        assert check.numbers == before.size
    assert text_trace.receipt(f"{WEIGHT}.next[3, 2]").operands == (
        (f"{WEIGHT}.before_penalty[3, 2]", float(before[3, 2])),
    )
    with pytest.raises(pellucid.PellucidError, match="there is no"):
        text_trace[f"{OTHER}.before_penalty"]


def test_the_chapter_shows_the_gradient_step_then_the_proximal_step(penalised: Trace) -> None:
    text_trace, kind = penalised, kind_of(penalised)
    l1, l2, clip_norm = RUNS[kind]
    new_weights = text_trace[f"{WEIGHT}.next"]
    places = [(new_weights > 0).nonzero()[0], (new_weights < 0).nonzero()[0]]
    places += [(new_weights == 0).nonzero()[0]] if l1 else []
    for row, column in (place.tolist() for place in places):
        place = Place(layer=1, weight="attention.query.weight", row=row, column=column)
        chapter = build_chapter(text_trace, "update", place)
        ends = [
            receipt.address.partition("[")[0].rpartition(".")[2] for receipt in chapter.receipts
        ]
        assert ends[0] == "grad"
        assert ends[-2:] == ["before_penalty", "next"]
        assert ("clipped_grad" in ends) == (clip_norm < 1)
        assert all(receipt.agrees for receipt in chapter.receipts)
        numbers, new = table_of(chapter, "the penalty"), float(new_weights[row, column])
        assert numbers["w after"] == pytest.approx(new, rel=1e-8)
        shortened = numbers.get("w, shortened", numbers["w"])
        assert shortened / numbers.get("divisor", 1.0) == pytest.approx(new, rel=1e-5)
        assert set(numbers) >= ({"threshold"} if l1 else set()) | ({"divisor"} if l2 else set())
        name = "elastic net" if l1 and l2 else "L1" if l1 else "L2"
        text = "sets it to exactly 0" if new == 0 else "pulls it from"
        assert f"({name}) {text}" in chapter.sentence
    other_chapter = build_chapter(
        text_trace, "update", Place(layer=1, weight="attention.key.weight")
    )
    assert "the run's penalties are on other weights" in other_chapter.notes
    assert not table_of(other_chapter, "the penalty")
    assert "penalty" not in other_chapter.sentence


def test_clipping_is_shown_when_it_acts_and_named_when_it_does_not(penalised: Trace) -> None:
    text_trace, (_, _, clip_norm) = penalised, RUNS[kind_of(penalised)]
    chapter = build_chapter(text_trace, "update", Place(layer=1, row=3, column=2))
    address = chapter.receipts[0].address.partition(".grad")[0]
    numbers, before = table_of(chapter, "clipping"), text_trace[f"{address}.grad"]
    names = text_trace.backward().norms
    total = float(
        torch.cat([text_trace[f"{name}.grad"].double().flatten() for name in names]).norm()
    )
    if clip_norm > total:
        assert not numbers
        assert "none is changed" in chapter.notes[-1]
        assert torch.equal(text_trace[f"{address}.clipped_grad"], before)
        assert check_address(text_trace, f"{address}.clipped_grad").agrees
        return
    assert numbers["‖g‖"] == pytest.approx(total, rel=1e-6)
    assert numbers["factor"] == pytest.approx(clip_norm / total, rel=1e-6)
    assert numbers["g"] == pytest.approx(float(before[3, 2]), rel=1e-8)
    assert numbers["g, clipped"] == pytest.approx(numbers["g"] * clip_norm / total, rel=1e-6)
    operands = text_trace.receipt(f"{address}.clipped_grad[3, 2]").operands
    assert [operand.address for operand in operands] == [f"{address}.grad[3, 2]", "grad_norm"]
    clipped = torch.cat([text_trace[f"{name}.clipped_grad"].flatten() for name in names])
    assert float(clipped.norm()) == pytest.approx(clip_norm, rel=1e-5)
