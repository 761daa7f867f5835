"""The new lengths of a run by minutes, in `replans.jsonl`: on the disk before they take effect."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.checkpoints import write_text
from pellucid.config import decode
from pellucid.errors import CheckpointError, ConfigError, PellucidError, RunError
from pellucid.json_text import json_text
from pellucid.reader import LARGE, parse_json, read_text
from pellucid.saved_runs.folder import RunFolder
from pellucid.training import Clock, Replan, Timetable


def read_replans(folder: RunFolder) -> Timetable:
    """The new lengths of a run; none without the file.

    A last line that a crash cut short never took effect: it is left out.

    Raises:
        RunError: a line is damaged.
    """
    if not folder.replans.is_file():
        return Timetable()
    text = read_text(folder.replans, limit=LARGE, refusal=RunError)
    timetable = Timetable()
    for number, line in enumerate(text.split("\n")[:-1], 1):
        place = f"{folder.replans}, line {number}"
        try:
            timetable.add(decode(Replan, parse_json(line, place), "replan"))
        except PellucidError as error:
            raise RunError(
                f"{place} is damaged ({error}): put the file back as it was; the run's checkpoints "
                "can be used without it"
            ) from None
    return timetable


def append_replan(file: Path, replan: Replan) -> None:
    """Add a line, and wait until it is on the disk.

    Raises:
        RunError: the disk is full or cannot be written.
    """
    try:
        with file.open("ab", buffering=0) as stream:
            stream.write(_line(replan).encode())
            os.fsync(stream.fileno())
    except OSError as error:
        raise RunError(
            f"{file} could not be written: {error.strerror}; earlier checkpoints are complete: "
            "make room, then resume"
        ) from error


def write_replans(file: Path, replans: Iterable[Replan]) -> None:
    """Replace the file, all at once."""
    write_text(file, "".join(map(_line, replans)))


def read_clock(state: Mapping[str, Any], file: Path) -> Clock | None:
    """The clock in a checkpoint's state; None in a run of a fixed length.

    Raises:
        CheckpointError: it is damaged; names `file` and the key.
    """
    if "clock" not in state:
        return None
    try:
        clock = decode(Clock, state["clock"], "clock")
        Timetable(clock.replans)
    except ConfigError as error:
        raise CheckpointError(f"{file} is damaged: {error}") from None
    return clock


def settle_replans(
    folder: RunFolder, plan: config.Plan, clock: Clock | None, *, step: int, steps: int | None
) -> None:
    """Make the file ready for a run that continues after `step` updates.

    A line that a crash cut short goes. With `steps`, the run gets that length, which no later plan
    changes.

    Args:
        folder: the run.
        plan: its first plan.
        clock: what its checkpoint says of its time; None at its start.
        step: how many updates are done.
        steps: how many updates the run will have; None to follow the file.

    Raises:
        RunError: the file does not begin with the lengths that the checkpoint was trained by.
    """
    if not plan.replanned:
        return
    replans, clock = read_replans(folder).replans, clock or Clock()
    if tuple(replans[: len(clock.replans)]) != clock.replans:
        raise RunError(
            f"{folder.replans} has changed since the checkpoint: it does not begin with the "
            f"{len(clock.replans)} lines that the run was trained by, so the run would not end "
            "with the same bits: put the file back as it was"
        )
    if steps is not None:
        seconds = clock.seconds
        earlier = (replan for replan in replans if replan.step <= step)
        replans = [
            *earlier,
            Replan(step=step, total_steps=steps, progress=step / steps, seconds=seconds),
            Replan(step=steps, total_steps=steps, progress=1.0, seconds=seconds),
        ]
    if replans or folder.replans.is_file():
        write_replans(folder.replans, replans)


def decide_until(folder: RunFolder, plan: config.Plan, step: int) -> None:
    """Keep the length of a run by minutes as it is up to `step` updates."""
    replan = read_replans(folder).confirmed(step, plan.grows_over) if plan.replanned else None
    if replan is not None:
        append_replan(folder.replans, replan)


def total_steps(folder: RunFolder, plan: config.Plan) -> int:
    """How many updates a run has; in a run by minutes this may change."""
    return read_replans(folder).total(plan.total_steps)


def _line(replan: Replan) -> str:
    return json_text(asdict(replan)) + "\n"
