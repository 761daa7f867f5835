"""The pictures of the README: drawn from measurements, and measured again."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from test_docs import ROOT, commands

FOLDER = ROOT / "docs" / "pictures"
README = (ROOT / "README.md").read_text("utf-8")
FRONT = runpy.run_path(str(FOLDER / "front.py"))
MEASURED: dict[str, Any] = json.loads((FOLDER / "front.json").read_text("utf-8"))


def words(output: str) -> list[str]:
    """What a command printed, without colours, bars and numbers, which differ by machine."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return [word for word in re.findall(r"[a-z]{3,}", plain) if word]


def test_the_readme_is_short_and_shows_every_picture_in_words_too() -> None:
    assert len(README.splitlines()) <= 150
    pictures = re.findall(r"!\[([^\]]+)\]\(docs/pictures/(\w+)\.svg\)", README)
    assert [name for _, name in pictures] == ["sentence", *FRONT["COMMANDS"]]
    assert all(len(text) > 40 for text, _ in pictures)


@pytest.mark.parametrize("name", ["sentence", *FRONT["COMMANDS"]])
def test_a_picture_is_drawn_from_what_was_measured(name: str) -> None:
    """To draw it anew: `python docs/pictures/front.py`."""
    assert FRONT["draw"](MEASURED)[name] == (FOLDER / f"{name}.svg").read_text("utf-8")


@pytest.mark.nightly
def test_what_the_pictures_show_is_measured_again(tmp_path: Path) -> None:
    """Another machine rounds otherwise, so only words and the measured quantities are compared."""
    measured = FRONT["measure"](tmp_path / "place")
    assert measured["sentence"].keys() == MEASURED["sentence"].keys()
    if measured["text"] != MEASURED["text"]:
        pytest.skip(f"another Python has other text to train on: {measured['text']}")
    assert measured["sentence"]["tokens"] == MEASURED["sentence"]["tokens"]
    for name, output in MEASURED["outputs"].items():
        before, after = set(words(output)), set(words(measured["outputs"][name]))
        assert len(before & after) >= 0.8 * len(before | after), name


def test_the_commands_of_the_pictures_are_those_of_the_page() -> None:
    assert set(commands(ROOT / "README.md")) >= {FRONT["COMMANDS"]["receipt"]}
