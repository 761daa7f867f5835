from __future__ import annotations

from pathlib import Path

from pellucid.data.columns import USUAL
from support.pages import printed_anew

PAGE = Path(__file__).parents[2] / "docs" / "examples.md"


def test_every_output_on_the_page_is_what_its_code_prints() -> None:
    text = PAGE.read_text("utf-8")
    assert printed_anew(text, PAGE.name) == text


def test_the_page_names_the_usual_columns() -> None:
    text = PAGE.read_text("utf-8")
    for names in USUAL.values():
        assert ", ".join(names) in text or names[0] in ("chosen", "rejected")
