"""The API, asked by OpenAI's own client."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pellucid import runs
from pellucid.generation import Sampling
from pellucid.runs import Run

openai: Any = pytest.importorskip("openai", reason="openai is not installed")


@pytest.fixture(scope="module")
def openai_client(address: str) -> Any:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_the_models_are_listed_by_the_names_of_their_folders(openai_client: Any) -> None:
    assert [model.id for model in openai_client.models.list()] == ["base", "tuned"]
    assert openai_client.models.retrieve("tuned").owned_by == "pellucid"
    with pytest.raises(openai.NotFoundError) as refused:
        openai_client.models.retrieve("another/one")
    assert refused.value.code == "model_not_found"


def test_a_completion_is_what_generate_writes(openai_client: Any, base: Run) -> None:
    sampling = Sampling(max_new_tokens=12, temperature=0.9, top_p=0.95, seed=5)
    (expected,) = runs.generate(base, "say red", sampling)
    answer = openai_client.completions.create(
        model="base", prompt="say red", max_tokens=12, temperature=0.9, top_p=0.95, seed=5
    )
    assert answer.object == "text_completion"
    assert answer.choices[0].text == expected.text
    ended = expected.stopped == "end"
    assert answer.choices[0].finish_reason == ("stop" if ended else "length")
    n_prompt = len(base.tokenizer.encode_prompt("say red"))
    assert answer.usage.prompt_tokens == n_prompt
    assert answer.usage.completion_tokens == len(expected.ids) + ended
    assert answer.usage.total_tokens == n_prompt + len(expected.ids) + ended


def test_a_stream_adds_up_to_the_whole_and_ends_with_its_usage(openai_client: Any) -> None:
    request = {"model": "base", "prompt": ["say red", "say"], "max_tokens": 9, "seed": 3, "n": 2}
    completion = openai_client.completions.create(**request)
    texts, reasons, usage = [""] * 4, [None] * 4, None
    for chunk in openai_client.completions.create(
        **request, stream=True, stream_options={"include_usage": True}
    ):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
        usage = chunk.usage or usage
    assert texts == [choice.text for choice in completion.choices]
    assert reasons == [choice.finish_reason for choice in completion.choices]
    assert usage == completion.usage
    assert len(set(texts[:2])) == 2  # each choice draws its own numbers


def test_a_chat_is_what_answer_says(openai_client: Any, tuned: Run) -> None:
    (expected,) = runs.answer(tuned, "say red 1", Sampling(max_new_tokens=9, temperature=0))
    request: Any = {
        "model": "tuned",
        "messages": [{"role": "user", "content": "say red 1"}],
        "max_completion_tokens": 9,
        "temperature": 0,
    }
    answer = openai_client.chat.completions.create(**request)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == expected.text
    chunks = list(openai_client.chat.completions.create(**request, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == expected.text
    assert chunks[-1].choices[0].finish_reason == answer.choices[0].finish_reason


def test_log_p_of_a_chat_are_those_of_the_text(openai_client: Any, tuned: Run) -> None:
    (expected,) = runs.answer(tuned, "say red 1", Sampling(max_new_tokens=9, temperature=0))
    answer = openai_client.chat.completions.create(
        model="tuned",
        messages=[{"role": "user", "content": [{"type": "text", "text": "say red 1"}]}],
        max_tokens=9,
        temperature=0,
        logprobs=True,
        top_logprobs=3,
    )
    content = answer.choices[0].logprobs.content
    assert [token.logprob for token in content] == pytest.approx(expected.log_p, abs=1e-5)
    assert b"".join(bytes(token.bytes) for token in content).decode() == expected.text
    for token in content:
        assert len(token.top_logprobs) == 3
        # greedy: the token is the first of the likeliest
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob, abs=1e-6)
        assert math.fsum(math.exp(other.logprob) for other in token.top_logprobs) <= 1 + 1e-6


def test_an_echo_with_log_p_scores_the_prompt(openai_client: Any, base: Run) -> None:
    text = "say red and blue"
    score = runs.score(base, text)
    for n_new in (0, 1):
        answer = openai_client.completions.create(
            model="base", prompt=text, echo=True, logprobs=2, max_tokens=n_new, temperature=0
        )
        choice = answer.choices[0]
        assert choice.text.startswith(text)
        log_p = choice.logprobs.token_logprobs
        assert log_p[0] is None  # the begin token
        n = len(score.tokens)
        assert log_p[1 : n + 1] == [token.log_p for token in score.tokens]
        assert len(log_p) == 1 + n + n_new
        assert choice.logprobs.tokens[1 : n + 1] == [token.token for token in score.tokens]
        assert choice.logprobs.text_offset[1 : n + 1] == [
            start for start, _ in base.tokenizer.spans(text)
        ]
        assert all(len(table) >= 2 for table in choice.logprobs.top_logprobs[1:])


def test_token_ids_are_a_prompt_too_and_come_back(openai_client: Any, base: Run) -> None:
    ids = base.tokenizer.encode_prompt("say red")
    by_text, by_ids = (
        openai_client.completions.create(
            model="base",
            prompt=prompt,
            max_tokens=5,
            temperature=0,
            extra_body={"return_token_ids": True},
        ).choices[0]
        for prompt in ("say red", ids)
    )
    assert by_text.text == by_ids.text
    assert by_text.prompt_token_ids == ids
    assert base.tokenizer.decode(by_ids.token_ids) == by_ids.text


def test_a_stop_text_ends_the_text_before_it(openai_client: Any, base: Run) -> None:
    request: Any = {"model": "base", "prompt": "say", "max_tokens": 30, "seed": 1}
    text = openai_client.completions.create(**request).choices[0].text
    stop = text[8:11]
    cut = text[: text.index(stop)]
    answer = openai_client.completions.create(**request, stop=[stop], logprobs=0).choices[0]
    assert (answer.text, answer.finish_reason) == (cut, "stop")
    assert all(start < len(cut) for start in answer.logprobs.text_offset)
    streamed = openai_client.completions.create(**request, stop=stop, stream=True)
    assert "".join(c.choices[0].text for c in streamed) == cut


def test_a_bias_makes_a_token_certain_or_impossible(openai_client: Any, base: Run) -> None:
    token_id = base.tokenizer.encode("e")[0]
    request: Any = {"model": "base", "prompt": "say", "max_tokens": 6, "temperature": 0}
    certain = openai_client.completions.create(**request, logit_bias={str(token_id): 100})
    assert certain.choices[0].text == "e" * 6
    impossible = openai_client.completions.create(**request, logit_bias={str(token_id): -100})
    assert "e" not in impossible.choices[0].text


def test_a_base_model_holds_no_chat(openai_client: Any) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.chat.completions.create(
            model="base", messages=[{"role": "user", "content": "hi"}]
        )
    assert refused.value.code == "no_chat_template"
    assert "is a base model" in refused.value.message


def test_what_is_longer_than_the_context_is_refused(openai_client: Any, base: Run) -> None:
    context = base.model.context_length
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.completions.create(model="base", prompt="say", max_tokens=context)
    assert refused.value.code == "context_length_exceeded"
    full = openai_client.completions.create(
        model="base", prompt=[1] * context, max_tokens=0, echo=True
    )
    assert full.usage.prompt_tokens == context
