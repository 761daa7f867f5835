"""Compare: differences are torch's, in both directions; the rest is refused in words."""

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
    first, second = at(trained, 8), at(trained, 12)
    chapter = build_chapter(first, "compare", Place(token=5, layer=1, head=1), second)
    p, q = (one_trace["logits"].double().log_softmax(-1) for one_trace in (first, second))
    forth = (p.exp() * (p - q)).sum(-1)
    backward_kl = (q.exp() * (q - p)).sum(-1)
    words, places, weight_differences = chapter.pictures
    assert isinstance(words, Table)
    assert isinstance(places, Table)
    assert isinstance(weight_differences, Matrix)
    for first_place, second_place, _, kl, lk, *_ in places.rows:
        assert first_place == second_place
        assert kl == pytest.approx(float(forth[int(first_place)]), abs=1e-6)
        assert lk == pytest.approx(float(backward_kl[int(first_place)]), abs=1e-6)
    largest_change = (p[5].exp() - q[5].exp()).abs().max()
    assert abs(float(words.rows[0][3])) == pytest.approx(float(largest_change), rel=1e-5)
    weights = first["L1.H1.weights"] - second["L1.H1.weights"]
    assert weight_differences.values[5][2] == pytest.approx(float(weights[5, 2]), abs=1e-7)
    assert weight_differences.values[2][5] is None
    (receipt,) = chapter.receipts
    assert receipt.agrees
    assert receipt.model == pytest.approx(float(forth[5]), abs=1e-6)


def test_two_sentences_are_paired_where_they_have_the_same_tokens(
    trained: Path,
) -> None:
    first, second = at(trained, 12), at(trained, 12, "the big fox sat")
    comparison = Comparison(first, second)
    assert comparison.pairs[0] == (0, 0)
    assert comparison.pairs[-1] == (len(first.ids) - 1, len(second.ids) - 1)
    assert all(first.ids[a] == second.ids[b] for a, b in comparison.pairs)
    chapter = build_chapter(first, "compare", Place(), second)
    assert any("12 and 16 tokens" in note for note in chapter.notes)
    q = second["logits"][-1].double().log_softmax(-1)
    p = first["logits"][-1].double().log_softmax(-1)
    assert chapter.receipts[0].model == pytest.approx(float((p.exp() * (p - q)).sum()), abs=1e-7)


def test_other_words_are_aligned_by_characters(trained: Path, worded: Path) -> None:
    first, second = at(trained, 12), pellucid.trace(pellucid.load(worded), SENTENCE)
    assert len(first.ids) > len(second.ids)
    comparison = Comparison(first, second)
    assert comparison.why_not is not None
    assert "vocabularies differ" in comparison.why_not
    assert "".join(segment.text for segment in comparison.shared_texts) == SENTENCE
    for name, trace in (("first", first), ("second", second)):
        total = sum(getattr(segment, name) for segment in comparison.shared_texts)
        assert total == pytest.approx(float(trace["surprisal"].double().sum()), rel=1e-6)
    chapter = build_chapter(first, "compare", Place(), second)
    assert chapter.receipts == ()
    assert any("vocabularies differ" in note for note in chapter.notes)


def test_alone_it_says_what_to_do(trained: Path) -> None:
    assert "--against" in build_chapter(at(trained, 12), "compare", Place()).sentence


def test_in_the_terminal(trained: Path, worded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(trained)
    assert main(["explain", run, SENTENCE, "--against", str(worded)]) == 0
    printed = capsys.readouterr().out
    assert "Compare" in printed.splitlines()[0]
    assert max(map(len, printed.splitlines())) <= 80
    assert main(["explain", run, SENTENCE, "--against-text", "the cat sat", "--token", "5"]) == 0
    assert "the ends" in capsys.readouterr().out
    words = ["explain", run, SENTENCE, "--chapter", "heads", "--against", run]
    assert main(words) == 2
    assert "leave one of them out" in " ".join(capsys.readouterr().err.split())


def test_scaled_heads_are_compared_with_the_model_as_it_was(trained: Path) -> None:
    step_12 = at(trained, 12)
    chapter = build_chapter(step_12.with_heads({(1, 0): 0.0}), "compare", Place(layer=1), step_12)
    assert "heads scaled" in chapter.sentence
    assert torch.isfinite(torch.tensor(chapter.receipts[0].model))
