"""Logs that people posted are read, healthy ones without an alarm, and the page has the results."""

from __future__ import annotations

import json
import re

import pytest
from benchmarks.posted_logs.__main__ import PAGE, corpus, judge, page, split_of

from pellucid.diagnosis import read_codes

LOGS = corpus()
RESULTS = sorted((PAGE.parents[1] / "benchmarks" / "results").glob("posted-logs-*.json"))


@pytest.fixture(scope="module")
def verdicts() -> list[dict[str, object]]:
    return [judge(log) for log in LOGS]


def test_every_posted_log_is_read(verdicts: list[dict[str, object]]) -> None:
    assert {verdict["problem"] for verdict in verdicts} == {""}


def test_no_healthy_posted_log_raises_an_alarm(verdicts: list[dict[str, object]]) -> None:
    assert [v for v in verdicts if not v["expected"] and v["alarms"]] == []


def test_newest_results_and_their_page_are_those_of_the_code(
    verdicts: list[dict[str, object]],
) -> None:
    results = json.loads(RESULTS[-1].read_text("utf-8"))
    assert results["logs"] == verdicts
    assert PAGE.read_text("utf-8") == page(results)


def test_posted_logs_hold_numbers_and_addresses_and_no_prose() -> None:
    addresses = [log["address"] for log in LOGS]
    assert len(set(addresses)) == len(addresses)
    for log in LOGS:
        assert re.fullmatch(
            r"https://(github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+(#[\w-]+)?"
            r"|discuss\.pytorch\.org/t/[\w-]+/\d+/\d+)",
            log["address"],
        )
        if log.get("told", True):
            assert set(log["expected"]) <= set(read_codes())


def test_logs_of_one_thread_are_on_one_side_of_the_split() -> None:
    assert split_of("https://a/b#late") == split_of("https://a/b#start")
    assert {split_of(log["address"]) for log in LOGS} == {"tune", "report"}
