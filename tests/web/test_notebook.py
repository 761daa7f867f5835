"""A notebook shows a trace as the page, live if it can, and gradients as a table."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import pellucid
from pellucid.web import Session
from pellucid.web.notebook import (
    _CELL,  # pyright: ignore[reportPrivateUsage]
    _widget_class,  # pyright: ignore[reportPrivateUsage]
    answer_text,
    render_notebook,
    show_live,
    summarise_gradients,
)
from pellucid.web.onefile import inline_page
from pellucid.web.requests import parse_request


def test_a_notebook_shows_a_trace_as_a_page_and_a_bare_one_as_text(session: Session) -> None:
    run = session.shelf.load("run0")
    html = pellucid.trace(run, "ox")._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert html is not None
    assert html.startswith("<iframe srcdoc=")
    bare = pellucid.trace(run.model, ids=torch.tensor([1, 2]))
    # a page of it would not say that a head is gone
    ablated = pellucid.trace(run, "ox").with_heads({(0, 0): 0.0})
    for without_page in (bare, ablated):
        assert show_live(without_page) is None
        table = render_notebook(without_page)
        assert table is not None
        assert table.count("<tr>") == 1 + len(without_page.ids)


def test_a_live_page_asks_the_kernel(session: Session) -> None:
    live_trace = pellucid.trace(session.shelf.load("run0"), "ox")
    anywidget = pytest.importorskip("anywidget")
    bundle = show_live(live_trace)
    assert bundle is not None
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"].startswith("Trace('ox', 3 tokens")
    assert issubclass(_widget_class(), anywidget.AnyWidget)
    reading = {"run": "run0", "checkpoint": "", "sentence": "ox"}
    question = json.dumps({"kind": "prediction", "reading": reading, "place": {"token": 2}})
    expected_answer = session.answer(parse_request(json.loads(question)))
    assert answer_text(session, question) == expected_answer.decode()
    assert "error" in json.loads(answer_text(session, '{"kind": "none"}'))
    assert "error" in json.loads(answer_text(session, "{"))


def test_gradients_read_as_a_table(session: Session) -> None:
    gradients = pellucid.trace(session.shelf.load("run0"), "ox").backward()
    assert repr(gradients).startswith("Gradients of Trace('ox'")
    table = summarise_gradients(gradients)
    longest = max(gradients.norms, key=lambda name: gradients.norms[name])
    assert table.index(longest) < table.index("</td>")


def test_a_receipt_and_an_attribution_read_as_tables(session: Session) -> None:
    trace = pellucid.trace(session.shelf.load("run0"), "ox")
    receipt: Any = trace.receipt("L0.H0.scores", 1, 0)
    table = receipt._repr_html_()
    assert table.count("<tr>") == 1 + 3 + len(receipt.operands)
    assert "they agree" in table
    attribution: Any = trace.why()
    table = attribution._repr_html_()
    assert table.index(attribution.largest[0].name) < table.index(attribution.largest[-1].name)


@pytest.mark.browser
def test_a_cell_brings_questions_to_the_kernel_and_answers_back(
    session: Session, browser: Any
) -> None:
    page = browser.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.expose_function("kernel", lambda asked: answer_text(session, asked))
    page.goto("about:blank")
    page.evaluate(
        """async ([cell, html]) => {
            const listeners = [];
            const model = {
                get: () => html,
                on: (_, hear) => listeners.push(hear),
                send: async ({ id, asked }) => {
                    const answer = await kernel(asked);
                    for (const hear of listeners) hear({ id, answer });
                },
            };
            const address = URL.createObjectURL(new Blob([cell], { type: 'text/javascript' }));
            (await import(address)).default.render({ model, el: document.body });
        }""",
        [_CELL, inline_page('<meta id="bridge">')],
    )
    frame = page.frame_locator("iframe")
    frame.locator("#prediction [data-p]").first.wait_for(timeout=60_000)
    frame.locator("[data-chapter=scores]").click()
    frame.locator("#focus h1", has_text="Scores").wait_for()
    # what a copy does not hold: another sentence
    frame.locator("#sentence").fill("a dog")
    frame.locator(".token").nth(6).wait_for(state="detached")
    assert frame.locator(".token").count() == 6
    assert wrong == []
    page.close()
