"""The chat room of the page, in a real browser: `pytest -m browser`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pellucid.api import ServedModels
from pellucid.explain import trace
from pellucid.runs import Run
from pellucid.web import Session, Talk, open_session
from support.api import models_of, serving
from support.browsing import Open, launched, opening, settled, until

pytestmark = pytest.mark.browser
WIDTHS = (375, 768, 1440)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as launched_browser:
        yield launched_browser


@pytest.fixture(scope="module")
def session(base: Run, tuned: Run) -> Session:
    new_session = open_session([tuned, base], sentence="the fox sat")
    new_session.talks = {
        "run0": Talk(model="tuned", is_chat=True),
        "run1": Talk(model="base", is_chat=False),
    }
    return new_session


@pytest.fixture(scope="module")
def room(session: Session, base: Run, tuned: Run) -> Iterator[str]:
    models: ServedModels = models_of(base, tuned)
    yield from (f"{address}/" for address in serving(session, models))
    models.close()


@pytest.fixture
def opened(browser: Any, room: str) -> Iterator[Open]:
    with opening(browser, room) as opens:
        yield opens


def send_message(page: Any, text: str) -> None:
    page.fill("#heat", "0")  # the likeliest answer, which is not empty
    page.fill("#message", text)
    page.press("#message", "Enter")
    page.wait_for_selector(".theirs >> nth=-1 >> .written")
    page.wait_for_selector("#chat button[type=submit]")
    settled(page)


def test_each_token_that_the_model_wrote_opens_down_to_its_receipts(
    opened: Open, tuned: Run
) -> None:
    page = opened("#chat=1")
    send_message(page, "say red 1")
    page.click(".theirs .written >> nth=2")
    page.wait_for_selector(".opened table >> nth=1")
    settled(page)
    ids = [int(i) for i in page.evaluate("location.hash").split("ids=")[1].split("&")[0].split(".")]
    token = int(page.evaluate("location.hash").split("&t=")[1].split("&")[0])
    # the third token of the answer comes after this one
    read = trace(tuned, ids)
    p = read["logits"][token].double().softmax(-1)
    bar_shares = page.eval_on_selector_all(
        ".opened table >> nth=0 >> td.number", "cells => cells.map(c => +c.dataset.share)"
    )
    assert bar_shares[:8] == pytest.approx(p.topk(8).values.tolist(), rel=1e-4)
    rank = int((p > p[ids[token + 1]]).sum()) + 1
    assert page.inner_text("#prediction .came").endswith(f"rank {rank}.")
    # what it looked at, by hand
    heads = [read[f"L{layer}.H{head}.weights"][token] for layer in (0, 1) for head in (0, 1)]
    mean = sum(weights.float() for weights in heads) / len(heads)
    mean_shares = page.eval_on_selector_all(
        ".opened table >> nth=1 >> td.number", "cells => cells.map(c => +c.dataset.share)"
    )
    assert mean_shares == pytest.approx(mean.topk(8).values.tolist(), rel=1e-4)
    page.click("[data-chapter=scores]")
    page.wait_for_selector(".receipt")
    assert page.locator(".receipt.differs").count() == 0


def test_the_room_is_used_with_the_keyboard_and_a_link_leads_back(opened: Open) -> None:
    page = opened("")
    page.focus("#to-chat")
    page.keyboard.press("Enter")
    page.wait_for_selector("#message")
    assert page.get_attribute("#to-chat", "aria-expanded") == "true"
    send_message(page, "say red 1")
    page.focus(".theirs .written >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_selector(".opened table >> nth=1")
    page.keyboard.press("ArrowRight")
    until(page, "document.activeElement.dataset.key === 'written 1 1'")
    assert page.get_attribute("[data-key='written 1 1']", "aria-expanded") == "true"
    settled(page)
    pieces = page.locator("#tokens .token").count()
    reopened = opened(page.evaluate("location.hash"))
    settled(reopened)
    assert reopened.locator("#tokens .token").count() == pieces
    reopened.click("[data-key='chat leave']")
    until(reopened, "document.querySelectorAll('#tokens .token').length === 12")


def test_a_long_conversation_drops_its_oldest_turns_and_says_so(opened: Open) -> None:
    page = opened("#chat=1")
    for text in ("say red and blue and green", "say white and black and red"):
        send_message(page, text)
    assert "did not see its first 2 messages" in page.inner_text(".theirs >> nth=-1")
    page.fill("#message", "x" * 300)
    page.press("#message", "Enter")
    page.wait_for_selector("#chat [role=alert] p")
    assert "context holds" in page.inner_text("#chat [role=alert]")
    assert page.input_value("#message") == "x" * 300
    page.click("[data-key='new chat']")
    until(page, "document.querySelectorAll('.talk').length === 0")


def test_a_base_model_is_said_to_be_one_and_continues_the_text(opened: Open) -> None:
    page = opened("#chat=1&run=run1")
    assert "This is a base model" in page.inner_text("#chat")
    send_message(page, "say red")
    page.click(".theirs .written >> nth=0")
    page.wait_for_selector(".opened table >> nth=1")
    settled(page)
    assert "after d" in page.inner_text("#prediction h2")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_runs_over_the_edge_and_all_can_be_read(
    opened: Open, width: int, scheme: str
) -> None:
    axe_of = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened("#chat=1", width=width, color_scheme=scheme)
    send_message(page, "say red 1")
    page.click(".theirs .written >> nth=1")
    page.wait_for_selector(".opened table >> nth=1")
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    violations = axe_of.Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in violations] == []
