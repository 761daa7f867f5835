"""A record whose fields are not of the types that its event declares is refused by field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import RunError
from pellucid.runs import RunFolder, attach, read_events
from pellucid.training import Example, Finished, Preparing, from_record, to_record
from support.events import LOGGED

ODD: list[tuple[dict[str, Any], str]] = [
    ({"event": "Explosion", "step": 1}, "not an event of this version of pellucid: 'Explosion'"),
    ({"event": ["Finished"], "step": 1}, "not an event"),
    ({"event": "Finished", "step": 1}, "seconds"),
    ({"event": "Finished", "step": -1, "seconds": 1.0}, "expected a step of at least 0"),
    ({"event": "Finished", "step": True, "seconds": 1.0}, "step: expected int, was True"),
    ({"event": "Finished", "step": 10**30, "seconds": 1.0}, "step: expected int"),
    ({"event": "Finished", "step": 2**63, "seconds": 1.0}, "step: expected int"),
    ({"event": "Finished", "step": 1, "seconds": True}, "seconds: expected a number, was True"),
    ({**to_record(LOGGED), "losses": []}, "Logged: expected a step of at least 0, and a loss"),
    ({"event": "Finished", "step": 1, "seconds": "1"}, "seconds: expected a number, was '1'"),
    ({"event": "Finished", "step": 1, "seconds": {"float": "x"}}, "seconds: expected a number"),
    ({"event": "Finished", "step": 1, "seconds": 1.0, "more": 2}, "Finished has no 'more'"),
    ({"event": "Noticed", "step": 1, "text": ["a"]}, "text: expected str"),
    ({"event": "Drifted", "step": 1, "changes": [["a", "b"]]}, "changes: expected 3 values"),
    ({"event": "Drifted", "step": 1, "changes": "abc"}, "changes: expected a list"),
]


@pytest.mark.parametrize(("record", "problem"), ODD, ids=[problem for _, problem in ODD])
def test_a_record_that_is_no_event_is_refused_by_field(
    record: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        from_record(record)


def test_the_largest_step_and_the_first_one_are_read() -> None:
    for step in (0, 2**63 - 1):
        finished = Finished(step=step, seconds=2.0)
        assert from_record(to_record(finished)) == finished


def test_what_happens_before_the_first_update_is_of_step_0() -> None:
    assert Preparing(what="reading").step == Example(title="a row", rows=()).step == 0


LINES = (
    b"[]",
    b"5",
    b"{}",
    b"\xff",
    b'{"event": 1, "step": 1}',
    b'{"event": "Finished", "step": 1}',
)


@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_line_that_is_no_event_is_refused_by_resume_and_attach_alike(
    line: bytes, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    good_line = b'{"event": "Finished", "step": 1, "seconds": 1}\n'
    folder.metrics.write_bytes(good_line)
    assert list(attach(folder)) == read_events(folder.metrics) == [Finished(step=1, seconds=1.0)]
    folder.metrics.write_bytes(good_line + line + b"\n" + good_line)
    for read in (lambda: list(attach(folder)), lambda: read_events(folder.metrics)):
        with pytest.raises(RunError, match=r"line 2 \(.*\) is not a record"):
            read()
