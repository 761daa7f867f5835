"""The page in its languages, in a real browser: texts, numbers, the choice that is kept.

`pytest -m browser`; skipped without playwright or without a chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.catalogue import LANGUAGES, texts
from pellucid.web import Reading, Session, one_page
from support.browsing import until
from support.page import SENTENCE

pytestmark = pytest.mark.browser
READY = "document.querySelector('#focus .lead') && document.querySelector('#prediction tbody tr')"
#: Formats of the catalogue, and numbers for them.
FORMATS = (".4f", ".3f", ".1f", "+.3f", "+.4f", ".0%", ",.1f", ".4g", ".6g", ".9g", "g", "+.3g")
NUMBERS = (0.0, 1.0, -2.5, 0.12345678, 1234567.0, 3.0e-7, -4.2e9, 100000.0, 0.0001234, 12.5)


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    new_context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield new_context
    new_context.close()


def test_each_language_is_shown_whole_and_small_enough(context: Any, address: str) -> None:
    for language in LANGUAGES:
        page = context.new_page()
        sizes: list[int] = []
        page.on("requestfinished", lambda r, s=sizes: s.append(r.sizes()["responseBodySize"]))
        page.goto(f"{address}?lang={language}#chapter=scores&l=1&t=3")
        until(page, READY)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.lang") == language
        assert page.evaluate("document.documentElement.dir") == "ltr"
        body_text = page.inner_text("body")
        for key in ("contents.scores", "layers", "receipt", "probability"):
            assert str(texts(language)[key]).lower() in body_text.lower(), (language, key)
        # the whole first view, in whatever language
        assert sum(sizes) <= 100_000, (language, sum(sizes))
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440
        page.close()


def test_a_choice_changes_texts_and_numbers_at_once_and_is_kept(context: Any, address: str) -> None:
    page = context.new_page()
    page.goto(f"{address}#chapter=scores&l=1&t=3")
    until(page, READY)
    english = page.inner_text("#focus .lead")
    likeliest = page.inner_text("#prediction td.number")
    assert "." in likeliest
    page.select_option("#language", "es")
    until(page, "document.documentElement.lang === 'es'")
    until(page, "document.querySelector('#focus h1').textContent.includes('Puntuaciones')")
    assert page.inner_text("#focus .lead") != english
    assert page.inner_text("#prediction td.number").strip("%\xa0 ") == likeliest.strip(
        "%\xa0 "
    ).replace(".", ",")
    assert "0," in page.inner_text(".receipt .with-operands")
    assert page.eval_on_selector(".receipt", "e => e.classList.contains('agrees')")
    page.reload()
    until(page, READY)
    assert page.evaluate("document.documentElement.lang") == "es"


def test_the_browsers_language_is_the_first(browser: Any, address: str) -> None:
    context = browser.new_context(locale="ko-KR")
    page = context.new_page()
    page.goto(address)
    until(page, READY)
    assert page.evaluate("document.documentElement.lang") == "ko"
    context.close()


def test_numbers_are_formatted_as_python_does_it(context: Any, address: str) -> None:
    page = context.new_page()
    page.goto(f"{address}?lang=en")
    until(page, READY)
    pairs: list[Any] = [[number, number_format] for number in NUMBERS for number_format in FORMATS]
    pairs += [[number, ","] for number in (0, 7, 1234, 1234567)]
    formatted = page.evaluate(
        """async pairs => {
            const { formatted } = await import('./messages.js');
            return pairs.map(([number, format]) => formatted(number, format));
        }""",
        pairs,
    )
    expected = [format(number, number_format).replace("-", "−") for number, number_format in pairs]
    assert dict(zip(map(str, pairs), formatted, strict=True)) == dict(
        zip(map(str, pairs), expected, strict=True)
    )


def test_a_file_speaks_every_language(context: Any, session: Session, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(one_page(session, Reading("run0", "", SENTENCE)).html, encoding="utf-8")
    page = context.new_page()
    page.goto(f"{file.as_uri()}?lang=zh#chapter=softmax")
    until(page, READY)
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    assert texts("zh-Hans")["softmax.masked-cells-are-empty-their"] in page.inner_text("#focus")
    page.select_option("#language", "hi")
    until(page, "document.documentElement.lang === 'hi'")
    title = texts("hi")["contents.softmax"]
    until(page, f"document.querySelector('#focus h1').textContent.includes('{title}')")
