"""All sentences of the page are in the catalogue."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from pellucid.catalogue import message
from pellucid.web.assets import files
from support.source import FILES
from support.texts import SENTENCE, sentences_in_python

#: What these two say is for the terminal that started them.
TERMINAL = ("web/serving.py", "web/onefile.py")
ROOM = sorted(name for name in FILES if name.startswith("web/") and name not in TERMINAL)
SCRIPTS = sorted(name for name in files() if name.endswith(".js"))


def sentences_in_script(script: str) -> list[str]:
    # an error of the page's own code is for its authors
    code = re.sub(r"throw new Error\([^;]*;|/\*.*?\*/|(?<![:\"])//[^\n]*", "", script, flags=re.S)
    texts = re.findall(r'"[^"\n]*"|`[^`]*`', code)
    return [text for text in texts if SENTENCE.search(re.sub(r"\$\{[^}]*\}", "", text))]


@pytest.mark.parametrize("name", ROOM)
def test_no_sentence_of_the_page_is_in_the_code_of_the_server(name: str) -> None:
    assert sentences_in_python(FILES[name]) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_sentence_of_the_page_is_in_another_script(name: str) -> None:
    assert sentences_in_script(files()[name].content.decode()) == []


@pytest.mark.parametrize("name", ["index.html", "learn/learn.html"])
def test_the_markup_has_no_text_but_the_name(name: str) -> None:
    markup = re.sub(r"<[^>]*>", " ", files()[name].content.decode())
    assert markup.split() == ["pellucid"]


def test_a_sentence_in_code_would_be_found(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('"""A sentence of documentation."""\nx = f"there is no run {x!r}"\n')
    assert sentences_in_python(file) == ["there is no run "]
    assert sentences_in_script('h("p", { text: "there is no run" }); // a comment of words')


def test_a_text_has_its_places_filled_in() -> None:
    assert (
        message("first-rows", title="x", most=400, n=12345)
        == "x: the first 400 of 12,345 are shown"
    )
    with pytest.raises(KeyError):
        message("no such key")


def test_a_script_is_sent_without_the_lines_that_are_comments() -> None:
    folder = resources.files("pellucid.web") / "static"
    for name in SCRIPTS:
        source, sent_text = (folder / name).read_text("utf-8"), files()[name].content.decode()
        code = [line for line in source.splitlines() if not re.match(r" *(//|/\*\*| \*)", line)]
        assert [line for line in sent_text.splitlines() if line.strip()] == [
            line for line in code if line.strip()
        ], name
