"""A proof, on your own machine, that a killed run loses nothing.

Copies of the run save a checkpoint after every update, so kills can happen during writing as well
as computing. pellucid only reads the run itself.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NamedTuple, cast

from pellucid import children
from pellucid.checkpoints import verify
from pellucid.errors import CheckpointError, ConfigError, RunError
from pellucid.free_memory import forcing
from pellucid.reader import read_json_table
from pellucid.runs.memory_budget import check_beginning
from pellucid.runs.rebuild import branch_at
from pellucid.runs.verify import first_and_last, losses_of, resume_until
from pellucid.saved_runs.folder import RunFolder, existing_folder
from pellucid.saved_runs.load import read_config, read_plan
from pellucid.saved_runs.replans import decide_until
from pellucid.training import CheckpointSaved, Event, StepFinished


@dataclass(frozen=True, slots=True)
class KillRecord:
    """A kill: the update before it, the copy's last checkpoint, and whether that is equal.

    Attributes:
        step: the last update before the kill.
        saved: the update of the copy's last checkpoint.
        equal: whether that checkpoint has the same bits.
    """

    step: int
    saved: int
    equal: bool


@dataclass(frozen=True, slots=True)
class KillProof:
    """All kills, and whether the result is equal to a run without a stop.

    Attributes:
        from_step: the update that the copies start from.
        to_step: the update that all of them reach.
        seed: of the random moments.
        kills: one record for each kill.
        losses_equal: whether all losses are equal, bit for bit.
        weights_equal: whether the last weights are.
    """

    from_step: int
    to_step: int
    seed: int
    kills: tuple[KillRecord, ...]
    losses_equal: bool
    weights_equal: bool

    @property
    def is_equal(self) -> bool:
        """Whether no kill changed a loss or a weight."""
        return self.losses_equal and self.weights_equal and all(kill.equal for kill in self.kills)


def verify_kills(
    path: str | Path,
    *,
    kills: int,
    steps: int = 10,
    seed: int = 1337,
    reward: str | None = None,
    force: bool = False,
) -> KillProof:
    """Kill a copy of a run `kills` times at random moments, and compare it with another copy.

    A copy that finishes before its kill starts anew.

    Args:
        path: a run.
        kills: how often to kill.
        steps: how many updates to train on.
        seed: the seed of the moments.
        reward: what judges answers, if the run learns from a reward.
        force: start even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: `kills` is less than 1.
        RunError: there is no run, it does not fit into memory, or a copy stopped without a kill.
        CheckpointError: the checkpoint is damaged.
    """
    if kills < 1:
        raise ConfigError(f"--kills must be at least 1, was {kills}")
    folder, _ = existing_folder(Path(path))
    run = read_config(folder)
    with forcing(force):
        check_beginning(run, watched=False)
    start, end = first_and_last(folder, steps)
    with tempfile.TemporaryDirectory(prefix="pellucid-verify-") as scratch:
        origin, straight = Path(scratch) / "origin", Path(scratch) / "straight"
        often = replace(run, training=replace(run.training, checkpoint_every=1))
        branch_at(folder, start, often, RunFolder(origin))
        decide_until(RunFolder(origin), read_plan(folder), end)
        shutil.copytree(origin, straight)
        straight_report = _run_child(straight, end, reward)
        proof = _Proof(origin, straight, origin, straight_report, start, end, reward)
        records = proof.kill(kills, random.Random(seed))
        copy = proof.copy
        copy_report = _run_child(copy, end, reward)
        return KillProof(
            from_step=start,
            to_step=end,
            seed=seed,
            kills=tuple(records),
            losses_equal=losses_of(copy, start) == losses_of(straight, start),
            weights_equal=copy_report.digests.get(end, _digest_at(copy, end))
            == straight_report.digests[end],
        )


class _Moment(NamedTuple):
    """A number of seconds after an update, or after the start if `step` is None."""

    step: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class _ChildReport:
    """The report of a child process: its last update, digests of its checkpoints, update times."""

    step: int
    digests: Mapping[int, str]
    times: tuple[float, ...]
    killed: bool


def _run_child(
    path: Path, end: int, reward: str | None, kill: _Moment | None = None
) -> _ChildReport:
    """Continue a copy in a child process, and kill it at a moment unless it finishes before."""
    call = f"report_until({str(path)!r}, {end}, {reward!r})"
    code = f"from pellucid.runs.kills import report_until; {call}"
    times, digests, step = list[float](), dict[int, str](), 0
    with children.start(children.python(code), errors=True) as process:
        output, errors = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)
        for line in output:
            words = line.decode().split()
            if words[0] == "saved":
                digests[int(words[1])] = words[2]
            elif line.endswith(b"\n"):
                step = int(words[1]) if words[0] == "step" else step
                times.append(time.perf_counter())
                if kill is not None and kill.step == (None if words[0] == "ready" else step):
                    time.sleep(kill.seconds)
                    process.kill()
        lines = errors.read().decode(errors="replace").strip().splitlines()
        problem = lines[-1] if lines else "no message"
    if process.returncode and (kill is None or "Error" in problem):
        raise RunError(f"a part of the proof failed: {problem}")
    return _ChildReport(step, digests, tuple(times), killed=process.returncode != 0)


@dataclass(slots=True)
class _Proof:
    """A copy that is killed many times, and another that is not."""

    origin: Path
    straight: Path
    copy: Path
    straight_report: _ChildReport
    start: int
    end: int
    reward: str | None

    def kill(self, kills: int, moments: random.Random) -> list[KillRecord]:
        """Kill the copy `kills` times, each time a bit later; a copy that finishes starts anew."""
        records: list[KillRecord] = []
        reach, n_done = 1.0, self.end
        while len(records) < kills:
            if n_done >= self.end:
                self.copy = self.origin.with_name(f"copy-{len(records)}-{reach}")
                shutil.copytree(self.origin, self.copy)
                n_done = self.start
            span = reach * 2 * (self.end - n_done) / (kills - len(records) + 1)
            step = n_done + round(moments.uniform(0, min(self.end - 1 - n_done, span)))
            moment = self._moment(step, n_done, moments)
            report = _run_child(self.copy, self.end, self.reward, moment)
            if not report.killed:  # it was faster
                n_done, reach = self.end, reach / 2
                continue
            saved, equal = self.compare()
            records.append(KillRecord(max(report.step, n_done), saved, equal))
            n_done = saved
        return records

    def _moment(self, step: int, n_done: int, moments: random.Random) -> _Moment:
        """A moment within the update after `step`, or while the copy opens if it is the first."""
        times = self.straight_report.times
        if step == n_done:
            return _Moment(None, moments.uniform(0, times[1] - times[0]))
        return _Moment(step, moments.uniform(0, (times[-1] - times[1]) / (len(times) - 2)))

    def compare(self) -> tuple[int, bool]:
        """The last checkpoint of the copy, and whether the other copy had the same."""
        shelf = RunFolder(self.copy).shelf
        if not shelf.steps():
            return 0, self.start == 0
        try:
            path, _, _ = shelf.newest_whole(verify)
        except CheckpointError:
            return self.start, False
        step = int(path.name.removeprefix("step-"))
        expected_digest = self.straight_report.digests.get(step, _digest_at(self.origin, step))
        losses, expected_losses = (
            losses_of(place, self.start, step) for place in (self.copy, self.straight)
        )
        return step, _digest_of(path) == expected_digest and losses == expected_losses


def report_until(path: str, end: int, reward: str | None) -> None:
    """Continue a copy until `end`, and print a line for each update and each checkpoint."""

    def report(event: Event) -> None:
        if isinstance(event, StepFinished):
            print("step", event.step, flush=True)
        elif isinstance(event, CheckpointSaved):
            print("saved", event.step, _digest_of(Path(event.path)), flush=True)

    print("ready", flush=True)
    resume_until(path, end, reward, (report,))


def _digest_at(folder: Path, step: int) -> str | None:
    path = RunFolder(folder).shelf.path(step)
    return _digest_of(path) if path.is_dir() else None


def _digest_of(checkpoint: Path) -> str:
    """The SHA-256 of weights and optimiser, as the manifest has them."""
    sums = read_json_table(checkpoint / "checkpoint.json")["sha256"]
    return sums["model.safetensors"] + sums["optimiser.safetensors"]
