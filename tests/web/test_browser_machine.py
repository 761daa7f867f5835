"""The picture of the machine in a browser: doors, zoom, keyboard, one multiplication."""

from __future__ import annotations

import pytest

from pellucid.explain import trace
from pellucid.web import Session
from support.browsing import Open, settled
from support.page import SENTENCE

pytestmark = pytest.mark.browser


def test_each_part_is_the_door_to_its_chapter_and_says_where_one_is(
    opened: Open, session: Session
) -> None:
    page = opened("#t=4")
    page.click("[data-key=machine]")
    page.wait_for_selector("[data-part=L1]")
    read = trace(session.shelf.load("run0"), SENTENCE)
    length = float(read["L2.residual"][4].norm())
    length_shown = float(page.get_attribute("[data-part=L1]", "data-value"))
    assert length_shown == pytest.approx(length, rel=1e-3)
    for part, chapter in (
        ("L1", "residual"),
        ("L1.attention", "heads"),
        ("L1.H1", "softmax"),
        ("L1.H1.scores", "scores"),
    ):
        page.click(f'[data-part="{part}"]')
        settled(page)
        assert page.get_attribute(f"[data-chapter={chapter}]", "aria-current") == "step"
    assert page.get_attribute('[data-head="L1.H1"]', "aria-pressed") == "true"
    # the last door is one multiplication: the products of a score add up to it
    q, k = read["L1.H1.q"][4].double(), read["L1.H1.k"][0].double()
    total = float(page.get_attribute("[data-total]", "data-total"))
    assert total == pytest.approx(float(q @ k), rel=1e-4)
    terms = page.eval_on_selector_all("[data-term]", "all => all.map(e => +e.dataset.term)")
    assert max(terms, key=abs) == pytest.approx(float(max(q * k, key=abs)), rel=1e-4)
    page.click("[data-key='zoom machine']")
    assert page.get_attribute("[data-part=L1]", "aria-current") == "location"


def test_the_machine_is_walked_through_with_keys(opened: Open) -> None:
    page = opened("#t=4&z=machine")
    page.locator("[data-part=L0]").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.part") == "L1"
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-part="L1.attention"]')
    page.locator('[data-part="L1.attention"]').focus()
    page.keyboard.press("Escape")
    page.wait_for_selector("[data-part=L0]")


@pytest.mark.parametrize("zoom", ["machine", "L1", "L1.attention", "L1.H0", "product"])
def test_it_fits_a_phone_and_passes_axe(opened: Open, zoom: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened(f"#chapter=scores&l=1&t=4&z={zoom}", width=375, color_scheme="dark")
    settled(page)
    page.wait_for_selector("[data-total]" if zoom == "product" else "[data-part]")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert [line["id"] for line in axe.run(page).response["violations"]] == []
