"""The course on the page in a real browser: lessons, answers, the textbook, and the doors to them.

`pytest -m browser`; skipped without playwright or without a chromium.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.course.exercises.types import evaluate
from pellucid.course.lessons.lesson import find_lesson
from pellucid.course.lessons.open_lesson import open_lesson
from pellucid.course.lessons.progress import read_progress
from pellucid.web import Session
from pellucid.web.course import Course
from support.browsing import Open, bracket_texts, served, settled, until
from support.page import SENTENCE, session_of

pytestmark = pytest.mark.browser
VIEWS = (
    "learn", "learn#lesson=attention", "learn#lesson=softmax", "concept", "concept#concept=softmax",
    "concept#equation=attention", "concept#experiment=root-of-d", "concept#find=KL+distance",
)  # fmt: skip


@pytest.fixture(scope="module")
def learning(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Session:
    session = session_of(trained)
    session.course = Course(tmp_path_factory.mktemp("keep"))
    session.course.runs_code = True
    return session


@pytest.fixture(scope="module")
def address(learning: Session) -> Iterator[str]:
    with served(learning) as served_address:
        yield served_address


def shown(opened: Open, at: str, **has: Any) -> Any:
    page = opened(at, wait=False, **has)
    page.wait_for_selector("#focus h1")
    settled(page)
    return page


def test_a_wrong_answer_gets_its_operand_and_a_right_one_is_kept(
    opened: Open, learning: Session
) -> None:
    page = shown(opened, "learn#lesson=softmax")
    run = learning.shelf.load("run0")
    lesson = open_lesson(find_lesson("softmax"), run, "run", sentence=SENTENCE)
    (exercise,) = (e for e in lesson.exercises if e.id == "softmax")
    right = evaluate("softmax", exercise.operands)
    card = page.locator("[data-exercise=softmax]")
    card.locator("textarea").fill("[9, 9, 9, 9]")
    card.locator("button").click()
    card.locator(".judged.differs").wait_for()
    assert "the equation: p_i" in card.locator(".judged").inner_text()
    assert card.locator("[data-operand=x].here").count() == 1
    card.locator("textarea").fill(json.dumps(right))
    card.locator("button").press("Enter")
    card.locator(".judged.agrees").wait_for()
    assert page.inner_text("#count") == "1 of 6 exercises solved"
    assert learning.course is not None
    assert read_progress(learning.course.folder).solved == {"softmax": ("softmax",)}
    page.reload()
    until(page, "document.querySelector('[data-exercise=softmax] .mark')?.textContent")


def test_code_is_graded_and_a_choice_is_explained(opened: Open) -> None:
    page = shown(opened, "learn#lesson=softmax")
    card = page.locator("[data-exercise=logsumexp]")
    card.locator("textarea").fill("def logsumexp(x):\n    return np.log(np.exp(x).sum(-1))")
    card.locator("button").click()
    card.locator(".judged.agrees").wait_for()
    assert "on 4 inputs" in card.locator(".judged").inner_text()
    choice = page.locator("[data-exercise=quiz-3]")
    choice.locator("input").first.check()
    choice.locator("button").click()
    choice.locator(".judged b").wait_for()


def test_another_sentence_gives_other_exercises_and_one_too_long_can_be_mended(
    opened: Open,
) -> None:
    page = shown(opened, "learn#lesson=softmax")
    before = page.inner_text(".exercises")
    page.fill("#sentence", "a dog ran")
    page.keyboard.press("Tab")
    until(page, "location.hash.includes('a+dog+ran')")
    settled(page)
    assert page.inner_text(".exercises") != before
    page.fill("#sentence", "x" * 99)
    page.keyboard.press("Tab")
    until(page, "document.querySelector('#problem').textContent.includes('shorten it')")
    page.fill("#sentence", "a dog")
    page.keyboard.press("Tab")
    page.wait_for_selector(".exercises")
    assert page.inner_text("#problem") == ""


def test_doors_lead_from_a_chapter_to_its_lesson_its_concept_and_back(opened: Open) -> None:
    page = opened("#chapter=scores&l=1&s=the+ox")
    page.click(".doors >> text=Tokens look at each other")
    page.wait_for_selector(".exercises")
    assert page.input_value("#sentence") == "the ox"
    page.click(".links [data-kind=concept] >> nth=0")
    until(page, "document.querySelector('h1')?.textContent === 'Self-attention'")
    page.click(".links [data-kind=chapter] >> text=Scores")
    page.wait_for_selector("[data-chapter=scores][aria-current=step]")
    assert page.input_value("#sentence") == "the ox"
    page.click("#to-course")
    page.wait_for_selector(".lessons a")


def test_a_question_finds_its_page(opened: Open) -> None:
    page = shown(opened, "concept")
    page.fill("#find", "why divide by sqrt d")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('h1')?.textContent === 'The factor 1/sqrt(d_k)'")
    assert page.locator("a[data-kind=experiment]").count() > 0
    page.fill("#find", "photosynthesis")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#problem').textContent.includes('photosynthesis')")


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1440, "dark")])
def test_every_view_can_be_read_and_operated(opened: Open, width: int, scheme: str) -> None:
    axe_of = pytest.importorskip("axe_playwright_python.sync_playwright")
    wrong: list[Any] = []
    page = shown(opened, VIEWS[0], width=width, color_scheme=scheme)
    base = page.url.partition("learn")[0]
    for view in VIEWS:
        page.goto(base + view)
        page.wait_for_selector("#focus h1")
        settled(page)
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
        small = page.evaluate("""() => [...document.querySelectorAll(
            'button, select, input, textarea, a:not(.skip)')].filter(e => e.checkVisibility()
            && e.getBoundingClientRect().height < 24).map(e => e.outerHTML)""")
        assert small == [], view
        violations = axe_of.Axe().run(page).response["violations"]
        wrong += [(view, v["id"], v["nodes"][0]["html"][:200]) for v in violations]
    assert wrong == []


def test_every_control_of_a_lesson_is_reached_with_the_keyboard(opened: Open) -> None:
    page = shown(opened, "learn#lesson=softmax")
    stops = page.evaluate("""() => [...document.querySelectorAll(
        'a, button, select, input:not([type=radio]), textarea')]
        .filter(e => e.checkVisibility() && e.tabIndex >= 0).length""")
    reached_html: set[str] = set()
    for _ in range(stops + 12):
        page.keyboard.press("Tab")
        html, ring = page.evaluate("""() => [document.activeElement.outerHTML,
            getComputedStyle(document.activeElement).outlineStyle !== 'none']""")
        if not html.startswith("<body"):
            assert ring, html
            reached_html.add(html)
    assert len([html for html in reached_html if 'type="radio"' not in html]) >= stops


def test_the_frame_speaks_the_language_and_what_is_english_says_so(
    address: str, browser: Any
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})

    context.route("**/texts.es.json", bracket_texts)
    page = context.new_page()
    for view in VIEWS:
        path, _, place = view.partition("#")
        page.goto(f"{address}{path}?lang=es#{place}")
        page.wait_for_selector("#focus h1")
        settled(page)
        foreign_words = page.evaluate(r"""() => {
            const found = [];
            const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (walk.nextNode()) {
                const home = walk.currentNode.parentElement;
                const text = walk.currentNode.textContent.trim();
                if (!/\p{L}{2}/u.test(text) || home.closest('[translate=no], script')) continue;
                if (!/^[✓≠ ]*⟦.*⟧$/s.test(text)) found.push(text);
            }
            return found;
        }""")
        assert foreign_words == [], view
        prose = page.evaluate("[...document.querySelectorAll('p.lead')].every(e => e.lang)")
        assert prose, view
    context.close()


def test_the_first_view_of_the_page_loads_nothing_of_the_course(opened: Open) -> None:
    urls: list[str] = []
    page = opened(wait=False)
    page.on("request", lambda request: urls.append(request.url))
    page.reload()
    page.wait_for_selector("#prediction [data-p]")
    settled(page)
    assert len(urls) > 20
    assert [url for url in urls if "learn" in url] == []
