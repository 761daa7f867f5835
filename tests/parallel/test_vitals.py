"""Ranks that hold all weights have the vital signs of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.runs import RunFolder, read_events
from pellucid.training import Logged, Vitals
from support import rank_vitals
from support.ranks import finish, start_ranks


def signs_of(run: Path) -> dict[tuple[int, str], tuple[float, str, str]]:
    """The value, the word and the place of each reading."""
    return {
        (event.step, id): (value, word, place)
        for event in read_events(RunFolder(run).metrics)
        if isinstance(event, Vitals)
        for id, _, value, word, _, place in event.signs
    }


LAYOUTS = [
    (2, ()),
    (2, ("parallel.shard=full",)),
    (2, ("parallel.tensor=2",)),
    (4, ("parallel.shard=full", "parallel.tensor=2")),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("size", "settings"), LAYOUTS)
def test_ranks_have_the_vital_signs_of_one_process(
    size: int, settings: tuple[str, ...], tmp_path: Path
) -> None:
    rank_vitals.main(tmp_path / "one", 12)
    words = ["-m", "support.rank_vitals", "all", "12", *settings]
    ends = finish(start_ranks(size, words, tmp_path), seconds=600)
    assert [code for code, _, _ in ends] == [0] * size, ends
    single_signs, all_ranks = signs_of(tmp_path / "one"), signs_of(tmp_path / "all")
    # gradients that are left are seen in whole weights alone
    missing = {id for _, id in single_signs.keys() - all_ranks.keys()}
    assert missing <= ({"gradient.left"} if "parallel.shard=full" in settings else set())
    assert not all_ranks.keys() - single_signs.keys()
    assert len(single_signs) > 50
    for key in all_ranks:
        value, *words = single_signs[key]
        assert all_ranks[key][0] == pytest.approx(value, rel=1e-4, abs=1e-4), key
        assert [*all_ranks[key][1:]] == words, key
    logged = [e for e in read_events(RunFolder(tmp_path / "all").metrics) if isinstance(e, Logged)]
    assert all(len(event.ranks) == size for event in logged)
    assert not any(
        e.ranks for e in read_events(RunFolder(tmp_path / "one").metrics) if isinstance(e, Logged)
    )
