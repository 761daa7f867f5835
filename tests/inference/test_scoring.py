"""The score of a text is what the model gives its tokens, one after another."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import pellucid
from pellucid.cli import main
from pellucid.errors import ConfigError, TextError
from pellucid.explain import read_sentence
from pellucid.generation import Sampling, window_start
from pellucid.inference import scoring
from pellucid.runs import Run, Score, ScoredToken, next_token, score
from support.tiny import TEXT

#: More than four contexts of 16.
LONG = TEXT[:67]


@pytest.fixture(scope="module")
def run(trained: Path) -> Run:
    found = pellucid.load(trained)
    found.model.double()
    return found


def one_by_one(run: Run, text: str) -> list[float]:
    """Log P of each token, each by a forward pass of its own."""
    ids = [run.tokenizer.begin_id, *run.tokenizer.encode(text)]
    found = []
    for place in range(1, len(ids)):
        start = window_start(place, run.model.context_length)
        logits = run.model(torch.tensor([ids[start:place]]))[0, -1]
        found.append(logits.log_softmax(-1)[ids[place]].item())
    return found


@pytest.mark.parametrize("text", ["t", "the fox", LONG, "日本 é"])
def test_each_token_is_given_what_the_model_gives_it_after_those_before(
    run: Run, text: str
) -> None:
    found = score(run, text)
    expected = one_by_one(run, text)
    np.testing.assert_allclose([token.log_p for token in found.tokens], expected, rtol=1e-9)
    assert found.log_p == pytest.approx(sum(expected))
    assert [token.token_id for token in found.tokens] == run.tokenizer.encode(text)
    assert [token.position for token in found.tokens] == list(range(1, len(expected) + 1))


def test_a_distribution_cut_into_parts_is_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = score(run, LONG)
    monkeypatch.setattr(scoring, "_PLACES_AT_ONCE", 3)
    parts = score(run, LONG)
    assert parts.log_p == pytest.approx(whole.log_p, rel=1e-12)
    assert [t.window_start for t in parts.tokens] == [t.window_start for t in whole.tokens]


def test_a_long_text_is_read_in_windows_that_keep_half_of_the_context(run: Run) -> None:
    views = [token.position - token.window_start for token in score(run, LONG).tokens]
    assert views[:16] == list(range(1, 17))
    assert min(views[16:]) == 9
    assert max(views) == 16
    assert score(run, LONG[:16]).windows == 1
    assert score(run, LONG[:17]).windows == 2


def test_probabilities_of_all_texts_of_two_tokens_add_up_to_one(run: Run) -> None:
    ids = range(run.model.head_weight.shape[0])
    begin = run.tokenizer.begin_id
    batch = torch.tensor([[begin, first] for first in ids])
    first, then = run.model(batch).log_softmax(-1).unbind(1)
    pairs = torch.logsumexp(first.diagonal()[:, None] + then, dim=(0, 1))
    assert pairs.item() == pytest.approx(0, abs=1e-9)
    text = score(run, "ab")
    a, b = run.tokenizer.encode("ab")
    assert text.log_p == pytest.approx((first[a, a] + then[a, b]).item())


def test_units_belong_together(run: Run) -> None:
    found = score(run, "日本 é")
    assert found.n_bytes == 9
    assert found.perplexity == pytest.approx(math.exp(-found.log_p / len(found.tokens)))
    assert found.bits_per_byte * 9 == pytest.approx(-found.log_p / math.log(2))


def test_what_is_expected_next_is_the_softmax_of_the_last_logits(run: Run) -> None:
    for text in ("", "the", LONG):
        ids = [run.tokenizer.begin_id, *run.tokenizer.encode(text)]
        start = window_start(len(ids), run.model.context_length)
        shares = run.model(torch.tensor([ids[start:]]))[0, -1].softmax(-1)
        found = next_token(run, text, top=5)
        assert (found.n_tokens, found.window_start) == (len(ids), start)
        values, tokens = shares.topk(5)
        assert [one.token_id for one in found.likeliest] == tokens.tolist()
        np.testing.assert_allclose([o.probability for o in found.likeliest], values.tolist())
    everything = next_token(run, "the", top=10_000).likeliest
    assert sum(one.probability for one in everything) == pytest.approx(1)


def test_the_score_is_what_explain_shows(run: Run) -> None:
    shown = [token.surprisal_bits for token in read_sentence(run, "the fox").tokens]
    scored = [-token.log_p / math.log(2) for token in score(run, "the fox").tokens]
    np.testing.assert_allclose(shown, scored)


def test_a_text_that_was_written_scores_what_it_was_written_with(run: Run) -> None:
    how = Sampling(max_new_tokens=40, temperature=1.5, top_k=60, repetition_penalty=1.2, seed=3)
    (written,) = pellucid.generate(run, "the", how)
    ids = [run.tokenizer.begin_id, *run.tokenizer.encode("the"), *written.ids]
    read = list(scoring.predictions(run.model, run.tokenizer, ids, top=0, first=4))
    found = [prediction.log_p for prediction in read[:-1]]
    assert len(ids) > 2 * run.model.context_length
    np.testing.assert_allclose(written.log_p, found, rtol=1e-5)


def made_of(*log_p: float) -> Score:
    tokens = tuple(
        ScoredToken(position=i, token_id=0, token="a", log_p=value, window_start=0)
        for i, value in enumerate(log_p, start=1)
    )
    n = len(tokens)
    return Score(
        text="a" * n, tokens=tokens, n_bytes=n, unknown_tokens=0, is_altered=False, context_length=9
    )


def test_the_product_underflows_where_the_sum_of_logarithms_does_not() -> None:
    found = made_of(*[math.log(1e-10)] * 40)
    (narrow, value32, zero32), (wide, value64, zero64) = found.products()
    assert (narrow, value32, zero32) == ("float32", 0.0, 5)  # 1e-50 < 1.4e-45
    assert (wide, value64, zero64) == ("float64", 0.0, 33)  # 1e-330 < 4.9e-324
    assert found.log_p == pytest.approx(-400 * math.log(10))
    assert found.perplexity == pytest.approx(1e10)
    for _, value, zero in made_of(math.log(0.5), math.log(0.25)).products():
        assert (value, zero) == (pytest.approx(0.125), None)


def test_a_token_that_could_not_come_makes_a_text_impossible() -> None:
    found = made_of(-1.0, -math.inf)
    assert (found.log_p, found.perplexity) == (-math.inf, math.inf)


def test_what_cannot_be_scored_is_refused(run: Run) -> None:
    with pytest.raises(TextError, match="empty"):
        score(run, "")
    with pytest.raises(TextError, match=r"'\\udce9' at offset 3"):
        score(run, "caf\udce9")
    with pytest.raises(ConfigError, match="top must be at least 1, was 0"):
        next_token(run, "a", top=0)


# -- the command


def test_the_command_says_every_token_and_the_whole_in_eighty_columns(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "the fox\x1b 日本"
    assert main(["score", str(trained), text]) == 0
    out, errors = capsys.readouterr()
    assert errors == ""
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    found = score(pellucid.load(trained), text)
    assert len(out.split("\n\n")[0].splitlines()) == 1 + len(found.tokens)
    for words in (
        f"log P(text)    {found.log_p:.4f} nats",
        f"perplexity     {found.perplexity:.2f} per token",
        f"bits per byte  {found.bits_per_byte:.4f} over 15 bytes",
    ):
        assert words in out


def test_a_text_longer_than_the_context_is_scored_and_said(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([LONG], [LONG, "--next"]):
        assert main(["score", str(trained), *words]) == 0
        out, errors = capsys.readouterr()
        assert errors == (
            "the text outgrew the context of 16 tokens: from there on each token is predicted "
            "from the latest 9 to 16 tokens before it\n"
        )
        assert ("underflowed to 0 at token" in out) == (words == [LONG])


def test_json_holds_the_same_numbers(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(trained), "the fox", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = score(pellucid.load(trained), "the fox")
    assert (found["log_p"], found["perplexity"]) == (expected.log_p, expected.perplexity)
    assert [t["log_p"] for t in found["tokens"]] == [t.log_p for t in expected.tokens]
    assert found["products"]["float64"]["value"] == pytest.approx(math.exp(expected.log_p))


def test_next_shows_the_likeliest_after_a_text_that_may_be_empty(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("", "the"):
        assert main(["score", str(trained), text, "--next", "--top", "4", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)["next"]
        expected = next_token(pellucid.load(trained), text, top=4).likeliest
        assert [one["token_id"] for one in shown] == [one.token_id for one in expected]
        assert main(["score", str(trained), text, "--next", "--top", "4"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1 + 4


def test_a_text_comes_through_a_pipe_too(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["score", str(trained), "the\ncat"]) == 0
    expected = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO("the\ncat\n"))
    assert main(["score", str(trained), "-"]) == 0
    assert capsys.readouterr().out == expected
