"""The other ranks of a training: rank 0 prepares the run, they take it from its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from pellucid import config
from pellucid.config import encode
from pellucid.errors import RunError
from pellucid.json_text import json_text
from pellucid.parallel import World
from pellucid.runs.observe import run_together
from pellucid.runs.parts import Inject
from pellucid.runs.rebuild import rebuild, restore
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.load import read_config, read_plan
from pellucid.saved_runs.open_checkpoint import open_checkpoint
from pellucid.tasks import Reward
from pellucid.training import Event, Interrupts, Progress, Resumed, Watcher
from pellucid.version import __version__

#: What rank 0 announces of a run that has nothing left to do.
_FINISHED = "finished"


def check_alike(world: World, run: config.Run) -> None:
    """Refuse ranks with another version, other code, or another config than rank 0.

    Raises:
        ConfigError: names the first such rank, and what differs.
    """
    world.agree("version of pellucid", lambda: __version__)
    world.agree("version of torch", lambda: torch.__version__)
    world.agree("code of pellucid", _digest_of_code)
    world.agree("config", lambda: _digest(json_text(encode(run)).encode()))


def share_folder(world: World, path: Path) -> None:
    """Refuse a folder that not all ranks see, before anything is written that would last.

    Args:
        world: the ranks.
        path: a folder that rank 0 has made.

    Raises:
        RunError: names the first rank that does not see it.
    """
    world.announce(str(path.absolute()))
    _refuse_unseen(world, path.absolute(), is_visible=True)


def find_shared_folder(world: World) -> None:
    """Tell rank 0 whether this rank sees its folder.

    Raises:
        RunError: a rank does not see it.
    """
    path = Path(str(world.receive()))
    _refuse_unseen(world, path, is_visible=path.is_dir())


def _refuse_unseen(world: World, path: Path, *, is_visible: bool) -> None:
    answers = world.gather(is_visible)
    if not all(answers):
        raise RunError(
            f"rank {answers.index(False)} of {world.size} does not see the folder that rank 0 made "
            f"for the run in {path.parent}: all ranks need one folder; name one on a shared disk "
            "with --out"
        )


def announce_run(world: World, folder: RunFolder, checkpoint: Path | None = None) -> None:
    """Let the other ranks take a run from its folder.

    Args:
        world: the ranks.
        folder: the prepared run.
        checkpoint: where it continues; None for its start.
    """
    place = None if checkpoint is None else str(checkpoint.absolute())
    world.announce({"folder": str(folder.path.absolute()), "checkpoint": place})


def follow(
    world: World,
    interrupts: Interrupts,
    *,
    reward: Reward | None = None,
    inject: Inject | None = None,
    watchers: Sequence[Watcher] = (),
) -> Path:
    """Train as another rank than 0: take the run that rank 0 announces, and say nothing.

    Args:
        world: the ranks.
        interrupts: signals that stop all ranks.
        reward: judges answers, if the run learns from a reward.
        inject: replaces modules of the model.
        watchers: functions that look into the job, if ranks share its weights: a look takes all.

    Returns:
        The folder of the run.
    """
    announcement = cast("Mapping[str, Any]", world.receive())
    folder = RunFolder(Path(announcement["folder"]))
    if announcement["checkpoint"] != _FINISHED:
        run, plan = read_config(folder), read_plan(folder)
        torch.set_num_threads(plan.threads)
        reward = led_reward(world, reward)
        job = rebuild(folder, run, plan, reward=reward, inject=inject, world=world)
        progress = Progress()
        if announcement["checkpoint"] is not None:
            path = Path(announcement["checkpoint"])
            progress = restore(job, open_checkpoint(path, is_verified=True)[0])
        with ExitStack() as watching:
            shared_watchers = watchers if job.world.is_sharded else ()
            observers = [watching.enter_context(watch(job, _ignore)) for watch in shared_watchers]
            if progress.step:
                resumed = Resumed(step=progress.step, total_steps=job.total_steps, checkpoint="")
                for observer in observers:
                    observer(resumed)
            run_together(job, progress, folder, observers, interrupts)
    return folder.path


def _ignore(event: Event) -> None:
    """Rank 0 records what all ranks have seen."""


def announce_finished(world: World, folder: RunFolder) -> None:
    """Tell the other ranks that the run is finished already."""
    world.announce({"folder": str(folder.path.absolute()), "checkpoint": _FINISHED})


def led_reward(world: World, reward: Reward | None) -> Reward | None:
    """The reward as rank 0 gives it: your function runs once, for all ranks."""
    return None if reward is None else replace(reward, function=world.led(reward.function))


def _digest_of_code() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
