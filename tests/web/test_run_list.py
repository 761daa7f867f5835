"""The table of all runs on the page: what `pellucid runs` shows, and curves over each other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pellucid.cli.verbs.serving.serve import expand_folders
from pellucid.errors import ConfigError
from pellucid.lab.outcome import outcome_of
from pellucid.lab.run_table import list_runs, row_facts
from pellucid.web import Session, open_session
from pellucid.web.app import app
from support.browsing import opening, served, until
from support.page import SENTENCE
from web.conftest import HERE
from web.test_browser_access import violations


@pytest.fixture(scope="module")
def folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one that was killed early, and one that is damaged."""
    folder = tmp_path_factory.mktemp("all")
    for name in ("first", "deep/second", "killed", "damaged"):
        shutil.copytree(trained, folder / name)
    lines = (trained / "metrics.jsonl").read_text("utf-8").splitlines(keepends=True)
    (folder / "killed" / "metrics.jsonl").write_text("".join(lines[:2]), "utf-8")
    (folder / "damaged" / "config.toml").write_text("seed = 'x'\n")
    return folder


@pytest.fixture(scope="module")
def session(folder: Path) -> Session:
    paths, folders = expand_folders([str(folder)])
    return open_session(paths, sentence=SENTENCE, folders=folders)


def ask(session: Session, question: dict[str, Any]) -> dict[str, Any]:
    client = TestClient(app(session), base_url=HERE, headers={"origin": HERE})
    return client.post("/ask", json=question).json()


def test_a_folder_is_served_with_every_run_that_can_be_opened(folder: Path, tmp_path: Path) -> None:
    paths, folders = expand_folders([str(folder)])
    assert [Path(path).relative_to(folder).as_posix() for path in paths] == [
        "deep/second",
        "first",
        "killed",
    ]
    assert folders == [folder]
    run_folder = str(folder / "first")
    assert expand_folders([run_folder, "owner/name"]) == ([run_folder, "owner/name"], [])
    shutil.copytree(folder / "damaged", tmp_path / "damaged")
    with pytest.raises(ConfigError, match="has no run with a checkpoint: train one first"):
        expand_folders([str(tmp_path)])


def test_the_table_has_the_rows_of_pellucid_runs(session: Session, folder: Path) -> None:
    rows = {row["name"]: row for row in ask(session, {"kind": "table"})["rows"]}
    assert rows.keys() == {"first", "deep/second", "killed", "damaged"}
    for row in list_runs(folder):
        assert row_facts(row).items() <= rows[row.name].items()
    assert [rows[name]["key"] for name in ("first", "deep/second", "damaged")] == [
        "run1",
        "run0",
        None,
    ]


def test_runs_that_were_named_one_by_one_are_rows_too(folder: Path) -> None:
    session = open_session([folder / "first", folder / "deep" / "second"])
    rows = ask(session, {"kind": "table"})["rows"]
    assert [(row["name"], row["key"]) for row in rows] == [("first", "run0"), ("second", "run1")]


def test_curves_are_those_of_the_events(session: Session, folder: Path) -> None:
    answer = ask(session, {"kind": "curves", "names": ["first", "killed"]})
    curve = outcome_of(folder / "first").curves["bits_per_byte"]
    assert answer["measure"] == "bits_per_byte"
    assert answer["curves"][0] == ["first", [list(point) for point in curve]]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["../first"], "there is no run '../first'"),
        (["first"] * 7, "at most 4 runs"),
        ("first", "at most 4 runs"),
        ([1], "at most 4 runs"),
    ],
)
def test_curves_of_other_names_are_refused(session: Session, names: Any, reason: str) -> None:
    assert reason in ask(session, {"kind": "curves", "names": names})["error"]


@pytest.fixture(scope="module")
def page(browser: Any, session: Session) -> Iterator[Any]:
    """The page with the table open, on a phone."""
    with served(session) as address, opening(browser, address) as opens:
        page = opens("#list=1", width=375)
        page.wait_for_selector("#runs .curve-0")
        yield page


def names(page: Any) -> list[str]:
    return page.locator(".runs tbody th").all_inner_texts()


@pytest.mark.browser
def test_rows_are_sorted_and_filtered_with_the_keyboard(page: Any) -> None:
    assert names(page) == ["damaged", "deep/second", "first", "killed"]
    page.focus('[data-key="sort name"]')
    page.keyboard.press("Enter")
    assert names(page) == ["killed", "first", "deep/second", "damaged"]
    assert page.get_attribute("th:has([data-key='sort name'])", "aria-sort") == "descending"
    assert page.evaluate("document.activeElement.dataset.key") == "sort name"
    for text, left in (("state=finished", 2), ("SECOND", 1), ("step<12 killed", 1), ("", 4)):
        page.fill("#sought", text)
        until(page, f"document.querySelectorAll('.runs tbody tr').length === {left}")


@pytest.mark.browser
def test_curves_lie_over_each_other_and_can_be_taken_away(page: Any) -> None:
    before = page.locator("#runs polyline").count()
    assert before >= 2
    page.click('[data-key="draw first"]')
    until(page, f"document.querySelectorAll('#runs polyline').length === {before - 1}")
    page.click('[data-key="draw first"]')
    until(page, f"document.querySelectorAll('#runs polyline').length === {before}")


@pytest.mark.browser
def test_the_table_is_readable_for_everybody_and_fits_a_phone(page: Any) -> None:
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 375


@pytest.mark.browser
def test_a_row_opens_its_run(page: Any) -> None:
    page.click('[data-key="open first"]')
    until(page, "document.querySelector('#runs').hidden")
    assert "run=run1" in page.evaluate("location.hash")
