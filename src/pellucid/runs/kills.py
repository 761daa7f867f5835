"""Proof, on the user's own machine, that a run which is killed loses nothing.

Comes in: a run's folder. Goes out: for each kill of a copy what it left on disk, and whether that
and the end are bit for bit those of a copy that was never stopped. The run itself is only read.

Copies save a checkpoint after every update, so that kills meet writing as well as computing.
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
from pellucid.saved_runs.load import read_config
from pellucid.training import CheckpointSaved, Event, StepFinished


@dataclass(frozen=True, slots=True)
class Kill:
    """After which update a copy was killed, the checkpoint it left, and whether that is equal."""

    step: int
    saved: int
    equal: bool


@dataclass(frozen=True, slots=True)
class KillProof:
    """Every kill, and whether the end was that of a run that was never stopped."""

    from_step: int
    to_step: int
    seed: int
    kills: tuple[Kill, ...]
    losses_equal: bool
    weights_equal: bool

    @property
    def holds(self) -> bool:
        """Whether no kill changed anything."""
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

    Moments are drawn with `seed`; a copy that is done before its kill is begun anew. With `force`
    it begins even if more memory is expected to be needed than is free.

    Raises:
        ConfigError: `kills` is less than 1.
        RunError: there is no run, it does not fit into memory, or a copy stopped by itself.
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
        shutil.copytree(origin, straight)
        whole = _go_on(straight, end, reward)
        proof = _Proof(origin, straight, origin, whole, start, end, reward)
        records = proof.kill(kills, random.Random(seed))
        copy = proof.copy
        last = _go_on(copy, end, reward)
        return KillProof(
            from_step=start,
            to_step=end,
            seed=seed,
            kills=tuple(records),
            losses_equal=losses_of(copy, start) == losses_of(straight, start),
            weights_equal=last.digests.get(end, _digest_at(copy, end)) == whole.digests[end],
        )


class _Moment(NamedTuple):
    """So many seconds after an update, or after the start where `step` is None."""

    step: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class _ChildReport:
    """What a child told: its last update, its checkpoints' digests, when it did its updates."""

    step: int
    digests: Mapping[int, str]
    times: tuple[float, ...]
    killed: bool


def _go_on(path: Path, end: int, reward: str | None, kill: _Moment | None = None) -> _ChildReport:
    """Let a process go on with a copy, and kill it at a moment, unless it is done before."""
    call = f"tell_until({str(path)!r}, {end}, {reward!r})"
    code = f"from pellucid.runs.kills import tell_until; {call}"
    times, digests, step = list[float](), dict[int, str](), 0
    with children.start(children.python(code), errors=True) as process:
        out, err = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)
        for line in out:
            words = line.decode().split()
            if words[0] == "saved":
                digests[int(words[1])] = words[2]
            elif line.endswith(b"\n"):
                step = int(words[1]) if words[0] == "step" else step
                times.append(time.perf_counter())
                if kill is not None and kill.step == (None if words[0] == "ready" else step):
                    time.sleep(kill.seconds)
                    process.kill()
        problem = (err.read().decode(errors="replace").strip().splitlines() or ["no message"])[-1]
    if process.returncode and (kill is None or "Error" in problem):
        raise RunError(f"a part of the proof failed: {problem}")
    return _ChildReport(step, digests, tuple(times), killed=process.returncode != 0)


@dataclass(slots=True)
class _Proof:
    """A copy that is killed again and again beside one that was not."""

    origin: Path
    straight: Path
    copy: Path
    whole: _ChildReport
    start: int
    end: int
    reward: str | None

    def kill(self, kills: int, moments: random.Random) -> list[Kill]:
        """Kill the copy so often, each time a bit further on; begun anew where it is done."""
        records: list[Kill] = []
        reach, at = 1.0, self.end
        while len(records) < kills:
            if at >= self.end:
                self.copy = self.origin.with_name(f"copy-{len(records)}-{reach}")
                shutil.copytree(self.origin, self.copy)
                at = self.start
            ahead = reach * 2 * (self.end - at) / (kills - len(records) + 1)
            step = at + round(moments.uniform(0, min(self.end - 1 - at, ahead)))
            report = _go_on(self.copy, self.end, self.reward, self._moment(step, at, moments))
            if not report.killed:  # it was faster
                at, reach = self.end, reach / 2
                continue
            saved, equal = self.compare()
            records.append(Kill(max(report.step, at), saved, equal))
            at = saved
        return records

    def _moment(self, step: int, at: int, moments: random.Random) -> _Moment:
        """Within the update after `step`; where that is the first, while the copy is opened."""
        times = self.whole.times
        if step == at:
            return _Moment(None, moments.uniform(0, times[1] - times[0]))
        return _Moment(step, moments.uniform(0, (times[-1] - times[1]) / (len(times) - 2)))

    def compare(self) -> tuple[int, bool]:
        """What the copy has on disk, and whether the other one had the same there."""
        shelf = RunFolder(self.copy).shelf
        if not shelf.steps():
            return 0, self.start == 0
        try:
            path, _, _ = shelf.newest_whole(verify)
        except CheckpointError:
            return self.start, False
        step = int(path.name.removeprefix("step-"))
        expected_digest = self.whole.digests.get(step, _digest_at(self.origin, step))
        mine, theirs = (losses_of(place, self.start, step) for place in (self.copy, self.straight))
        return step, _digest_of(path) == expected_digest and mine == theirs


def tell_until(path: str, end: int, reward: str | None) -> None:
    """Go on with a copy until `end`, and print a line for each update and each checkpoint."""

    def tell(event: Event) -> None:
        if isinstance(event, StepFinished):
            print("step", event.step, flush=True)
        elif isinstance(event, CheckpointSaved):
            print("saved", event.step, _digest_of(Path(event.path)), flush=True)

    print("ready", flush=True)
    resume_until(path, end, reward, (tell,))


def _digest_at(folder: Path, step: int) -> str | None:
    path = RunFolder(folder).shelf.path(step)
    return _digest_of(path) if path.is_dir() else None


def _digest_of(checkpoint: Path) -> str:
    """The SHA-256 of weights and optimiser, as the manifest has them."""
    sums = read_json_table(checkpoint / "checkpoint.json")["sha256"]
    return sums["model.safetensors"] + sums["optimiser.safetensors"]
