"""The sentence that is shown while a run learns: from its own held-out text, always the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import pellucid
from pellucid import config, presets
from support.tiny import TINY

#: Documents that have nothing in common, so that a beginning identifies one.
BOOK = [f"Chapter {n} tells of {word}s.\nThen more of it.\n" for n, word in enumerate(
    ("cat", "dog", "fish", "bird", "horse", "mouse", "goose", "snail", "whale", "bear")
)]  # fmt: skip


def written(folder: Path, texts: list[str]) -> Path:
    folder.mkdir(parents=True)
    for place, text in enumerate(texts):
        (folder / f"{place}.txt").write_text(text * 8, encoding="utf-8")
    return folder


def trained(tmp_path: Path, texts: list[str], name: str, *more: str) -> config.Run:
    book = tmp_path / f"book-{name}"
    paths = [str(written(book, texts))]
    settings = [*TINY, "training.sentence=", "text.held_out=0.2", *more]
    folder = tmp_path / name
    return pellucid.train(paths, out=folder, steps=1, settings=settings, show=False).config


def test_a_run_is_shown_by_a_beginning_of_its_held_out_text(tmp_path: Path) -> None:
    sentence = trained(tmp_path, BOOK, "one").training.sentence
    assert sentence.startswith("Chapter ")
    assert any(text.startswith(sentence) for text in BOOK)
    # nothing is drawn: the same text has the same beginning, and the run's config says which
    assert trained(tmp_path, BOOK, "two").training.sentence == sentence
    assert pellucid.load(tmp_path / "one").config.training.sentence == sentence


def test_a_sentence_that_a_config_names_is_kept(tmp_path: Path) -> None:
    assert trained(tmp_path, BOOK, "own", "training.sentence=It was").training.sentence == "It was"


@pytest.mark.parametrize(
    "text",
    ["漢字だけの文章です。空白はありません。" * 4, "x = 1\n" * 40, "\n\n  \n" + "ab " * 60],
    ids=["without blanks", "short lines", "blank lines first"],
)
def test_a_beginning_is_short_and_stands_in_the_text_whatever_it_is(
    tmp_path: Path, text: str
) -> None:
    # documents differ, or one of two equal ones would be left out
    sentence = trained(tmp_path, [f"{text}{n}" for n in range(8)], "any").training.sentence
    assert 0 < len(sentence) <= 40
    assert sentence in text
    assert "\ufffd" not in sentence


def test_a_title_of_one_or_two_words_is_passed_over(tmp_path: Path) -> None:
    titled = [f"Part {n}\n\nThis is what came next.\n" for n in range(10)]
    assert trained(tmp_path, titled, "titled").training.sentence == "This is what came"


def test_no_preset_brings_a_sentence_of_another_text() -> None:
    assert {run.training.sentence for run in presets.PRESETS.values()} == {""}
