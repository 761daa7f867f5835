"""The vital signs of ranks that hold all weights are those of one process."""

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


@pytest.mark.nightly
def test_two_ranks_have_the_vital_signs_of_one_process(tmp_path: Path) -> None:
    rank_vitals.main(tmp_path / "one", 12)
    ends = finish(start_ranks(2, ["-m", "support.rank_vitals", "two", "12"], tmp_path))
    assert [code for code, _, _ in ends] == [0, 0], ends
    one, two = signs_of(tmp_path / "one"), signs_of(tmp_path / "two")
    assert one.keys() == two.keys()
    assert len(one) > 50
    for key, (value, *words) in one.items():
        assert two[key][0] == pytest.approx(value, rel=1e-4, abs=1e-4), key
        assert [*two[key][1:]] == words, key
    logged = [e for e in read_events(RunFolder(tmp_path / "two").metrics) if isinstance(e, Logged)]
    assert all(len(event.ranks) == 2 for event in logged)
    assert not any(
        e.ranks for e in read_events(RunFolder(tmp_path / "one").metrics) if isinstance(e, Logged)
    )
