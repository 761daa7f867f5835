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
    loaded = pellucid.load(trained)
    loaded.model.double()
    return loaded


def one_by_one(run: Run, text: str) -> list[float]:
    """Log P of each token, each by a forward pass of its own."""
    ids = [run.tokenizer.begin_id, *run.tokenizer.encode(text)]
    log_ps = []
    for place in range(1, len(ids)):
        start = window_start(place, run.model.context_length)
        logits = run.model(torch.tensor([ids[start:place]]))[0, -1]
        log_ps.append(logits.log_softmax(-1)[ids[place]].item())
    return log_ps


@pytest.mark.parametrize("text", ["t", "the fox", LONG, "日本 é"])
def test_each_token_is_given_what_the_model_gives_it_after_those_before(
    run: Run, text: str
) -> None:
    scored = score(run, text)
    expected = one_by_one(run, text)
    np.testing.assert_allclose([token.log_p for token in scored.tokens], expected, rtol=1e-9)
    assert scored.log_p == pytest.approx(sum(expected))
    assert [token.token_id for token in scored.tokens] == run.tokenizer.encode(text)
    assert [token.position for token in scored.tokens] == list(range(1, len(expected) + 1))


def test_a_distribution_cut_into_parts_is_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncut = score(run, LONG)
    monkeypatch.setattr(scoring, "_PLACES_AT_ONCE", 3)
    parts = score(run, LONG)
    assert parts.log_p == pytest.approx(uncut.log_p, rel=1e-12)
    assert [t.window_start for t in parts.tokens] == [t.window_start for t in uncut.tokens]


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
    first, second = run.model(batch).log_softmax(-1).unbind(1)
    pairs = torch.logsumexp(first.diagonal()[:, None] + second, dim=(0, 1))
    assert pairs.item() == pytest.approx(0, abs=1e-9)
    text = score(run, "ab")
    a, b = run.tokenizer.encode("ab")
    assert text.log_p == pytest.approx((first[a, a] + second[a, b]).item())


def test_units_belong_together(run: Run) -> None:
    scored = score(run, "日本 é")
    assert scored.n_bytes == 9
    assert scored.perplexity == pytest.approx(math.exp(-scored.log_p / len(scored.tokens)))
    assert scored.bits_per_byte * 9 == pytest.approx(-scored.log_p / math.log(2))


def test_what_is_expected_next_is_the_softmax_of_the_last_logits(run: Run) -> None:
    for text in ("", "the", LONG):
        ids = [run.tokenizer.begin_id, *run.tokenizer.encode(text)]
        start = window_start(len(ids), run.model.context_length)
        shares = run.model(torch.tensor([ids[start:]]))[0, -1].softmax(-1)
        prediction = next_token(run, text, top=5)
        assert (prediction.n_tokens, prediction.window_start) == (len(ids), start)
        values, tokens = shares.topk(5)
        assert [token.token_id for token in prediction.likeliest] == tokens.tolist()
        np.testing.assert_allclose([o.probability for o in prediction.likeliest], values.tolist())
    all_tokens = next_token(run, "the", top=10_000).likeliest
    assert sum(token.probability for token in all_tokens) == pytest.approx(1)


def test_the_score_is_what_explain_shows(run: Run) -> None:
    bits = [token.surprisal_bits for token in read_sentence(run, "the fox").tokens]
    scored = [-token.log_p / math.log(2) for token in score(run, "the fox").tokens]
    np.testing.assert_allclose(bits, scored)


def test_a_text_that_was_written_scores_what_it_was_written_with(run: Run) -> None:
    sampling = Sampling(
        max_new_tokens=40, temperature=1.5, top_k=60, repetition_penalty=1.2, seed=3
    )
    (generated,) = pellucid.generate(run, "the", sampling)
    ids = [run.tokenizer.begin_id, *run.tokenizer.encode("the"), *generated.ids]
    read = list(scoring.predictions(run.model, run.tokenizer, ids, top=0, first=4))
    read_log_ps = [prediction.log_p for prediction in read[:-1]]
    assert len(ids) > 2 * run.model.context_length
    np.testing.assert_allclose(generated.log_p, read_log_ps, rtol=1e-5)


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
    scored = made_of(*[math.log(1e-10)] * 40)
    (narrow, value32, zero32), (wide, value64, zero64) = scored.products()
    assert (narrow, value32, zero32) == ("float32", 0.0, 5)  # 1e-50 < 1.4e-45
    assert (wide, value64, zero64) == ("float64", 0.0, 33)  # 1e-330 < 4.9e-324
    assert scored.log_p == pytest.approx(-400 * math.log(10))
    assert scored.perplexity == pytest.approx(1e10)
    for _, value, zero in made_of(math.log(0.5), math.log(0.25)).products():
        assert (value, zero) == (pytest.approx(0.125), None)


def test_a_token_that_could_not_come_makes_a_text_impossible() -> None:
    scored = made_of(-1.0, -math.inf)
    assert (scored.log_p, scored.perplexity) == (-math.inf, math.inf)


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
    printed, errors = capsys.readouterr()
    assert errors == ""
    assert max(map(len, printed.splitlines())) <= 80
    assert "\x1b" not in printed
    scored = score(pellucid.load(trained), text)
    assert len(printed.split("\n\n")[0].splitlines()) == 1 + len(scored.tokens)
    for words in (
        f"log P(text)    {scored.log_p:.4f} nats",
        f"perplexity     {scored.perplexity:.2f} per token",
        f"bits per byte  {scored.bits_per_byte:.4f} over 15 bytes",
    ):
        assert words in printed


def test_a_text_longer_than_the_context_is_scored_and_said(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([LONG], [LONG, "--next"]):
        assert main(["score", str(trained), *words]) == 0
        printed, errors = capsys.readouterr()
        assert errors == (
            "the text outgrew the context of 16 tokens: from there on each token is predicted "
            "from the latest 9 to 16 tokens before it\n"
        )
        assert ("underflowed to 0 at token" in printed) == (words == [LONG])


def test_json_holds_the_same_numbers(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(trained), "the fox", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    expected = score(pellucid.load(trained), "the fox")
    assert (result["log_p"], result["perplexity"]) == (expected.log_p, expected.perplexity)
    assert [t["log_p"] for t in result["tokens"]] == [t.log_p for t in expected.tokens]
    assert result["products"]["float64"]["value"] == pytest.approx(math.exp(expected.log_p))


def test_next_shows_the_likeliest_after_a_text_that_may_be_empty(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("", "the"):
        assert main(["score", str(trained), text, "--next", "--top", "4", "--json"]) == 0
        predictions = json.loads(capsys.readouterr().out)["next"]
        expected = next_token(pellucid.load(trained), text, top=4).likeliest
        assert [token["token_id"] for token in predictions] == [
            token.token_id for token in expected
        ]
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
