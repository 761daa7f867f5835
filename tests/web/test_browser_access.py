"""The page for all readers: contrast in both schemes, formulas as MathML, phones, print."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.explain.chapters import CHAPTERS
from support.browsing import Open, settled
from support.nightly import sampled

pytestmark = pytest.mark.browser
#: What the system asks for, and how often the switch is pressed: light, dark, and each against it.
SCHEMES = [("light", 0), ("dark", 0), ("light", 2), ("dark", 1)]
AA = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]}}
AAA = {"runOnly": {"type": "rule", "values": ["color-contrast-enhanced", "target-size"]}}


def violations(page: Any) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    lines = [
        line for rules in (AA, AAA) for line in axe.run(page, options=rules).response["violations"]
    ]
    return [f"{line['id']}: {line['nodes'][0]['html'][:120]}" for line in lines]


@pytest.mark.parametrize(("system", "presses"), sampled(SCHEMES, every=2))
def test_every_chapter_passes_aa_and_its_text_aaa(opened: Open, system: str, presses: int) -> None:
    page = opened("#l=1&h=1&t=4&vs=run0@step-8", color_scheme=system, reduced_motion="reduce")
    for _ in range(presses):
        page.click("#theme")
    wrong: dict[str, list[str]] = {}
    for entry in CHAPTERS:
        page.click(f"[data-chapter={entry.id}]")
        settled(page)
        wrong[entry.id] = violations(page)
    # while a choice is open, and after it
    page.click("#versus")
    wrong["a choice is open"] = violations(page)
    page.select_option("#versus", index=0)
    settled(page)
    wrong["after the choice"] = violations(page)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    wrong["the keys"] = violations(page)
    assert {name: lines for name, lines in wrong.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("-log p", "<mo>−</mo><mrow><mi>log</mi> <mi>p</mi></mrow>"),
        ("a / √d", "<mfrac><mi>a</mi><msqrt><mi>d</mi></msqrt></mfrac>"),
        (
            "(x - m) / 2h",
            "<mfrac><mrow><mi>x</mi><mo>−</mo><mi>m</mi></mrow>"
            "<mrow><mn>2</mn><mi>h</mi></mrow></mfrac>",
        ),
        ("|g|²", "<msup><mrow><mo>|</mo><mi>g</mi><mo>|</mo></mrow><mn>2</mn></msup>"),
        ("β₁ᵗ", "<msup><msub><mi>β</mi><mn>1</mn></msub><mi>t</mi></msup>"),
        ("π_c × w", "<msub><mi>π</mi><mi>c</mi></msub><mo>×</mo><mi>w</mi>"),
    ],
)
def test_a_formula_is_mathml(opened: Open, text: str, markup: str) -> None:
    page = opened()
    markups = page.evaluate(
        """async text => {
            const made = (await import('./mathml.js')).formula(text);
            const bare = e => e.nodeType === 3 ? e.data : e.localName === 'mspace' ? ' ' :
                `<${e.localName}>${[...e.childNodes].map(bare).join('')}</${e.localName}>`;
            return [made.getAttribute('alttext'), [...made.childNodes].map(bare).join('')];
        }""",
        text,
    )
    assert markups == [text, markup]


def test_every_formula_on_the_page_is_math_with_all_of_its_names(opened: Open) -> None:
    page = opened("#l=1&h=1&t=4")
    for chapter in ("softmax", "norm", "update", "rules"):
        page.click(f"[data-chapter={chapter}]")
        settled(page)
        lost = page.eval_on_selector_all(
            "#focus .formula math",
            r"""all => all.filter(m => {
                const letters = text => text.replace(/[^\p{L}\d]/gu, '').normalize('NFKD');
                return letters(m.getAttribute('alttext')) !== letters(m.textContent);
            }).map(m => m.getAttribute('alttext') + ' is not ' + m.textContent)""",
        )
        assert lost == [], chapter
        assert page.locator("#focus .formula:not(:has(math))").count() == 0


def test_controls_are_large_enough_for_a_finger(opened: Open) -> None:
    page = opened("#chapter=softmax&l=1", width=375, has_touch=True, is_mobile=True)
    small = page.eval_on_selector_all(
        "button, select, summary, input:not([type=range])",
        """all => all.filter(e => e.checkVisibility() && !e.closest('dialog')).map(e => {
            const { width, height } = e.getBoundingClientRect();
            return [e.id || e.dataset.key || e.textContent, width, height];
        }).filter(([, width, height]) => width < 24 || height < 24)""",
    )
    assert small == []


def test_on_paper_there_is_no_control(opened: Open) -> None:
    page = opened("#chapter=softmax&l=1", color_scheme="dark")
    page.emulate_media(media="print")
    n_controls = page.eval_on_selector_all(
        "button, select, input, textarea, summary",
        "all => all.filter(e => e.checkVisibility() && !e.classList.contains('token')).length",
    )
    assert n_controls == 0
    assert page.locator("#focus .receipt").first.is_visible()
