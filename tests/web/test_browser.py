"""The page in a real browser, every way out of this machine shut: what it shows is what torch has.

`pytest -m browser`; skipped without playwright or without a chromium.
"""

from __future__ import annotations

import functools
import math
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.explain import trace
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.web import Reading, Session, one_page
from pellucid.web.notebook import framed
from support.browsing import Open, bracket_texts, settled, until
from support.nightly import sampled
from support.page import SENTENCE, session_of

pytestmark = pytest.mark.browser
WIDTHS = (375, 768, 1440)


def test_the_probabilities_on_the_page_are_torchs(opened: Open, session: Session) -> None:
    page = opened("#t=3")
    read = trace(session.shelf.load("run0"), SENTENCE)
    p = read["logits"][3].double().softmax(-1)
    bars = page.eval_on_selector_all(
        "#prediction .likely tbody tr",
        """rows => rows.map(r =>
            [+r.querySelector('th').dataset.id, +r.querySelector('td.number').dataset.p])""",
    )
    assert len(bars) == 10
    assert [token for token, _ in bars] == p.topk(10).indices.tolist()
    for token, share in bars:
        assert share == pytest.approx(float(p[token]), rel=1e-5)


def test_temperature_top_k_and_top_p_are_redrawn_as_torch_would(
    opened: Open, session: Session
) -> None:
    page = opened("#t=3&T=0.7&k=9&p=0.5")
    p = (trace(session.shelf.load("run0"), SENTENCE)["logits"][3].double() / 0.7).softmax(-1)
    ranked = p.sort(descending=True)
    before = ranked.values.cumsum(0) - ranked.values
    # of the nine likeliest, those that reach half of what the nine have together
    half = 0.5 * float(ranked.values[:9].sum())
    n_kept = int(((before < half) & (torch.arange(len(p)) < 9)).sum())
    mass = float(ranked.values[:n_kept].sum())
    shares = page.eval_on_selector_all(
        "#prediction [data-p]", "cells => cells.map(c => +c.dataset.p)"
    )
    expected_shares = [float(v) / mass for v in ranked.values[:n_kept]] + [0.0] * (10 - n_kept)
    assert shares == pytest.approx(expected_shares[:10], rel=1e-5)
    cut = page.inner_text("#prediction .cut")
    assert f"{n_kept} tokens are left" in cut
    cut_percent = float(re.findall(r"([\d.]+) %", cut)[0])
    assert cut_percent == pytest.approx((1 - mass) * 100, abs=0.06)
    # all of the vocabulary again, the tail included
    page.fill("#slider-k", "0")
    page.fill("#slider-p", "1")
    assert "Nothing is cut" in page.inner_text("#prediction .cut")
    share = float(page.get_attribute("#prediction [data-p]", "data-p"))
    assert share == pytest.approx(float(p.max()), rel=1e-5)


@pytest.mark.parametrize("chapter", sampled(entry.id for entry in CHAPTERS))
def test_every_receipt_of_a_chapter_agrees_with_python_and_with_the_model(
    opened: Open, session: Session, chapter: str
) -> None:
    page = opened(f"#chapter={chapter}&l=1&h=1&t=4&o=2")
    run = session.shelf.load("run0")
    place = Place(token=4, other=2, layer=1, head=1)
    built_chapter = build_chapter(trace(run, SENTENCE), chapter, place)
    cards = page.query_selector_all("#focus .receipt")
    assert len(cards) == len(built_chapter.receipts)
    for card, receipt in zip(cards, built_chapter.receipts, strict=True):
        exact = {
            name: float(card.query_selector(f"[data-number={name}]").get_attribute("data-exact"))
            for name in ("found", "model")
        }
        assert exact["found"] == pytest.approx(receipt.recomputed, rel=1e-12, abs=1e-12)
        assert exact["model"] == receipt.model
        assert receipt.agrees
        assert "agrees" in card.get_attribute("class")
        assert card.query_selector(".verdict").inner_text().startswith("✓")


