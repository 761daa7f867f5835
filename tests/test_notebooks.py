"""The notebooks are what their sources say, and what they show holds on any machine.

That their cells run is a step of CI: `python -m docs.notebooks --check`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.notebooks.percent import read_cells, sources, to_page, to_percent

SOURCES = sources()
#: A path that begins at the root or in a home folder; a time in seconds.
OF_A_MACHINE = re.compile(r"(?:^|[\s'\"(])(?:/\w+/\w|~/|[A-Z]:\\)|\b\d+(?:\.\d+)? ?m?s\b", re.M)


def outputs(notebook: Path) -> list[str]:
    """What the cells of a notebook show, as text."""
    return [
        "".join(lines)
        for cell in read_cells(notebook)
        for output in cell.get("outputs", ())
        for lines in (output.get("text", ""), *output.get("data", {}).values())
    ]


def test_there_is_a_notebook_for_each_tutorial() -> None:
    assert len(SOURCES) == 8
    folder = SOURCES[0].parent
    assert sorted(folder.glob("*.ipynb")) == [source.with_suffix(".ipynb") for source in SOURCES]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_agrees_with_its_source(source: Path) -> None:
    """To build it anew: `python -m docs.notebooks NAME`."""
    text = source.read_text("utf-8").replace("\n\n\n# %%", "\n\n# %%")
    assert to_percent(read_cells(source.with_suffix(".ipynb"))) == text


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_shows_outputs_that_name_no_path_and_no_time(source: Path) -> None:
    texts = outputs(source.with_suffix(".ipynb"))
    assert any(texts)
    assert [line for text in texts for line in OF_A_MACHINE.findall(text)] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_ends_with_where_to_go_on_and_its_links_lead_there(source: Path) -> None:
    last = "".join(read_cells(source.with_suffix(".ipynb"))[-1]["source"])
    links = re.findall(r"\]\(([^)#]+)", last.split("## Where to go on\n")[1])
    assert len(links) >= 3
    every = re.findall(r"\]\(([^)#\s]+)", to_page(source.with_suffix(".ipynb")).split("<div>")[0])
    missing = [link for link in [*links, *every] if not (source.parent / link).is_file()]
    assert missing == []


@pytest.mark.parametrize("text", ["in /tmp/x/y", "took 0.3 s", "'/home/me/run'", "13s", "C:\\x"])
def test_a_path_or_a_time_of_a_machine_is_seen(text: str) -> None:
    assert OF_A_MACHINE.search(text)


@pytest.mark.parametrize("text", ["runs/first", "bits/byte", "trains 3 sums", "1,578 tokens"])
def test_other_text_is_not(text: str) -> None:
    assert not OF_A_MACHINE.search(text)
