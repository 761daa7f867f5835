"""What a stepper says of its device, and how it repeats an update."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Literal

import pytest
import torch

from pellucid.batches import Batch, Loss
from pellucid.training import Stepper
from pellucid.training.randomness import seed_part, seed_step
from support.watched import job_of, small


class Drawing:
    """An objective that notes what it draws, and the mode of the model."""

    def __init__(self) -> None:
        self.draws: list[float] = []
        self.modes: list[bool] = []

    def __call__(self, model: torch.nn.Module, batch: Batch) -> Loss:
        self.draws.append(torch.rand(()).item())
        self.modes.append(model.training)
        total = sum(parameter.sum() for parameter in model.parameters())
        return Loss(total=total, parts={"loss_nats": total})


def make_stepper(objective: Drawing) -> tuple[Stepper, Batch]:
    job = job_of(small(n_layers=1), steps=4)
    stepper = Stepper(
        job.model, objective, job.optimiser, settings=job.settings, plan=job.plan, seed=job.seed
    )
    return stepper, job.batch_of(0)


def test_an_update_is_repeated_with_the_numbers_that_it_drew() -> None:
    objective = Drawing()
    stepper, batch = make_stepper(objective)
    stepper._model.eval()
    stepper.update(batch, step=2, factor=0.0)
    draws: list[float] = []

    def make_batch() -> Batch:
        draws.append(torch.rand(()).item())
        torch.rand(5)  # more than an update draws
        return batch

    stepper._model.eval()
    stepper.find_culprit(make_batch, step=2)
    seed_step(1, 2)
    first = torch.rand(()).item()
    assert draws == [first]
    assert objective.draws == [first, first]
    assert objective.modes == [True, True]


@pytest.mark.parametrize("seeding", ["by_update", "by_part"])
def test_parts_share_one_stream_or_each_has_its_own(
    seeding: Literal["by_update", "by_part"],
) -> None:
    objective = Drawing()
    job = job_of(small(n_layers=1), steps=4)
    stepper = Stepper(
        job.model,
        objective,
        job.optimiser,
        settings=replace(job.settings, accumulation=2),
        plan=replace(job.plan, seeding=seeding),
        seed=job.seed,
    )
    expected: list[float] = []
    seed_step(job.seed, 3)
    for part in range(2):
        if seeding == "by_part":
            seed_part(job.seed, 3, part)
        expected.append(torch.rand(()).item())
    seed_step(job.seed, 3)
    stepper.update(job.batch_of(0), step=3, factor=0.0)
    assert objective.draws == expected


def test_on_a_cpu_updates_are_done_when_they_return() -> None:
    stepper, _ = make_stepper(Drawing())
    assert not stepper.runs_ahead
    stepper.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such count")
def test_memory_is_that_of_the_process_in_bytes() -> None:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    assert make_stepper(Drawing())[0].memory_in_use() == pytest.approx(peak * unit, rel=0.1)


def test_one_process_keeps_its_state_whole_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.training.stepper.GATHERED_BYTES", 0)
    stepper, _ = make_stepper(Drawing())
    assert stepper.state().places is None


def test_patience_ends_at_its_number_of_evaluations() -> None:
    job = job_of(small(n_layers=1), steps=4)
    assert not job.has_lost_patience(100)
    job = replace(job, settings=replace(job.settings, patience=2, evaluate_every=1))
    assert [job.has_lost_patience(n) for n in (1, 2, 3)] == [False, True, True]
