"""Proof, on the user's own machine, that a run which is killed loses nothing.

Comes in: a run's folder. Goes out: for each kill of a copy what it left on disk, and whether that
and the end are bit for bit those of a copy that was never stopped. The run itself is only read.

Copies save a checkpoint after every update, so that kills meet writing as well as computing.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pellucid import children
from pellucid.errors import CheckpointError, ConfigError, RunError
from pellucid.runs.folder import RunFolder, existing_folder
from pellucid.runs.load import read_config
from pellucid.runs.rebuild import branch_at
from pellucid.runs.verify import first_and_last, losses_of, resume_until
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
    path: str | Path, *, kills: int, steps: int = 10, seed: int = 1337, reward: str | None = None
) -> KillProof:
    """Kill a copy of a run `kills` times at random moments, and compare it with another copy.

    Moments are drawn with `seed`; a copy that is done before its kill is begun anew.

    Raises:
        ConfigError: `kills` is less than 1.
        RunError: there is no run, or a copy stopped by itself.
        CheckpointError: the checkpoint is damaged.
    """
    if kills < 1:
        raise ConfigError(f"--kills must be at least 1, was {kills}")
    folder, _ = existing_folder(Path(path))
    start, end = first_and_last(folder, steps)
    with tempfile.TemporaryDirectory(prefix="pellucid-verify-") as scratch:
        origin, straight, copy = (Path(scratch) / name for name in ("origin", "straight", "copy"))
        run = read_config(folder)
        often = replace(run, training=replace(run.training, checkpoint_every=1))
        branch_at(folder, start, often, RunFolder(origin))
        shutil.copytree(origin, straight)
        whole = _Child(straight, end, reward).to_its_end()
        proof = _Proof(origin, straight, copy, whole, end, reward)
        made = proof.kill(kills, random.Random(seed), start)
        last = _Child(copy, end, reward).to_its_end()
        return KillProof(
            from_step=start,
            to_step=end,
            seed=seed,
            kills=tuple(made),
            losses_equal=losses_of(copy, start) == losses_of(straight, start),
            weights_equal=last.digests.get(end, _digest_at(copy, end)) == whole.digests[end],
        )


@dataclass(frozen=True, slots=True)
class _Told:
    """What a child printed: its last update, its checkpoints' digests, how long it took."""

    step: int
    digests: Mapping[int, str]
    seconds: float


class _Child:
    """A process that goes on with a copy; it tells of each update and each checkpoint."""

    def __init__(self, path: Path, end: int, reward: str | None) -> None:
        call = f"tell_until({str(path)!r}, {end}, {reward!r})"
        code = f"from pellucid.runs.kills import tell_until; {call}"
        self._process = children.start(children.python(code), errors=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it is ready
        self._began = time.perf_counter()

    def to_its_end(self) -> _Told:
        told = self._told()
        if self._process.returncode:
            raise RunError(f"a part of the proof failed: {self._problem}")
        return told

    def killed_after(self, seconds: float) -> _Told | None:
        """None where it was done before."""
        time.sleep(seconds)
        done = self._process.poll() is not None
        self._process.kill()
        told = self._told()
        if done and self._process.returncode:
            raise RunError(f"a part of the proof failed: {self._problem}")
        return None if done else told

    def _told(self) -> _Told:
        out, err = self._process.communicate()
        self._problem = (err.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        seconds = time.perf_counter() - self._began
        lines = [line.split() for line in out.decode().splitlines(keepends=True) if "\n" in line]
        digests = {int(line[1]): line[2] for line in lines if line[0] == "saved"}
        return _Told(max((int(line[1]) for line in lines), default=0), digests, seconds)


@dataclass(slots=True)
class _Proof:
    """A copy that is killed again and again beside one that was not."""

    origin: Path
    straight: Path
    copy: Path
    whole: _Told
    end: int
    reward: str | None

    def kill(self, kills: int, moments: random.Random, start: int) -> list[Kill]:
        """Kill the copy so often, each time a bit further on; begun anew where it is done."""
        made: list[Kill] = []
        haste, at = 1.0, start
        while len(made) < kills:
            if not self.copy.exists():
                shutil.copytree(self.origin, self.copy)
                at = start
            left = self.whole.seconds * (self.end - at) / (self.end - start)
            stretch = 2 * haste * left / (kills - len(made) + 1)
            told = _Child(self.copy, self.end, self.reward).killed_after(
                moments.uniform(0, stretch)
            )
            if told is None or at >= self.end:
                shutil.rmtree(self.copy)  # a copy of ours, in a folder of ours
                haste /= 2
                continue
            saved, equal = self.compare(start)
            made.append(Kill(max(told.step, at), saved, equal))
            at = saved
        return made

    def compare(self, start: int) -> tuple[int, bool]:
        """What the copy has on disk, and whether the other one had the same there."""
        shelf = RunFolder(self.copy).shelf
        if not shelf.steps():
            return 0, start == 0
        try:
            path, _ = shelf.newest_whole()
        except CheckpointError:
            return start, False
        step = int(path.name.removeprefix("step-"))
        known = self.whole.digests.get(step, _digest_at(self.origin, step))
        mine, theirs = (losses_of(place, start, step) for place in (self.copy, self.straight))
        return step, _digest_of(path) == known and mine == theirs


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
    sums = json.loads((checkpoint / "checkpoint.json").read_text(encoding="utf-8"))["sha256"]
    return sums["model.safetensors"] + sums["optimiser.safetensors"]
