"""The page of a comparison: whole, closed to the outside, and true to the runs."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pellucid.cli.output.comparison import comparison_lines
from pellucid.errors import PellucidError
from pellucid.lab import Comparison
from pellucid.lab.page import page, write_page
from pellucid.report.chart import N_COLOURS, Chart, svg
from pellucid.report.story import Series
from pellucid.report.style import CSS


class Words(HTMLParser):
    """The text of a page, and every attribute that could fetch something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_notebook_shows_the_verdicts_and_the_variants(compared: Any) -> None:
    html = compared._repr_html_()
    assert all(escape(pair.verdict) in html for pair in compared.pairs)
    assert all(f">{variant.parameters:,}<" in html for variant in compared.variants)


def test_the_page_has_every_verdict_run_and_differing_key(compared: Comparison) -> None:
    page_words = Words(page(compared))
    for pair in compared.pairs:
        assert pair.verdict in page_words.text
    for variant in compared.variants:
        for value, outcome in zip(variant.values, variant.outcomes, strict=True):
            assert value is not None
            assert f"{outcome.folder.name} " in page_words.text
            assert f"{value:.4f}" in page_words.text
    assert "optimiser.learning_rate 1e-05 0.5" in page_words.text
    assert all(link.startswith("#") for link in page_words.fetched)


def test_the_drawings_of_the_page_are_whole(compared: Comparison) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page(compared), re.DOTALL)
    assert len(drawings) == 3  # the differences, and two charts
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    assert sum(drawing.count("<polygon") for drawing in drawings) == 4


def test_a_band_goes_from_the_lowest_to_the_highest_run_and_colours_repeat() -> None:
    curves = tuple(
        Series(f"{i}", "", ((0, 2.0), (10, 1.0)), band=((0, 1.0, 3.0), (10, 0.5, 1.5)))
        for i in range(N_COLOURS + 1)
    )
    drawing = ElementTree.fromstring(svg(Chart("key", "t", "c", curves, last_step=10)))
    bands = [part for part in drawing if part.tag == "polygon"]
    assert [band.get("class") for band in bands][-2:] == [f"band mark-{N_COLOURS}", "band mark-1"]
    corners = [tuple(map(float, c.split(","))) for c in (bands[0].get("points") or "").split()]
    assert len(corners) == 4
    (left, low), (right, lower), (_, high), (_, higher) = corners
    assert left < right
    assert higher < high < low < lower  # the highest value is drawn at the top
    assert f".curve-{N_COLOURS} " in CSS
    assert f".curve-{N_COLOURS + 1} " not in CSS


def test_a_run_that_went_wrong_is_named_with_its_update(compared: Comparison) -> None:
    first = compared.variants[0]
    bad = replace(
        first.outcomes[0],
        state="not finite",
        stopped="loss of head at update 5",
        troubles={"g.n": 3},
    )
    variant = replace(first, outcomes=(bad, *first.outcomes[1:]), values=(None, *first.values[1:]))
    page_words = Words(page(replace(compared, variants=(variant, *compared.variants[1:]))))
    assert f"{bad.folder.name} 3 g.n became sick" in page_words.text
    assert "stopped: loss of head at update 5" in page_words.text
    assert "No run stopped" not in page_words.text


def test_the_page_is_replaced_unless_it_is_not_ours(compared: Comparison) -> None:
    file = write_page(compared)
    assert write_page(compared) == file
    file.write_text("mine")
    with pytest.raises(PellucidError, match="pellucid does not overwrite it"):
        write_page(compared)
    file.unlink()


def test_the_terminal_says_the_same(compared: Comparison) -> None:
    text = "\n".join(comparison_lines(compared, [Path("a.html")]))
    flat = " ".join(text.split())
    assert compared.pairs[0].verdict in flat
    assert "noise floor: one config varies by" in flat
    assert "what differs" in text
    assert max(map(len, text.splitlines()[3:])) <= 120
