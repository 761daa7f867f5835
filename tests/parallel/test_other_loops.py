"""Loops of other people on two ranks: faults are named, sound ones are not, and no bit moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.rank_loops import CASES
from support.ranks import finish, start_ranks

#: Cases share processes, which start slowly.
GROUPS = [list(CASES)[start : start + 8] for start in range(0, len(CASES), 8)]


@pytest.mark.nightly
@pytest.mark.parametrize("names", GROUPS)
def test_what_only_many_ranks_have_is_named(names: list[str], tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    ranks = start_ranks(2, ["-m", "support.rank_loops", str(file), *names], tmp_path)
    ends = finish(ranks, seconds=900)
    assert [code for code, _, _ in ends] == [0, 0], ends
    for rank, results in enumerate(json.loads(file.read_text(encoding="utf-8"))):
        for name in names:
            result, expected = results[name], CASES[name][0]
            codes = [code for code, severity, *_ in result["codes"] if severity != "note"]
            assert codes[:1] == ([expected] if expected else []), (name, rank, result)
            assert result["same"], (name, rank)
            assert not result["off"], (name, rank, result["off"])
