"""The end of a training whose update met a value that is not finite."""

from __future__ import annotations

from pellucid.errors import NonFiniteError
from pellucid.training import events
from pellucid.training.job import Job
from pellucid.training.non_finite import refusal, set_aside
from pellucid.training.stepper import Stepper


def leave_aside(job: Job, stepper: Stepper, step: int, emit: events.Observer) -> NonFiniteError:
    """Name the culprit of the update that follows `step` updates, and set the state aside.

    Args:
        job: everything that the run is made of.
        stepper: has made the updates so far.
        step: how many they are.
        emit: is told where the state is.

    Returns:
        The error with which the run ends.
    """
    culprit = stepper.find_culprit(lambda: job.batch_of(step), step=step)
    batch, trained = job.batch_of(step), stepper.state()
    trained = trained if trained.places is None else stepper.whole_state()
    tensors = {
        "model": trained.model,
        "optimiser": trained.optimiser,
        "batch": batch.named_tensors(),
    }
    folder = job.non_finite_folder / f"step-{step}"
    target = job.world.led(set_aside)(folder, tensors, step, culprit)
    emit(
        events.StoppedNonFinite(
            step=step, what=culprit.kind, where=culprit.place, aside=str(target)
        )
    )
    return NonFiniteError(refusal(step, culprit, target))
