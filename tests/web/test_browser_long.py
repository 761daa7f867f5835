"""The page of a text of a thousand tokens: all of it in little, a part of it in detail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.model import assemble
from pellucid.web import open_session
from support.browsing import Open, served, settled, until

pytestmark = pytest.mark.browser
_LENGTH = 1024


@pytest.fixture(scope="module")
def address(trained: Path) -> Iterator[str]:
    run = pellucid.load(trained)
    settings: Any = replace(run.config.model, context_length=_LENGTH)
    run = replace(run, model=assemble(settings, seed=0).eval())
    with served(open_session([run], sentence="a" * (_LENGTH - 1))) as served_address:
        yield served_address


def shown(page: Any) -> list[int]:
    return page.eval_on_selector_all("#tokens .token", "ts => ts.map(t => +t.dataset.token)")


@pytest.mark.parametrize("width", [375, 1440])
def test_a_long_text_fits_the_page(opened: Open, width: int) -> None:
    page = opened("#chapter=loss", width=width)
    settled(page)
    assert shown(page) == list(range(960, 1024))
    assert len(page.query_selector_all("figure.tokens .pieces li")) == 64
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.eval_on_selector("#tokens .strip", "s => s.getBoundingClientRect().width") > 300
    assert page.eval_on_selector("figure.tokens .strip", "s => s.clientWidth") > 300


def test_the_part_is_moved_by_mouse_and_by_keys(opened: Open) -> None:
    page = opened("#chapter=tokens")
    box = page.eval_on_selector(
        "#tokens .strip",
        "s => (({x, y, width, height}) => [x, y, width, height])(s.getBoundingClientRect())",
    )
    page.mouse.click(box[0] + box[2] / 2, box[1] + box[3] / 2)
    until(page, "!location.hash.includes('t=1023')")
    settled(page)
    token = int(page.get_attribute("#tokens [aria-pressed=true]", "data-token"))
    assert 490 < token < 534
    assert shown(page) == list(range(token - 32, token + 32))
    # the slider keeps the focus while the part moves
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert page.get_attribute("#tokens [aria-pressed=true]", "data-token") == str(token + 2)
    page.keyboard.press("Home")
    settled(page)
    assert shown(page) == list(range(64))


def test_a_map_moves_on_at_its_edge_and_the_whole_leads_to_a_part(opened: Open) -> None:
    page = opened("#chapter=softmax&t=500&o=500")
    settled(page)
    assert "queries 468 to 515 of 1024" in page.inner_text("#focus")
    part = page.query_selector_all("#focus .grid")[1]
    part.focus()
    for _ in range(15):
        page.keyboard.press("ArrowDown")
    assert "queries 468 to 515 of 1024" in page.inner_text("#focus")
    page.keyboard.press("ArrowDown")
    until(page, "document.querySelector('#focus').innerText.includes('queries 492 to 539')")
    assert "t=516" in page.url
    grid = page.query_selector_all("#focus .grid")[0]
    grid.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    settled(page)
    assert "t=496" in page.url


def test_the_chapter_is_marked_until_it_is_of_the_chosen_token(opened: Open) -> None:
    page = opened("#chapter=softmax&t=500")
    settled(page)

    def leave_open(route: Any) -> None:
        """Never answers."""

    page.route("**/ask", leave_open)
    page.keyboard.press("ArrowLeft")
    until(page, "document.querySelector('#focus').getAttribute('aria-busy') === 'true'")
    # the heading is of the same token as the pictures below it
    assert "(500)" in page.inner_text("#focus .eyebrow")
    page.unroute_all(behavior="ignoreErrors")


def test_the_panel_of_a_head_is_whole_on_a_laptop(opened: Open) -> None:
    page = opened("#t=500")
    settled(page)
    page.evaluate("document.querySelector('#prediction').scrollIntoView()")
    panel, column = (
        page.eval_on_selector(selector, "e => e.getBoundingClientRect().bottom")
        for selector in ("#prediction .scale", "#prediction")
    )
    assert panel <= column
