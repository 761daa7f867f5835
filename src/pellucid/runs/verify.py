"""Proof, on the user's own machine, that resuming changes nothing.

Comes in: a run's folder. Goes out: whether a copy that was stopped and resumed in another process
ends with the same losses and the same bits as one that never stopped. The run itself is only read.
"""

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
from pellucid.training import Event, Interrupts, Logged, Observer, StepFinished


@dataclass(frozen=True, slots=True)
class ResumeProof:
    """What was compared: from which step, over how many, and whether all was equal."""

    from_step: int
    stopped_at: int
    to_step: int
    losses_equal: bool
    weights_equal: bool

    @property
    def holds(self) -> bool:
        """Whether resuming changed nothing."""
        return self.losses_equal and self.weights_equal


def verify_resume(
    path: str | Path, *, steps: int = 10, reward: str | None = None, force: bool = False
) -> ResumeProof:
    """Train on from a checkpoint twice, once straight and once with a stop half-way.

    The start is the newest checkpoint with `steps` updates after it, or the run's very start. Each
    part runs in a process of its own. A run with a `reward` has to be told it again. With `force`
    it begins even if more memory is expected to be needed than is free.

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
    """From the newest checkpoint with two updates after it, or the start; to so many steps on."""
    total = read_plan(folder).total_steps
    starts = [step for step in folder.shelf.steps() if step + 2 <= total]
    start = starts[-1] if starts else 0
    return start, min(total, start + max(2, steps))


def _in_process(path: Path, end: int, reward: str | None) -> None:
    arguments = f"{str(path)!r}, {end}, {reward!r}"
    code = f"from pellucid.runs.verify import resume_until; resume_until({arguments})"
    process = children.run(children.python(code))
    if process.returncode:
        last = process.stderr.strip().splitlines()[-1:] or ["no message"]
        raise RunError(f"a part of the proof failed: {last[0]}")


def resume_until(
    path: str, end: int, reward: str | None = None, observers: Sequence[Observer] = ()
) -> None:
    """Go on with a run until `end` updates are done, and save there."""
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
            force=True,  # whoever asked for the proof was asked
        )
    except Interrupted:
        return


def losses_of(path: Path, start: int, end: int | None = None) -> list[float]:
    """The loss of each update after `start`, up to `end`."""
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