def test_a_perturbed_weight_changes_the_page_and_its_receipts_still_tick(
    opened: Open, trained: Path, browser: Any, session: Session
) -> None:
    page = opened("#chapter=scores&l=1&h=1&t=4&o=2")
    before = page.get_attribute("[data-number=model]", "data-exact")
    page.wait_for_load_state("networkidle")  # a backward pass needs the weights as they were
    model = session.shelf.load("run0").model
    assert model.decoder is not None
    weight = model.decoder.blocks[1].attention.query.weight
    old_weight = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.add_(0.5)
        session._read.clear()  # pyright: ignore[reportPrivateUsage]
        reopened = opened("#chapter=scores&l=1&h=1&t=4&o=2")
        after = reopened.get_attribute("[data-number=model]", "data-exact")
        assert float(after) != pytest.approx(float(before), rel=1e-3)
        assert reopened.query_selector_all(".receipt.differs") == []
        read = trace(session.shelf.load("run0"), SENTENCE)
        assert float(after) == pytest.approx(float(read["L1.H1.scores"][4, 2]), rel=1e-6)
        reopened.wait_for_load_state("networkidle")
    finally:
        with torch.no_grad():
            weight.copy_(old_weight)
        session._read.clear()  # pyright: ignore[reportPrivateUsage]


def test_a_receipt_that_does_not_come_out_says_that_it_differs(opened: Open) -> None:
    page = opened()
    words_of_receipt = page.evaluate("""async () => {
        const { receipt } = await import('./receipt.js');
        const expression = { op: 'div', of: [{ value: 1 }, { value: 3 }] };
        const said = { title: 't', formula: 'f', expression, model: 0.334, tolerance: 1e-5,
            address: 'x[0]', source: 's', dtype: 'bfloat16',
            spelled: '1 / 3', digits: 4, places: -6 };
        const card = receipt(said);
        return [card.className, card.querySelector('.verdict').textContent];
    }""")
    assert words_of_receipt == ["receipt differs", "≠differs: bfloat16"]


def test_the_pages_arithmetic_is_pythons(opened: Open) -> None:
    page = opened()
    xs = [-7.0, -3.0, -2.6, -2.4, -1.0, -1e-9, 0.0, 0.3, 1.7, 2.499, 2.501, 5.9, 6.1]
    values = page.evaluate(
        "async xs => { const { erf } = await import('./expression.js'); return xs.map(erf); }", xs
    )
    assert values == pytest.approx([math.erf(x) for x in xs], rel=1e-13, abs=1e-15)
    tree = {"op": "sum", "of": [{"values": [1e16, 1.0, -1e16, 3.0]}]}
    total = page.evaluate("async t => (await import('./expression.js')).value(t)", tree)
    assert total == 4.0


def test_a_sentence_that_is_typed_is_read_once_the_typing_pauses(opened: Open) -> None:
    page = opened()
    bodies: list[str] = []
    page.on(
        "request", lambda r: bodies.append(r.post_data or "") if r.url.endswith("/ask") else None
    )
    page.click("#sentence")
    page.keyboard.press("Control+a")
    page.keyboard.type("a dog", delay=20)
    until(page, "document.querySelectorAll('.token').length === 6")
    settled(page)
    sentences = {re.findall(r'"sentence":"([^"]*)"', body)[0] for body in bodies}
    assert sentences == {"a dog"}  # none of the halves
    assert "s=a+dog" in page.url


def test_a_link_says_all_that_is_chosen(opened: Open) -> None:
    page = opened("#chapter=scores&l=1&h=1&t=4&o=2&T=0.5&x=L1.H0%3D0")
    page.reload()
    page.wait_for_selector("#focus h1")
    settled(page)
    assert page.get_attribute("[data-chapter=scores]", "aria-current") == "step"
    assert page.get_attribute('[data-head="L1.H1"]', "aria-pressed") == "true"
    assert page.get_attribute('[data-token="4"]', "aria-pressed") == "true"
    assert page.input_value("#slider-temperature") == "0.5"
    assert "gone" in page.get_attribute('[data-head="L1.H0"]', "class")


def test_the_way_back_is_on_the_rail_and_a_weight_can_be_chosen(
    opened: Open, session: Session
) -> None:
    page = opened("#t=3&l=1")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("b")
    page.wait_for_selector("[data-chapter=backward][aria-current=step]")
    page.wait_for_selector("[data-gradient]")
    read = trace(session.shelf.load("run0"), SENTENCE)
    gradient_lengths = page.eval_on_selector_all(
        "[data-gradient]", "b => b.map(e => +e.dataset.gradient)"
    )
    lengths = [float(read[f"L{n}.residual.grad"].norm()) for n in (1, 2)]
    assert gradient_lengths == pytest.approx(lengths, rel=1e-5)
    page.click("[data-chapter=update]")
    page.wait_for_selector("#weight")
    page.select_option("#weight", "feed_forward.up.weight")
    settled(page)
    page.fill("#row", "5")
    page.keyboard.press("Tab")
    settled(page)
    weight_name = "decoder.blocks.1.feed_forward.up.weight"
    article = f'.receipt[data-address="{weight_name}.next[5, 0]"]'
    page.wait_for_selector(article)
    model = page.get_attribute(f"{article} [data-number=model]", "data-exact")
    assert float(model) == pytest.approx(float(read[f"{weight_name}.next"][5, 0]), rel=1e-5)
    assert page.locator(".receipt.differs").count() == 0
    assert "w=feed_forward.up.weight&r=5" in page.evaluate("location.hash")


