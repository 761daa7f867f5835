"""Which examples are held out: whole groups, by their hash, the same every time.

Comes in: the group of each example. Goes out: who is held out. It does not know what a group is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pellucid.errors import TextError


def held_out_of(groups: Sequence[str], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """True for each example that is held out; examples of one group are on one side.

    Groups are taken in the order of their hash until `share` of all examples is reached, so that
    the share is exact to one group. Neither the order of the rows nor which other rows there are
    changes a group's place in this order: where rows are added, only groups near the border change
    sides.

    Raises:
        TextError: there are fewer than two groups, or one is too large to leave anything.
    """
    counts: dict[str, int] = {}
    for group in groups:
        counts[group] = counts.get(group, 0) + 1
    if len(counts) < 2:
        raise TextError(
            f"{len(groups)} examples of {len(counts)} group cannot be parted into training and "
            "held-out examples without one being on both sides: pass rows that differ"
        )
    ranked = sorted(counts, key=lambda group: _hash(group, seed))
    n_wanted = share * len(groups)
    n_chosen, chosen = 0, set[str]()
    for group in ranked[:-1]:  # at least one is left to train on
        # the group that crosses the border is taken where that comes nearer to the share
        if chosen and abs(n_chosen + counts[group] - n_wanted) >= abs(n_chosen - n_wanted):
            break
        chosen.add(group)
        n_chosen += counts[group]
    return np.array([group in chosen for group in groups], dtype=np.bool_)


def _hash(group: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed} {group}".encode("utf-8", "surrogatepass")).digest()
