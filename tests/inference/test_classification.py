"""The class of a text: probabilities as worked out by hand, whatever else is in the batch."""

from __future__ import annotations

import pytest
import torch

from pellucid import config
from pellucid.errors import ConfigError, PellucidError, TextError
from pellucid.runs import Run, classify, load
from pellucid.tokenizers import Framing
from support.kinds import CLASSES, write_bert_tokenizer, write_run

TEXTS = ["the cat sat on the mat.", "a dog runs home", "the capital of france is paris now"]
SEVERAL = config.Classification(label_smoothing=0.0, multi_label=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    place = tmp_path_factory.mktemp("classify")
    tokenizer = write_bert_tokenizer(place / "tokenizer")
    kinds = ("encoder with classes", "decoder with classes")
    runs_by_kind = {kind: load(write_run(place / kind, kind, tokenizer)) for kind in kinds}
    several_labels = write_run(place / "several", "encoder with classes", tokenizer, SEVERAL)
    plain = write_run(place / "plain", "decoder", tokenizer)
    return runs_by_kind | {"several": load(several_labels), "plain": load(plain)}


def logits(run: Run, text: str) -> torch.Tensor:
    ids = Framing(run.tokenizer).ids_of(text)
    with torch.no_grad():
        return run.model(torch.tensor([ids]))[0].double()


@pytest.mark.parametrize("kind", ["encoder with classes", "decoder with classes"])
def test_probabilities_are_the_softmax_of_the_logits(kind: str, runs: dict[str, Run]) -> None:
    for text, answer in zip(TEXTS, classify(runs[kind], TEXTS, batch_size=2), strict=True):
        expected = torch.softmax(logits(runs[kind], text), dim=0)
        shares = {share.name: share.probability for share in answer.shares}
        assert answer.text == text
        assert list(shares.values()) == sorted(shares.values(), reverse=True)
        assert [shares[name] for name in CLASSES] == pytest.approx(expected.tolist(), abs=1e-6)
        assert answer.classes == (CLASSES[int(expected.argmax())],)
        assert not answer.truncated


def test_with_several_labels_each_class_has_its_own_probability(runs: dict[str, Run]) -> None:
    for text, answer in zip(TEXTS, classify(runs["several"], TEXTS), strict=True):
        expected = torch.sigmoid(logits(runs["several"], text))
        shares = {share.name: share.probability for share in answer.shares}
        assert [shares[name] for name in CLASSES] == pytest.approx(expected.tolist(), abs=1e-6)
        assert set(answer.classes) == {n for n, p in shares.items() if p > 0.5}


def test_one_text_alone_is_a_list_of_one(runs: dict[str, Run]) -> None:
    (single,) = classify(runs["encoder with classes"], TEXTS[0])
    batched = classify(runs["encoder with classes"], TEXTS)[0]
    assert single.classes == batched.classes
    assert single.shares[0].probability == pytest.approx(batched.shares[0].probability, abs=1e-6)


@pytest.mark.parametrize("kind", ["encoder with classes", "decoder with classes"])
def test_a_text_that_is_cut_says_so_and_keeps_its_end_token(
    kind: str, runs: dict[str, Run]
) -> None:
    run = runs[kind]
    long = "the cat sat on mat " * 9
    (cut_answer,) = classify(run, long)
    assert cut_answer.truncated
    first = " ".join(long.split()[: run.model.context_length - 2])
    (short_answer,) = classify(run, first)
    assert not short_answer.truncated
    assert short_answer.shares == cut_answer.shares


def test_what_cannot_be_classified_is_refused(runs: dict[str, Run]) -> None:
    with pytest.raises(TextError, match="text 2 is empty"):
        classify(runs["several"], ["the cat", " "])
    with pytest.raises(ConfigError, match="batch_size must be at least 1"):
        classify(runs["several"], TEXTS, batch_size=0)
    with pytest.raises(PellucidError, match="no head for classes"):
        classify(runs["plain"], TEXTS)
    assert classify(runs["several"], []) == []
