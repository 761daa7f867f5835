"""Beam search and writing with models: an encoder-decoder's source, caches, the law of one beam."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import PellucidError
from pellucid.generation import (
    Beams,
    Sampling,
    beam_search,
    beam_search_ids,
    continue_ids,
    encode,
    generate,
    stream,
)
from pellucid.model import Transformer
from pellucid.tokenizers import train_bytes
from support.kinds import KINDS
from support.models import BASE, VARIANTS, build, random_ids

END = 0
GREEDY = Sampling(temperature=0.0)
SAMPLED = Sampling(temperature=1.0, seed=5)
TRANSLATOR = replace(KINDS["encoder-decoder"], context_length=16)
SOURCES = [random_ids(1, n, seed=n)[0].tolist() for n in (3, 9, 6)]


def translator(vocab_size: int = 23, seed: int = 0, **changes: Any) -> Transformer:
    return build(replace(TRANSLATOR, vocab_size=vocab_size, **changes), seed=seed)


def written(
    model: Transformer, sources: list[list[int]], n: int, how: Sampling, *, cache: bool = True
) -> list[list[int | None]]:
    """What each row writes, of `n` tokens, looking at its source."""
    encoded = encode(model, sources)
    steps = continue_ids(model, [[1]] * len(sources), how, encoded=encoded, cache=cache)
    return [list(row) for row in zip(*islice(steps, n), strict=True)]


# -- an encoder-decoder, token by token


def test_greedy_is_the_argmax_of_the_decoder_that_looks_at_the_source() -> None:
    model = translator()
    (ids,) = written(model, SOURCES[:1], 10, GREEDY)
    encoded, so_far = model.encode(torch.tensor(SOURCES[:1])), [1]
    for token in ids:
        assert token == model(torch.tensor([so_far]), encoded=encoded)[0, -1].argmax().item()
        so_far.append(token)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_sources_in_a_batch_are_written_as_each_is_alone(how: Sampling) -> None:
    model = translator()
    # each row draws by its own number: alone, a source is the first row
    batched = written(model, [SOURCES[0], *SOURCES], 12, how)
    assert batched[0] == written(model, SOURCES[:1], 12, how)[0]
    if how is GREEDY:
        assert batched[1:] == [written(model, [source], 12, how)[0] for source in SOURCES]
        assert batched[1] != batched[2]


@pytest.mark.parametrize("how", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_with_and_without_cache_the_same_is_written_past_the_context_too(how: Sampling) -> None:
    model = translator()
    assert written(model, SOURCES, 24, how) == written(model, SOURCES, 24, how, cache=False)


def test_streaming_a_translation_adds_up_to_it() -> None:
    tokenizer = train_bytes()
    model = translator(tokenizer.vocab_size)
    for seed in range(3):
        sampling = replace(SAMPLED, seed=seed, max_new_tokens=12)
        (generated,) = generate(model, tokenizer, ["to see"], sampling)
        assert "".join(stream(model, tokenizer, "to see", sampling)) == generated.text


def test_an_encoder_writes_nothing() -> None:
    tokenizer = train_bytes()
    model = build(replace(KINDS["encoder"], vocab_size=tokenizer.vocab_size))
    for write in (generate, lambda *a: list(stream(*a))):
        with pytest.raises(PellucidError, match="pellucid fill"):
            write(model, tokenizer, ["a"] if write is generate else "a", GREEDY)  # type: ignore
    with pytest.raises(PellucidError, match="pellucid embed"):
        beam_search(model, tokenizer, ["a"], Beams())


def test_a_source_that_is_too_long_is_refused() -> None:
    tokenizer = train_bytes()
    model = translator(tokenizer.vocab_size)
    with pytest.raises(PellucidError, match="context holds 16"):
        generate(model, tokenizer, ["a" * 15], GREEDY)


# -- one beam


def until_the_end(tokens: Any, most: int) -> tuple[int, ...]:
    ids: list[int] = []
    for (token,) in islice(tokens, most):
        ids.append(token)
        if token == END:
            break
    return tuple(ids)


@settings(max_examples=20)
@given(seed=st.integers(0, 50), early=st.sampled_from([True, False]), most=st.integers(1, 20))
def test_one_beam_is_greedy(seed: int, early: bool, most: int) -> None:
    model = build(replace(BASE, vocab_size=5), seed=seed)
    beams = Beams(n_beams=1, early_stopping=early, max_new_tokens=most)
    ((text,),) = beam_search_ids(model, [[3, 1]], beams, end_id=END)
    assert text.ids == until_the_end(continue_ids(model, [[3, 1]], GREEDY), most)


def test_one_beam_is_greedy_for_an_encoder_decoder() -> None:
    model = translator(5)
    sources = [[1, 2, 3], [4, 4]]
    searches = beam_search_ids(
        model,
        [[1], [1]],
        Beams(n_beams=1, max_new_tokens=9),
        end_id=END,
        encoded=encode(model, sources),
    )
    for source, (text,) in zip(sources, searches, strict=True):
        greedy = continue_ids(model, [[1]], GREEDY, encoded=encode(model, [source]))
        assert text.ids == until_the_end(greedy, 9)


# -- many


def log_p(model: Transformer, prompt: list[int], ids: tuple[int, ...], **more: Any) -> float:
    """The model's own log P of `ids` after `prompt`, all read at once."""
    all_ids = torch.tensor([[*prompt, *ids]])
    with torch.no_grad():
        shares = torch.log_softmax(model(all_ids[:, :-1], **more)[0, len(prompt) - 1 :], dim=-1)
    return float(shares.gather(1, torch.tensor(ids)[:, None]).sum())


