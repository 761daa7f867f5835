"""The worked examples: every page prints what it shows, every picture is what its numbers draw."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import FOLDER, printed_anew

PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_number_on_the_page_is_what_its_code_prints(page: Path) -> None:
    text = page.read_text("utf-8")
    assert printed_anew(text, page.name) == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_computes_and_is_in_the_index(page: Path) -> None:
    assert "```output\n" in page.read_text("utf-8")
    assert f"]({page.name})" in (FOLDER / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_output_stands_without_code_that_prints_it(page: Path) -> None:
    text = page.read_text("utf-8")
    shown = len(re.findall(r"^```output$", text, re.M))
    after_code = re.findall(r"^```python\n(?:(?!```).*\n)*```\n\n```output$", text, re.M)
    assert shown == len(after_code)


def test_a_page_with_a_wrong_number_is_noticed() -> None:
    page = "# Sum\n\n```python\nprint(1 + 1)\n```\n\n```output\n3\n```\n\nThe end.\n"
    assert printed_anew(page, "sum.md") == page.replace("3", "2")


def test_a_page_that_shows_nothing_of_what_is_printed_is_noticed() -> None:
    page = "```python\nx = 2\n```\n\n```python\nprint(x)\n```\n"
    assert printed_anew(page, "x.md") == page + "\n```output\n2\n```\n"
