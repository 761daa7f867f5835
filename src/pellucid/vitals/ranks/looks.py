"""Looks at weights that ranks share: all ranks take one at the same update, or none does."""

from __future__ import annotations

from pellucid.parallel.collect import Collect
from pellucid.training import Guard
from pellucid.vitals.schedule import KINDS, Kind

#: How long a rank waits for the others before a look; they have just shared their gradients.
_SECONDS = 20.0


class Looks:
    """The agreement of all ranks on their looks; rank 0 decides.

    Args:
        collect: the ranks.
        guard: what it has switched off has to be the same on all ranks.
    """

    def __init__(self, collect: Collect, guard: Guard) -> None:
        self._collect = collect
        self._guard = guard

    def agree(self, step: int, due: set[Kind]) -> set[Kind] | None:
        """The looks of all ranks at an update.

        Args:
            step: the update.
            due: what this rank would look at.

        Returns:
            None if a rank did not come, or has switched off other measurements than this one.
        """
        own = {"due": sorted(due), "off": sorted(self._guard.off)}
        answers = self._collect.meet(f"look-{step}", own, seconds=_SECONDS)
        if answers is None or any(answer["off"] != answers[0]["off"] for answer in answers):
            return None
        return {kind for kind in KINDS if kind in answers[0]["due"]}
