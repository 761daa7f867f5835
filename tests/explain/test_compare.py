"""Compare: differences are torch's, in both directions, and what cannot be compared is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.cli import main
from pellucid.explain import Trace
from pellucid.explain.chapter_types import Matrix, Place, Table
from pellucid.explain.chapters import build_chapter
from pellucid.explain.trace_comparison import Comparison
from support.tiny import TINY, write_text

SENTENCE = "the fox sat"


def at(trained: Path, step: int, text: str = SENTENCE) -> Trace:
    return pellucid.trace(pellucid.load(trained / "checkpoints" / f"step-{step}"), text)


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with another tokenizer."""
    folder = tmp_path_factory.mktemp("worded") / "run"
    settings = [*TINY, 'text.tokenizer={kind="BytePairs", vocab_size=280}', "text.held_out=0.2"]
    text = write_text(folder.parent / "text")
    pellucid.train([text], out=folder, steps=4, settings=settings, show=False)
    return folder


def test_two_checkpoints_are_compared_as_torch_would(trained: Path) -> None:
    one, other = at(trained, 8), at(trained, 12)
    chapter = build_chapter(one, "compare", Place(token=5, layer=1, head=1), other)
    p, q = (each["logits"].double().log_softmax(-1) for each in (one, other))
    forth = (p.exp() * (p - q)).sum(-1)
    back = (q.exp() * (q - p)).sum(-1)
    words, places, apart = chapter.pictures
    assert isinstance(words, Table)
    assert isinstance(places, Table)
    assert isinstance(apart, Matrix)
    for here, there, _, kl, lk, *_ in places.rows:
        assert here == there
        assert kl == pytest.approx(float(forth[int(here)]), abs=1e-6)
        assert lk == pytest.approx(float(back[int(here)]), abs=1e-6)
    moved = (p[5].exp() - q[5].exp()).abs().max()
    assert abs(float(words.rows[0][3])) == pytest.approx(float(moved), rel=1e-5)
    weights = one["L1.H1.weights"] - other["L1.H1.weights"]
    assert apart.values[5][2] == pytest.approx(float(weights[5, 2]), abs=1e-7)
    assert apart.values[2][5] is None
    (receipt,) = chapter.receipts
    assert receipt.agrees
    assert receipt.model == pytest.approx(float(forth[5]), abs=1e-6)


def test_two_sentences_are_paired_where_they_have_the_same_tokens(
    trained: Path,
) -> None:
    one, other = at(trained, 12), at(trained, 12, "the big fox sat")
    both = Comparison(one, other)
    assert both.pairs[0] == (0, 0)
    assert both.pairs[-1] == (len(one.ids) - 1, len(other.ids) - 1)
    assert all(one.ids[a] == other.ids[b] for a, b in both.pairs)
    chapter = build_chapter(one, "compare", Place(), other)
    assert any("12 and 16 tokens" in note for note in chapter.notes)
    q = other["logits"][-1].double().log_softmax(-1)
    p = one["logits"][-1].double().log_softmax(-1)
    assert chapter.receipts[0].model == pytest.approx(float((p.exp() * (p - q)).sum()), abs=1e-7)


def test_other_words_are_aligned_by_characters(trained: Path, worded: Path) -> None:
    one, other = at(trained, 12), pellucid.trace(pellucid.load(worded), SENTENCE)
    assert len(one.ids) > len(other.ids)
    both = Comparison(one, other)
    assert both.why_not is not None
    assert "vocabularies differ" in both.why_not
    assert "".join(segment.text for segment in both.shared_texts) == SENTENCE
    for name, trace in (("first", one), ("second", other)):
        total = sum(getattr(segment, name) for segment in both.shared_texts)
        assert total == pytest.approx(float(trace["surprisal"].double().sum()), rel=1e-6)
    chapter = build_chapter(one, "compare", Place(), other)
    assert chapter.receipts == ()
    assert any("vocabularies differ" in note for note in chapter.notes)


def test_alone_it_says_what_to_do(trained: Path) -> None:
    assert "--against" in build_chapter(at(trained, 12), "compare", Place()).sentence


def test_in_the_terminal(trained: Path, worded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(trained)
    assert main(["explain", run, SENTENCE, "--against", str(worded)]) == 0
    out = capsys.readouterr().out
    assert "Compare" in out.splitlines()[0]
    assert max(map(len, out.splitlines())) <= 80
    assert main(["explain", run, SENTENCE, "--against-text", "the cat sat", "--token", "5"]) == 0
    assert "the ends" in capsys.readouterr().out
    words = ["explain", run, SENTENCE, "--chapter", "heads", "--against", run]
    assert main(words) == 2
    assert "leave one of them out" in " ".join(capsys.readouterr().err.split())


def test_scaled_heads_are_compared_with_the_model_as_it_was(trained: Path) -> None:
    one = at(trained, 12)
    chapter = build_chapter(one.with_heads({(1, 0): 0.0}), "compare", Place(layer=1), one)
    assert "heads scaled" in chapter.sentence
    assert torch.isfinite(torch.tensor(chapter.receipts[0].model))