def test_a_search_as_wide_as_there_are_texts_finds_the_best_of_all() -> None:
    model, n_most = build(replace(BASE, vocab_size=4), seed=2), 4
    open_texts = [ids for n in range(n_most) for ids in product((1, 2, 3), repeat=n)]
    all_texts = [(*ids, END) for ids in open_texts] + list(product((1, 2, 3), repeat=n_most))
    for penalty in (0.0, 1.0):
        beams = Beams(
            n_beams=4**n_most,
            n_best=5,
            length_penalty=penalty,
            early_stopping="never",
            max_new_tokens=n_most,
        )
        (texts_found,) = beam_search_ids(model, [[1]], beams, end_id=END)
        scores = {ids: log_p(model, [1], ids) / len(ids) ** penalty for ids in all_texts}
        best = sorted(all_texts, key=lambda ids: -scores[ids])[:5]
        assert [text.ids for text in texts_found] == best
        assert [text.score for text in texts_found] == pytest.approx([scores[ids] for ids in best])


@pytest.mark.parametrize("kind", ["rotary", "learned", "grouped", "alibi", "window"])
def test_scores_are_the_models_own_and_caches_follow_the_beams(kind: str) -> None:
    model = build(VARIANTS[kind])
    prompts = [random_ids(1, n, seed=n)[0].tolist() for n in (2, 4, 2)]
    beams = Beams(n_beams=4, n_best=4, length_penalty=0.6, max_new_tokens=9)
    searches = beam_search_ids(model, prompts, beams, end_id=END)
    assert len({text.ids for texts in searches for text in texts}) > 4
    for prompt, texts in zip(prompts, searches, strict=True):
        for text in texts:
            total = log_p(model, prompt, text.ids)
            assert sum(text.log_p) == pytest.approx(total)
            assert text.score == pytest.approx(total / len(text.ids) ** 0.6)
        single = beam_search_ids(model, [prompt], beams, end_id=END)[0]
        assert [text.ids for text in single] == [text.ids for text in texts]


def test_sources_are_searched_together_as_each_is_alone() -> None:
    model = translator()
    beams = Beams(n_beams=3, n_best=3, max_new_tokens=8)
    encoded = encode(model, SOURCES)
    searches = beam_search_ids(model, [[1]] * 3, beams, end_id=END, encoded=encoded)
    for source, texts in zip(SOURCES, searches, strict=True):
        own_source = encode(model, [source])
        (single,) = beam_search_ids(model, [[1]], beams, end_id=END, encoded=own_source)
        assert [text.ids for text in single] == [text.ids for text in texts]
        for text in texts:
            assert sum(text.log_p) == pytest.approx(log_p(model, [1], text.ids, encoded=own_source))


def test_past_the_context_a_search_with_caches_finds_what_one_without_finds() -> None:
    model, calls = build(BASE), []
    beams = Beams(n_beams=3, n_best=3, max_new_tokens=20, min_new_tokens=20)
    cached = beam_search_ids(
        model, [[3, 4]], beams, end_id=END, when_outgrown=lambda: calls.append(1)
    )
    plain = beam_search_ids(model, [[3, 4]], beams, end_id=END, cache=False)
    assert [text.ids for text in cached[0]] == [text.ids for text in plain[0]]
    assert calls == [1]


def test_texts_found_are_whole_and_leave_their_end_out() -> None:
    tokenizer = train_bytes()
    model = build(replace(BASE, vocab_size=tokenizer.vocab_size))
    beams = Beams(n_beams=3, n_best=2, max_new_tokens=6)
    for texts in beam_search(model, tokenizer, ["to", "see it", ""], beams):
        assert len(texts) == 2
        for text in texts:
            assert tokenizer.end_id not in text.ids
            assert len(text.log_p) == len(text.ids)
            assert text.total_log_p <= sum(text.log_p) + 1e-12
            n = len(text.ids) + (text.stopped == "end")
            assert text.score == pytest.approx(text.total_log_p / n)
    assert beam_search(model, tokenizer, [], beams) == []


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(PellucidError, match="pass at least the begin-of-text token"):
        beam_search_ids(build(BASE), [[1], []], Beams(), end_id=END)
