"""How fast each rank works, and how long it waits for the others."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pellucid.parallel import World

#: Of each rank its own speed, its waiting seconds and its memory, as in `events.Logged`.
Paces = tuple[tuple[float, float | None, int | None], ...]


class WaitMeter:
    """The waiting time of this rank since the last reading.

    Args:
        world: the ranks.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._before = world.waiting_seconds or 0.0

    @contextmanager
    def pausing(self) -> Generator[None]:
        """Within it, waiting does not count: it is not training."""
        started = self._world.waiting_seconds or 0.0
        yield
        self._before += (self._world.waiting_seconds or 0.0) - started

    def read(self, speed: float, seconds: float, memory_bytes: int | None) -> Paces:
        """Of each rank its own speed, its waiting seconds and its memory; empty for one process.

        All ranks read at the same update: one small collective.

        Args:
            speed: terms per second of all ranks together.
            seconds: the time of the updates since the last reading.
            memory_bytes: the memory of this rank.
        """
        world, total = self._world, self._world.waiting_seconds
        if world.size == 1:
            return ()
        waiting = -1.0 if total is None else min(total - self._before, seconds)
        self._before = total or 0.0
        working = seconds - max(waiting, 0.0)
        own_speed = speed * seconds / world.n_data / working if working > 0 else 0.0
        memory = -1.0 if memory_bytes is None else float(memory_bytes)
        return tuple(
            (rank_speed, None if wait < 0 else wait, None if n_bytes < 0 else int(n_bytes))
            for rank_speed, wait, n_bytes in world.table((own_speed, waiting, memory))
        )