def test_a_large_model_goes_back_when_it_is_asked_to_and_can_be_stopped(
    opened: Open, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pellucid.explain import backward_segments

    monkeypatch.setattr(backward_segments, "LARGE", 10)
    page = opened("#s=the+ox&chapter=gradients", wait=False)
    page.wait_for_selector(".gate button")
    settled(page)
    assert page.locator("[data-gradient]").count() == 0
    run = session.shelf.load("run0")
    has_started, let = threading.Event(), threading.Event()

    def slow(_: Any, arguments: Any) -> None:
        has_started.set()
        assert let.wait(30)

    handle = run.model.decoder.blocks[1].register_forward_pre_hook(slow)
    page.click(".gate button")
    page.wait_for_selector(".gate progress")
    assert has_started.wait(30)
    until(page, "document.querySelector('.gate').textContent.includes('1 of 4')")
    page.click(".gate button")
    page.wait_for_timeout(500)  # until the server has seen that nobody waits
    let.set()
    page.wait_for_selector(".gate progress", state="detached")
    handle.remove()
    page.click(".gate button")
    page.wait_for_selector("#focus .lead")
    page.wait_for_selector("[data-gradient]")


def test_taking_a_head_away_shows_what_torch_says_changed(opened: Open, session: Session) -> None:
    page = opened("#l=1&h=0&t=5")
    page.click("[data-key=ablate]")
    page.wait_for_selector("[data-kl]")
    read = trace(session.shelf.load("run0"), SENTENCE)
    before = read.logits_at(5).double().log_softmax(-1)
    after = read.with_heads({(1, 0): 0.0}).logits_at(5).double().log_softmax(-1)
    kl = float((before.exp() * (before - after)).sum()) / math.log(2)
    assert float(page.get_attribute("[data-kl]", "data-kl")) == pytest.approx(kl, rel=1e-3)
    page.click("[data-key='put back']")
    page.wait_for_selector("[data-kl]", state="detached")


def test_every_key_does_what_the_list_says(opened: Open) -> None:
    page = opened("#t=3")
    page.evaluate("document.activeElement.blur()")

    def pressed(selector: str) -> bool:
        settled(page)
        return page.get_attribute(selector, "aria-pressed") == "true"

    page.keyboard.press("ArrowRight")
    assert pressed('[data-token="4"]')
    page.keyboard.press("ArrowLeft")
    assert pressed('[data-token="3"]')
    page.keyboard.press("ArrowDown")
    assert pressed('[data-head="L1.H0"]')
    page.keyboard.press("]")
    assert pressed('[data-head="L1.H1"]')
    page.keyboard.press("[")
    page.keyboard.press("ArrowUp")
    assert pressed('[data-head="L0.H0"]')
    page.keyboard.press("n")
    settled(page)
    assert page.get_attribute("[data-chapter=tokens]", "aria-current") == "step"
    page.keyboard.press("p")
    settled(page)
    assert page.get_attribute("[data-chapter=why]", "aria-current") == "step"
    page.keyboard.press("x")
    page.wait_for_selector("[data-kl]")
    page.keyboard.press("x")
    page.wait_for_selector("[data-kl]", state="detached")
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "sentence"
    page.keyboard.type("n")  # a letter of the sentence, and no key
    assert page.get_attribute("[data-chapter=why]", "aria-current") == "step"


def test_single_keys_can_be_switched_off(opened: Open) -> None:
    page = opened()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    page.click("#keys-on")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    settled(page)
    assert page.get_attribute("[data-chapter=why]", "aria-current") == "step"


def test_every_control_is_reached_with_the_keyboard(opened: Open) -> None:
    page = opened("#chapter=scores")
    settled(page)
    page.evaluate("document.activeElement.blur()")
    reached_names: set[str] = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        name = page.evaluate("""() => {
            const e = document.activeElement;
            if (e === document.body) return null;
            const style = getComputedStyle(e);
            const ring = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
            return [e.dataset.key || e.id || e.tagName, ring];
        }""")
        if name is None:
            break
        assert name[1], f"{name[0]} shows no focus"
        reached_names.add(name[0])
    # one stop for a row of tokens and for the grid of heads: arrows move within them
    control_names = page.evaluate("""() => [...document.querySelectorAll(
        'button, select, input, textarea, summary, [tabindex="0"]')]
        .filter(e => e.tabIndex >= 0 && e.checkVisibility() && !e.closest('dialog'))
        .map(e => e.dataset.key || e.id || e.tagName)""")
    assert set(control_names) <= reached_names
    assert sum(name.startswith("token ") for name in reached_names) == 1


def test_the_cells_of_a_matrix_are_walked_through_and_said(opened: Open, session: Session) -> None:
    page = opened("#chapter=softmax&l=1&h=1&t=4")
    grid = page.locator("#focus [role=grid]").first
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    weights = trace(session.shelf.load("run0"), SENTENCE)["L1.H1.weights"]
    cell = page.inner_text("#focus [role=gridcell]")
    assert cell.endswith(f"{float(weights[3, 1]):.4f}")
    assert page.get_attribute("#focus [role=row][aria-rowindex]", "aria-rowindex") == "4"
    assert page.inner_text("#live") == cell
    page.keyboard.press("Enter")
    settled(page)
    assert "t=3" in page.url
    assert "o=1" in page.url
    # the row as a real table
    page.locator("#focus details.as-table summary").first.click()
    cell_texts = page.eval_on_selector_all(
        "#focus figure.matrix details[open] tbody td", "cells => cells.map(c => c.textContent)"
    )
    numbers = [float(text.replace("−", "-")) for text in cell_texts if text != "–"]
    assert numbers == pytest.approx(weights[3, : len(numbers)].tolist(), abs=1e-5)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_runs_over_the_edge_and_all_can_be_read(
    opened: Open, width: int, scheme: str
) -> None:
    axe_of = pytest.importorskip("axe_playwright_python.sync_playwright")
    view = "#chapter=scores&l=1&h=1&t=4&vs=run0@step-8"
    page = opened(view, width=width, color_scheme=scheme)
    settled(page)
    wrong: list[tuple[str, str, str]] = []
    # the longest names and tables; tests of how it reads look at the views with most text
    for chapter in (
        "tokens", "residual", "feed-forward", "lens", "heads", "update",
        "scores", "gradients", "over-time", "compare",
    ):  # fmt: skip
        page.click(f"[data-chapter={chapter}]")
        until(
            page, f"document.querySelector('[data-chapter={chapter}]').getAttribute('aria-current')"
        )
        settled(page)
        n_pixels_over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert n_pixels_over <= 0, chapter
        if chapter in ("scores", "gradients", "over-time", "compare"):
            violations = axe_of.Axe().run(page).response["violations"]
            wrong += [(chapter, v["id"], v["nodes"][0]["html"][:200]) for v in violations]
    assert wrong == []


def test_motion_is_left_out_where_that_is_asked_for(opened: Open) -> None:
    page = opened(reduced_motion="reduce")
    moving = page.evaluate("""() => [...document.querySelectorAll('*')].filter(e => {
        const style = getComputedStyle(e);
        return parseFloat(style.transitionDuration) > 0 || style.animationName !== 'none';
    }).length""")
    assert moving == 0


def test_the_theme_can_be_chosen(opened: Open) -> None:
    page = opened(color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.click("#theme")
    page.click("#theme")
    assert page.evaluate(paper) != light


def test_no_word_stands_outside_the_catalogue(opened: Open, address: str, browser: Any) -> None:
    """With every message in brackets, no text is without them that the page itself says."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})

    # in English the texts of answers are not looked up
    context.route("**/texts.es.json", bracket_texts)
    page = context.new_page()
    page.goto(f"{address}?lang=es#chapter=scores&l=1&x=L1.H0%3D0&t=3&vs=run0%40")
    page.wait_for_selector("#prediction [data-kl]")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    foreign_words = page.evaluate(r"""() => {
        const found = [];
        const letters = /\p{L}{2}/u;
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
            const home = walk.currentNode.parentElement;
            const text = walk.currentNode.textContent;
            if (!letters.test(text) || home.closest('[translate=no], script, style')) continue;
            if (!/^⟦.*⟧$/s.test(text.trim())) found.push(text);
        }
        for (const e of document.querySelectorAll('[aria-label], [title], [placeholder]')) {
            for (const name of ['aria-label', 'title', 'placeholder']) {
                const text = e.getAttribute(name);
                const ours = text && letters.test(text) && !e.closest('[translate=no]');
                if (ours && !text.includes('⟦')) found.push(`${name}: ${text}`);
            }
        }
        return found;
    }""")
    context.close()
    assert foreign_words == []


def test_bad_input_is_a_sentence_on_the_page(opened: Open) -> None:
    page = opened()
    page.fill("#sentence", "   ")
    until(page, "document.querySelector('#problem').textContent.includes('few words')")
    page.fill("#sentence", "x" * 99)
    # the browser logs a refused question as an error; it is answered in words all the same
    until(page, "document.querySelector('#problem').textContent.includes('shorten it')")
    page.fill("#sentence", "the dog")
    until(page, "document.querySelector('#problem').textContent === ''")


def test_what_is_typed_is_text_and_never_markup(opened: Open) -> None:
    page = opened("#s=" + "%3Cb%3Ex%3C/b%3E")
    settled(page)
    assert page.query_selector("#tokens b") is None
    assert page.query_selector("#focus b") is None


def test_first_paint_is_small(browser: Any, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: list[int] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(address)
    page.wait_for_selector("#focus h1")
    settled(page)
    assert 10_000 < sum(sizes) <= 300_000
    context.close()


@functools.cache
def written(folder: Path) -> str:
    page = one_page(session_of(folder), Reading("run0", "", "ox"), place=Place(token=1))
    return page.html


@pytest.mark.parametrize("way", ["file", "frame"])
def test_the_file_makes_no_request_and_shows_the_same(
    browser: Any, trained: Path, tmp_path: Path, way: str
) -> None:
    html = written(trained)
    file = tmp_path / "out.html"
    file.write_text(html if way == "file" else framed(html), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    urls: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(file.as_uri())
    view = page if way == "file" else page.frame_locator("iframe")
    view.locator("#prediction [data-p]").first.wait_for(timeout=60_000)
    view.locator("[data-chapter=scores]").click()
    view.locator('[data-head="L1.H1"]').click()
    view.locator("#focus h1", has_text="Scores").wait_for()
    model = float(view.locator("[data-number=model]").first.get_attribute("data-exact"))
    read = trace(session_of(trained).shelf.load("run0"), "ox")
    assert model == pytest.approx(float(read["L1.H1.scores"][1, 0]), rel=1e-6)
    assert view.locator(".receipt.differs").count() == 0
    time.sleep(0.3)
    assert [url for url in urls if url not in (file.as_uri(), "about:srcdoc")] == []
    assert wrong == []
    context.close()


def test_a_film_is_played_from_memory(opened: Open, session: Session) -> None:
    page = opened("#chapter=over-time&t=4&l=1&h=1&m=8")
    urls: list[str] = []
    page.on("request", lambda r: urls.append(r.url) if r.url.endswith("/ask") else None)
    for step in (8, 12):
        run = session.shelf.load("run0", f"step-{step}")
        read = trace(run, SENTENCE)
        assert f"update {step}" in page.inner_text("#shot-at")
        p = float(read["probabilities"][4, int(read.ids[5])])
        probability_text = page.get_attribute("figure.film .curved b", "data-value")
        assert float(probability_text) == pytest.approx(p, rel=1e-5)
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Space")
        until(page, "document.getElementById('shot-at').textContent.includes('update 12')")
    assert urls == []
    page = opened("#chapter=over-time", reduced_motion="reduce")
    assert page.inner_text("#play") == "Next snapshot"


def test_the_key_c_compares(opened: Open, session: Session) -> None:
    page = opened("#t=4")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("c")
    settled(page)
    assert page.get_attribute("[data-chapter=compare]", "aria-current") == "step"
    assert page.evaluate("document.activeElement.id") == "versus"
    page.select_option("#versus", "run0@step-8")
    page.wait_for_selector("#focus .receipt")
    first, second = (
        trace(session.shelf.load("run0", checkpoint), SENTENCE)
        .logits_at(4)
        .double()
        .log_softmax(-1)
        for checkpoint in ("", "step-8")
    )
    kl = float((first.exp() * (first - second)).sum())
    kl_shown = float(page.get_attribute("[data-number=model]", "data-exact"))
    assert kl_shown == pytest.approx(kl, rel=1e-6)
    assert page.query_selector_all(".receipt.differs") == []
