from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import PellucidError, TextError
from pellucid.generation import (
    Sampling,
    choose,
    continue_ids,
    continue_tokens,
    generate,
    stream,
)
from pellucid.generation.incremental import window_start
from pellucid.model import Transformer
from pellucid.tokenizers import Tokenizer
from pellucid.tokenizers.train import train_byte_pairs, train_bytes, train_characters
from support.generation import Scripted
from support.models import BASE, VARIANTS, build, random_ids

GREEDY = Sampling(temperature=0.0)
SAMPLED = Sampling(temperature=1.0, top_k=12, top_p=0.95, seed=5)
#: Past the context of 16, so that the window moves, twice from a short prompt.
LONG = 24
POSITIONS = ("rotary", "learned", "sinusoidal", "no positions")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_bytes()


@pytest.fixture(scope="module")
def writer(tokenizer: Tokenizer) -> Transformer:
    """A random model over bytes."""
    return build(replace(BASE, vocab_size=tokenizer.vocab_size))


def first(
    n: int, model: Transformer, prompt: list[int], how: Sampling, cache: bool = True
) -> list[int | None]:
    return [token for (token,) in islice(continue_ids(model, [prompt], how, cache=cache), n)]


def told(
    tokenizer: Tokenizer, prompt: str, ids: list[int], how: Sampling
) -> tuple[str, str, tuple[int, ...], str]:
    """What a model that writes `ids` gives: streamed, whole, its ids, why it stopped."""
    model = Scripted(tokenizer.vocab_size, [ids], [1 + len(tokenizer.encode(prompt))])
    streamed = "".join(stream(model, tokenizer, prompt, how))  # type: ignore[arg-type]
    (generated,) = generate(model, tokenizer, [prompt], how)  # type: ignore[arg-type]
    return streamed, generated.text, generated.ids, generated.stopped


# -- ids


def test_greedy_is_the_argmax_of_the_models_own_logits() -> None:
    model = build(BASE)
    ids = random_ids(1, 5)[0].tolist()
    for token in first(10, model, ids, GREEDY):
        assert token == model(torch.tensor([ids]))[0, -1].argmax().item()
        ids.append(token)


