"""A proof, on your own machine, that resuming changes nothing; the run itself stays as it is."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid import children
from pellucid.errors import Interrupted, RunError
from pellucid.free_memory import forcing
from pellucid.runs.memory_budget import check_beginning
from pellucid.runs.rebuild import copy_run
from pellucid.runs.resume import resume
from pellucid.saved_runs.folder import RunFolder, existing_folder
from pellucid.saved_runs.load import read_config, read_plan
from pellucid.saved_runs.records import read_events
from pellucid.saved_runs.replans import decide_until, total_steps
from pellucid.training import Event, Interrupts, Logged, Observer, StepFinished


@dataclass(frozen=True, slots=True)
class ResumeProof:
    """The comparison: its steps, and whether all losses and weights were equal.

    Attributes:
        from_step: the update that both trainings start from.
        stopped_at: the update after which one of them stops and resumes.
        to_step: the update that both reach.
        losses_equal: whether all losses are equal, bit for bit.
        weights_equal: whether the last weights are.
    """

    from_step: int
    stopped_at: int
    to_step: int
    losses_equal: bool
    weights_equal: bool

    @property
    def is_equal(self) -> bool:
        """Whether resuming changed no loss and no weight."""
        return self.losses_equal and self.weights_equal


def verify_resume(
    path: str | Path, *, steps: int = 10, reward: str | None = None, force: bool = False
) -> ResumeProof:
    """Train on from a checkpoint twice, once straight and once with a stop half-way.

    It starts at the newest checkpoint that has updates after it, or at the start of the run. Each
    part runs in its own process.

    Args:
        path: a run.
        steps: how many updates to train on.
        reward: what judges answers, if the run learns from a reward.
        force: start even if pellucid expects to need more memory than is free.

    Raises:
        RunError: there is no run, it does not fit into memory, or a part failed.
        CheckpointError: the checkpoint is damaged.
    """
    folder, _ = existing_folder(Path(path))
    with forcing(force):
        check_beginning(read_config(folder), watched=False)
    start, end = first_and_last(folder, steps)
    middle = (start + end) // 2
    with tempfile.TemporaryDirectory(prefix="pellucid-verify-") as scratch:
        straight, stopped = Path(scratch) / "straight", Path(scratch) / "stopped"
        for copy in (straight, stopped):
            copy_run(folder, RunFolder(copy), start)
            decide_until(RunFolder(copy), read_plan(folder), end)
        _in_process(straight, end, reward)
        _in_process(stopped, middle, reward)
        _in_process(stopped, end, reward)
        return ResumeProof(
            from_step=start,
            stopped_at=middle,
            to_step=end,
            losses_equal=losses_of(straight, start) == losses_of(stopped, start),
            weights_equal=_weights(straight) == _weights(stopped),
        )


def first_and_last(folder: RunFolder, steps: int) -> tuple[int, int]:
    """The newest checkpoint with two updates after it, or the start; and the step to end at."""
    total = total_steps(folder, read_plan(folder))
    starts = [step for step in folder.shelf.steps() if step + 2 <= total]
    start = starts[-1] if starts else 0
    return start, min(total, start + max(2, steps))


def _in_process(path: Path, end: int, reward: str | None) -> None:
    arguments = f"{str(path)!r}, {end}, {reward!r}"
    code = f"from pellucid.runs.verify import resume_until; resume_until({arguments})"
    process = children.run(children.python(code))
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["no message"]
        raise RunError(f"a part of the proof failed: {lines[-1]}")


def resume_until(
    path: str, end: int, reward: str | None = None, observers: Sequence[Observer] = ()
) -> None:
    """Continue a run until `end` updates are done, and save.

    Args:
        path: the run.
        end: how many updates it will have.
        reward: what judges answers.
        observers: functions that are called with every event.
    """
    interrupts = Interrupts()

    def stop(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step >= end:
            interrupts.asked = True

    try:
        resume(
            path,
            reward=reward,
            observers=[*observers, stop],
            show=False,
            interrupts=interrupts,
            force=True,  # checked when the proof started
        )
    except Interrupted:
        return


def losses_of(path: Path, start: int, end: int | None = None) -> list[float]:
    """The loss of each update after `start`, up to `end`.

    Args:
        path: the run.
        start: how many updates to leave out.
        end: the last update; by default the last of the run.
    """
    logged = (e for e in read_events(RunFolder(path).metrics) if isinstance(e, Logged))
    losses = {
        step: loss
        for event in logged
        for step, loss in enumerate(event.losses, start=event.step - len(event.losses) + 1)
    }
    return [loss for step, loss in sorted(losses.items()) if start < step <= (end or step)]


def _weights(path: Path) -> str:
    latest = RunFolder(path).shelf.latest()
    files = [latest / name for name in ("model.safetensors", "optimiser.safetensors")]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
