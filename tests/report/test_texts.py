"""All texts of the report's pages are in one file, and each of them is used."""

from __future__ import annotations

import re

import pytest

from pellucid.report import messages
from support.source import FILES
from support.texts import sentences_in_python

ROOM = sorted(name for name in FILES if name.startswith("report/"))
OTHERS = [name for name in ROOM if name not in ("report/messages.py", "report/style.py")]


@pytest.mark.parametrize("name", OTHERS)
def test_no_sentence_of_a_page_is_in_another_file(name: str) -> None:
    # messages of exceptions are for the terminal
    assert sentences_in_python(FILES[name], raised=False) == []


def test_every_text_is_used() -> None:
    code = "\n".join(FILES[name].read_text(encoding="utf-8") for name in OTHERS)
    used = set(re.findall(r"""["']([a-z-]+)["']""", code))
    assert messages._MESSAGES.keys() <= used


def test_a_text_has_its_places_filled_in() -> None:
    assert messages.message("readings", n=1200, step=3) == "1,200 readings, up to step 3."