@pytest.mark.parametrize("kind", [*POSITIONS, "grouped", "multi-query", "qk-norm", "post-norm"])
@pytest.mark.parametrize("how", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_with_and_without_cache_the_same_tokens_are_written(kind: str, how: Sampling) -> None:
    model = build(VARIANTS[kind])
    for n_prompt in (2, 19):
        prompt = random_ids(1, n_prompt)[0].tolist()
        cached = first(LONG, model, prompt, how)
        assert cached == first(LONG, model, prompt, how, cache=False)
        assert len(set(cached)) > 1


def test_past_the_context_the_model_sees_the_latest_tokens() -> None:
    model = build(BASE)
    ids = random_ids(1, 3)[0].tolist()
    for token in first(LONG, model, ids, GREEDY):
        start = window_start(len(ids), BASE.context_length)
        assert token == model(torch.tensor([ids[start:]]))[0, -1].argmax().item()
        ids.append(token)


@settings(max_examples=200)
@given(length=st.integers(1, 10_000), context=st.integers(1, 300))
def test_the_window_ends_with_the_text_fits_the_context_and_keeps_half_of_it(
    length: int, context: int
) -> None:
    start = window_start(length, context)
    n_seen = length - start
    assert 1 <= n_seen <= context
    assert n_seen >= min(length, context - context // 2)
    assert 0 <= window_start(length + 1, context) - start <= max(1, context // 2)


def test_a_seed_decides_the_text_and_another_seed_another() -> None:
    model = build(BASE)
    texts = [first(LONG, model, [3], replace(SAMPLED, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_writing_leaves_the_global_random_state_alone() -> None:
    model = build(BASE)
    before = torch.random.get_rng_state()
    first(5, model, [3], SAMPLED)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_dropout_is_off_while_writing() -> None:
    model = build(replace(BASE, decoder=replace(BASE.decoder, dropout=0.5)))
    model.train()
    assert first(12, model, [3], GREEDY) == first(12, model.train(), [3], GREEDY)


def test_rows_draw_independently_from_the_models_distribution() -> None:
    model = build(replace(BASE, vocab_size=6))
    n, sampling = 5000, Sampling(temperature=1.5, seed=11)
    drawn_ids = next(continue_ids(model, [[2, 4]] * n, sampling))
    shares = torch.softmax(model(torch.tensor([[2, 4]]))[0, -1] / 1.5, dim=-1)
    expected = n * shares
    counts = torch.bincount(torch.tensor(drawn_ids), minlength=6)
    assert ((counts - expected) ** 2 / expected).sum() < 20.515  # 99.9 %, 5 degrees of freedom


@pytest.mark.parametrize("kind", [*POSITIONS, "grouped"])
def test_a_prompt_in_a_batch_goes_on_as_it_does_alone(kind: str) -> None:
    model = build(VARIANTS[kind])
    lengths = (1, 9, 17, 22)
    prompts = [random_ids(1, n, seed=n)[0].tolist() for n in lengths]
    rows: list[list[int]] = [[] for _ in prompts]
    for tokens in islice(continue_ids(model, prompts, GREEDY), LONG + max(lengths)):
        for row, token in zip(rows, tokens, strict=True):
            if token is not None:
                row.append(token)
    for prompt, row in zip(prompts, rows, strict=True):
        assert row[:LONG] == first(LONG, model, prompt, GREEDY)


def test_the_length_of_its_neighbours_does_not_change_what_a_row_draws() -> None:
    model = build(BASE)
    short, long = [3], random_ids(1, 12)[0].tolist()
    batched = continue_ids(model, [short, long], SAMPLED)
    beside_short = continue_ids(model, [short, short], SAMPLED)
    for a, b in islice(zip(batched, beside_short, strict=True), 20):
        assert a[0] == b[0]


def test_an_empty_list_of_ids_is_refused() -> None:
    with pytest.raises(PellucidError, match="begin-of-text"):
        next(continue_ids(build(BASE), [[1], []], GREEDY))


@pytest.mark.parametrize("how", [GREEDY, replace(SAMPLED, repetition_penalty=1.5, min_p=0.1)])
@pytest.mark.parametrize("cache", [True, False])
def test_each_token_comes_with_what_the_model_itself_gave_it(how: Sampling, cache: bool) -> None:
    model = build(BASE)
    ids = random_ids(1, 3)[0].tolist()
    for (token,) in islice(continue_tokens(model, [ids], how, cache=cache), LONG):
        assert token is not None
        start = window_start(len(ids), BASE.context_length)
        log_p = model(torch.tensor([ids[start:]]))[0, -1].log_softmax(-1)
        assert token.log_p == pytest.approx(log_p[token.token_id].item(), abs=1e-5)
        ids = [*ids, token.token_id]


def test_a_text_that_outgrows_the_context_is_told_once_and_when_it_happens() -> None:
    model = build(BASE)
    for n_prompt, cache in ((3, True), (3, False), (16, True), (20, True)):
        outgrown_at: list[int] = []
        tokens_so_far: list[object] = []
        tokens = continue_tokens(
            model,
            [random_ids(1, n_prompt)[0].tolist()],
            GREEDY,
            cache=cache,
            when_outgrown=lambda outgrown_at=outgrown_at, tokens_so_far=tokens_so_far: (
                outgrown_at.append(len(tokens_so_far))
            ),
        )
        for token in islice(tokens, LONG):
            tokens_so_far.append(token)
        # the token after the context's 16 is the first that does not see the beginning
        assert outgrown_at == [max(0, 17 - n_prompt)]


def test_a_text_that_fits_the_context_is_not_told_to_outgrow_it() -> None:
    outgrown_at: list[int] = []
    tokens = continue_tokens(
        build(BASE), [[3]], GREEDY, when_outgrown=lambda: outgrown_at.append(0)
    )
    assert len(list(islice(tokens, 16))) == 16
    assert outgrown_at == []
    next(tokens)
    assert outgrown_at == [0]


def test_a_large_repetition_penalty_writes_no_token_twice() -> None:
    model = build(BASE)
    prompt = random_ids(1, 3)[0].tolist()
    plain = first(12, model, prompt, GREEDY)
    assert first(12, model, prompt, replace(GREEDY, repetition_penalty=1.0)) == plain
    shifted = replace(GREEDY, repetition_penalty=1e6)
    penalised = first(12, model, prompt, shifted)
    assert len(set(plain)) < 12
    assert len({*penalised, *prompt}) == 12 + len(set(prompt))


def test_a_repetition_penalty_of_a_row_knows_nothing_of_its_neighbours() -> None:
    model, sampling = build(BASE), replace(SAMPLED, repetition_penalty=1.7)
    short, long = [3], random_ids(1, 12)[0].tolist()
    batched = continue_ids(model, [short, long], sampling)
    single = continue_ids(model, [short], sampling)
    for a, b in islice(zip(batched, single, strict=True), 20):
        assert a[0] == b[0]


# -- text


def test_streaming_adds_up_to_the_text(writer: Transformer, tokenizer: Tokenizer) -> None:
    for seed in range(2):
        sampling = replace(SAMPLED, seed=seed, max_new_tokens=30, top_k=None, stop=("e", "ab"))
        (generated,) = generate(writer, tokenizer, ["to see"], sampling)
        assert "".join(stream(writer, tokenizer, "to see", sampling)) == generated.text


def test_a_continuation_has_a_log_probability_for_each_of_its_ids(
    writer: Transformer, tokenizer: Tokenizer
) -> None:
    prompts = ["to", "see it", ""]
    for text in generate(writer, tokenizer, prompts, replace(SAMPLED, max_new_tokens=7)):
        assert len(text.log_p) == len(text.ids) > 0
        assert all(log_p < 0 for log_p in text.log_p)


def test_no_more_tokens_than_asked_for(writer: Transformer, tokenizer: Tokenizer) -> None:
    for n in (1, 7):
        (generated,) = generate(writer, tokenizer, ["a"], replace(GREEDY, max_new_tokens=n))
        assert (len(generated.ids), generated.stopped) == (n, "length")


def test_a_batch_of_texts_is_what_each_is_alone(writer: Transformer, tokenizer: Tokenizer) -> None:
    prompts = ["", "a", "a much longer prompt than the context", "été"]
    sampling = replace(GREEDY, max_new_tokens=30)
    single_texts = [generate(writer, tokenizer, [prompt], sampling)[0] for prompt in prompts]
    assert generate(writer, tokenizer, prompts, sampling) == single_texts


def test_no_prompts_have_no_continuations(writer: Transformer, tokenizer: Tokenizer) -> None:
    assert generate(writer, tokenizer, [], GREEDY) == []


def test_an_empty_prompt_starts_from_the_begin_of_text(
    writer: Transformer, tokenizer: Tokenizer
) -> None:
    (generated,) = generate(writer, tokenizer, [""], replace(GREEDY, max_new_tokens=3))
    logits = writer(torch.tensor([[tokenizer.begin_id]]))[:, -1]
    assert generated.ids[0] == choose(logits, torch.zeros(1), GREEDY).item()


def test_the_end_of_text_ends_it_and_is_not_shown(tokenizer: Tokenizer) -> None:
    ids = [*tokenizer.encode("done"), tokenizer.end_id, *tokenizer.encode("never")]
    text = tuple(tokenizer.encode("done"))
    assert told(tokenizer, "is it ", ids, GREEDY) == ("done", "done", text, "end")


def test_rows_that_end_early_wait_for_the_others(tokenizer: Tokenizer) -> None:
    scripts = [[*tokenizer.encode(text), tokenizer.end_id] for text in ("a", "longer", "mid")]
    model = Scripted(tokenizer.vocab_size, scripts, [1, 3, 2])
    texts = generate(model, tokenizer, ["", "xy", "z"], GREEDY)  # type: ignore[arg-type]
    assert [text.text for text in texts] == ["a", "longer", "mid"]


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("one.\ntwo", ("\n",), "one."),
        ("Q: a\nQ: b", ("\nQ:",), "Q: a"),
        ("abcabd", ("abd",), "abc"),
        ("aaab", ("aab",), "a"),
        ("x--- y", ("----", "---"), "x"),
        ("STOP", ("STOP",), ""),
        ("né漢", ("漢",), "né"),
        ("both end", ("end", "both"), ""),
    ],
)
def test_a_stop_text_that_spans_tokens_is_honoured(
    tokenizer: Tokenizer, text: str, stop: tuple[str, ...], expected: str
) -> None:
    ids = [*tokenizer.encode(text), *tokenizer.encode(" leaks")]
    streamed, full_text, _, stopped = told(tokenizer, "p", ids, replace(GREEDY, stop=stop))
    assert (streamed, full_text, stopped) == (expected, expected, "stop")


def until_a_stop(text: str, stops: tuple[str, ...]) -> str:
    """Letter by letter: as soon as a stop text is complete, the text before it."""
    for end in range(len(text) + 1):
        places = [text[:end].find(stop) for stop in stops if stop in text[:end]]
        if places:
            return text[: min(places)]
    return text


@settings(max_examples=80)
@given(
    text=st.text("abé ", max_size=25),
    stop=st.lists(st.text("abé ", min_size=1, max_size=4), max_size=3).map(tuple),
    n=st.integers(1, 30),
)
def test_nothing_of_a_stop_text_leaks_while_streaming(
    text: str, stop: tuple[str, ...], n: int
) -> None:
    tokenizer = train_bytes()
    ids = [*tokenizer.encode(text), tokenizer.end_id]
    streamed, full_text, _, _ = told(
        tokenizer, "p", ids, replace(GREEDY, stop=stop, max_new_tokens=n)
    )
    assert streamed == full_text == until_a_stop(tokenizer.decode(ids[:n]).rstrip("�"), stop)


def test_a_stop_text_in_the_prompt_does_not_stop(tokenizer: Tokenizer) -> None:
    sampling = replace(GREEDY, stop=("\n",), max_new_tokens=3)
    streamed, *_ = told(tokenizer, "a\nb\n", tokenizer.encode("cde"), sampling)
    assert streamed == "cde"


def test_a_stream_shows_what_cannot_be_a_stop_text_at_once(tokenizer: Tokenizer) -> None:
    model = Scripted(tokenizer.vocab_size, [tokenizer.encode("abcdef")], [1])
    pieces = stream(model, tokenizer, "", replace(GREEDY, stop=("xyz",)))  # type: ignore[arg-type]
    assert [next(pieces), next(pieces)] == ["a", "b"]


TEXTS = ("naïve façade", "漢字かな", "👩‍👩‍👧 and 🇮🇳", "नमस्ते दुनिया", "end é")


@pytest.mark.parametrize("text", TEXTS)
def test_a_stream_gives_whole_characters_only(tokenizer: Tokenizer, text: str) -> None:
    ids = [*tokenizer.encode(text), tokenizer.end_id]
    model = Scripted(tokenizer.vocab_size, [ids], [1])
    pieces = list(stream(model, tokenizer, "", GREEDY))  # type: ignore[arg-type]
    assert pieces == list(text)


@pytest.mark.parametrize("n", range(1, 8))
def test_a_text_cut_inside_a_character_ends_before_it(tokenizer: Tokenizer, n: int) -> None:
    ids = tokenizer.encode("a😀é")
    streamed, full_text, new_ids, _ = told(tokenizer, "x", ids, replace(GREEDY, max_new_tokens=n))
    assert streamed == full_text == "a😀é".encode()[:n].decode(errors="ignore")
    assert new_ids == tuple(ids[:n])


@settings(max_examples=100)
@given(ids=st.lists(st.integers(0, 257), min_size=1, max_size=12))
def test_any_bytes_at_all_can_be_written(ids: list[int]) -> None:
    tokenizer = train_bytes()
    streamed, full_text, _, _ = told(tokenizer, "é", ids, replace(GREEDY, max_new_tokens=len(ids)))
    assert streamed == full_text
    streamed.encode()


@pytest.mark.parametrize(
    "kind", [train_characters, lambda texts: train_byte_pairs(texts, 300)], ids=["chars", "bpe"]
)
def test_other_tokenizers_give_their_text_back_too(kind: object) -> None:
    text = "the cat — naïve — sat on the mat; the cat sat"
    tokenizer: Tokenizer = kind([text])  # type: ignore[operator]
    ids = [*tokenizer.encode(text), tokenizer.end_id]
    assert told(tokenizer, "the ", ids, GREEDY)[:2] == (text, text)


def test_a_model_with_more_rows_than_the_tokenizer_has_tokens_still_writes(
    tokenizer: Tokenizer,
) -> None:
    model = Scripted(tokenizer.vocab_size + 50, [[65, tokenizer.vocab_size + 7, 66]], [1])
    sampling = replace(GREEDY, max_new_tokens=3)
    (generated,) = generate(model, tokenizer, [""], sampling)  # type: ignore[arg-type]
    assert generated.text == tokenizer.decode([65, 66])


def test_half_a_character_in_a_prompt_is_refused_by_its_place(
    writer: Transformer, tokenizer: Tokenizer
) -> None:
    with pytest.raises(TextError, match=r"'\\udce9' at offset 3"):
        generate(writer, tokenizer, ["caf\udce9"], GREEDY)
    with pytest.raises(TextError, match="not text"):
        list(stream(writer, tokenizer, "\ud800", GREEDY))
