"""The page of other kinds of model, in a browser: pairs, encoders, Hugging Face directories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.explain import trace
from pellucid.tokenizers import settings_for, train_bytes
from pellucid.web import Session, open_session
from support.browsing import Open, opening, served, settled
from support.kinds import write_bert_tokenizer, write_run

pytestmark = pytest.mark.browser


@contextmanager
def page_of(browser: Any, session: Session) -> Iterator[Open]:
    with served(session) as address, opening(browser, address) as opens:
        yield opens


def every_chapter_is_whole(page: Any) -> None:
    """Every chapter opens without a refusal that breaks the page, and each receipt ticks."""
    for chapter in page.eval_on_selector_all(
        "[data-chapter]", "all => all.map(e => e.dataset.chapter)"
    ):
        page.click(f"[data-chapter={chapter}]")
        page.wait_for_selector(f"[data-chapter={chapter}][aria-current=step]")
        settled(page)
        assert page.inner_text("#focus h1"), chapter
        assert page.locator(".receipt.differs").count() == 0, chapter
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, chapter
        assert "undefined" not in page.inner_text("body"), chapter


def shares_are(page: Any, logits: torch.Tensor) -> None:
    p = logits.double().softmax(-1)
    bars = page.eval_on_selector_all("#prediction [data-p]", "all => all.map(c => +c.dataset.p)")
    assert bars[:10] == pytest.approx(p.topk(min(10, len(p))).values.tolist(), rel=1e-4)


def test_a_pair_has_three_grids_and_a_way_back_through_both_stacks(
    browser: Any, tmp_path: Path
) -> None:
    words = write_bert_tokenizer(tmp_path / "tokenizer")
    folder = write_run(tmp_path / "run", "encoder-decoder", words)
    session = open_session([folder], sentence="the cat sat")
    read = trace(session.shelf.load("run0"), "the cat sat")
    with page_of(browser, session) as opens:
        page = opens("#t=1&chapter=softmax")
        settled(page)
        assert page.locator(".layers[role=grid]").count() == 3
        page.click('[data-head="L1.H1.cross"]')
        settled(page)
        assert page.get_attribute('[data-head="L1.H1.cross"]', "aria-pressed") == "true"
        assert page.get_attribute('[data-head="L1.H1"]', "aria-pressed") == "false"
        assert page.locator('.receipt[data-address^="L1.H1.cross"]').count() > 0
        page.keyboard.press("b")
        page.wait_for_selector("[data-gradient]")
        lengths_shown = page.eval_on_selector_all(
            "[data-gradient]", "all => all.map(e => +e.dataset.gradient)"
        )
        gradients = read.backward()
        lengths = {
            side: [float(grad.norm()) for grad in gradients.stream(side)][1:] for side in read.sides
        }
        # next to the grids of the two stacks, and not a second time if the decoder looks across
        assert lengths_shown == pytest.approx([*lengths["encoder"], *lengths["decoder"]], rel=1e-4)
        every_chapter_is_whole(page)


def test_an_encoder_is_asked_what_stands_behind_a_mask(browser: Any, tmp_path: Path) -> None:
    words = write_bert_tokenizer(tmp_path / "tokenizer")
    folder = write_run(tmp_path / "run", "encoder", words)
    sentence = "the cat [MASK] on the mat"
    session = open_session([folder], sentence=sentence)
    read = trace(session.shelf.load("run0"), sentence)
    place = read.sentence.pieces.index("[MASK]")
    with page_of(browser, session) as opens:
        page = opens(f"#t={place}&chapter=softmax&stack=encoder&l=1&h=1", width=375)
        settled(page)
        assert page.get_attribute('[data-head="E1.H1"]', "aria-pressed") == "true"
        shares_are(page, read["logits"][place])
        every_chapter_is_whole(page)


def test_a_hugging_face_directory_is_shown_as_a_run_is(browser: Any, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    gpt2_config = hf.GPT2Config(vocab_size=300, n_embd=32, n_layer=3, n_head=4, n_positions=64)
    hf.GPT2LMHeadModel(gpt2_config).save_pretrained(tmp_path / "model")
    words = train_bytes()
    words.save(tmp_path / "model" / "tokenizer.json")
    tokenizer_config = settings_for(words.roles(), context_length=64)
    (tmp_path / "model" / "tokenizer_config.json").write_text(tokenizer_config)
    session = open_session([tmp_path / "model"], sentence="the fox")
    read = trace(session.shelf.load("run0"), "the fox")
    with page_of(browser, session) as opens:
        page = opens("#t=3&l=2&h=3")
        assert page.locator("[data-head]").count() == 12
        shares_are(page, read["logits"][3])
        every_chapter_is_whole(page)
