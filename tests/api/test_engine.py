"""Many texts at a time: each as if it were alone, a bounded queue, and clients that leave."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from pellucid import runs
from pellucid.api import ApiError, Limits, ServedModels
from pellucid.api.engine import Engine, share_weights
from pellucid.api.jobs import Event, Failed, Job, WrittenToken
from pellucid.api.metrics import ModelMetrics
from pellucid.errors import NonFiniteError
from pellucid.generation import Sampling
from pellucid.runs import Run
from pellucid.web import open_session
from support.api import models_of, serving

openai: Any = pytest.importorskip("openai", reason="openai is not installed")


def job_of(run: Run, prompt: str, sampling: Sampling, emit: Any, **changes: Any) -> Job:
    ids = run.tokenizer.encode_prompt(prompt)
    settings: dict[str, Any] = {"ends": frozenset({run.tokenizer.end_id}), "choice": 0}
    settings |= {"logit_bias": {}, "likeliest": 0}
    return Job(prompt=ids, sampling=sampling, emit=emit, **settings | changes)


class Gate:
    """Holds the engine back before each token until it is let go."""

    def __init__(self, engine: Engine) -> None:
        self._let, self._step = threading.Semaphore(0), engine._batch.step
        engine._batch.step = self.wait  # type: ignore[method-assign]

    def wait(self, *given: Any) -> Any:
        assert self._let.acquire(timeout=30)
        return self._step(*given)

    def open(self, times: int = 10_000) -> None:
        self._let.release(times)


@pytest.fixture
def engine(base: Run) -> Iterator[Engine]:
    started_engine = Engine(base, rows=2, waiting=1, metrics=ModelMetrics())
    yield started_engine
    started_engine.close()


def test_concurrent_requests_give_the_same_tokens_as_alone(address: str, base: Run) -> None:
    """Requests of many kinds at once over eight rows: more than there are places."""
    prompts = ["say", "say red", "red and blue and green", "b", "say white and black 12"]
    kinds = [
        {"temperature": 0.0},
        {"temperature": 1.0, "top_p": 0.9},
        {"temperature": 0.7, "extra_body": {"top_k": 5}},
        {"temperature": 1.3, "extra_body": {"repetition_penalty": 1.2}},
    ]
    requests = [
        {"prompt": prompt, "seed": seed, "max_tokens": 6 + 5 * seed, "n": 1 + seed % 2, **kind}
        for seed, (prompt, kind) in enumerate((p, k) for p in prompts[:4] for k in kinds)
        if seed < 12
    ]

    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:

        def ask(request: dict[str, Any]) -> list[str]:
            answer = client.completions.create(model="base", **request)
            return [choice.text for choice in answer.choices]

        with ThreadPoolExecutor(12) as pool:
            concurrent = list(pool.map(ask, requests))
        assert [ask(request) for request in requests] == concurrent
    for request, texts in zip(requests, concurrent, strict=True):
        names = ("temperature", "top_p", "seed")
        choices = {name: request[name] for name in names if name in request}
        extra: Any = request.get("extra_body", {})
        sampling = Sampling(max_new_tokens=request["max_tokens"], **choices, **extra)
        assert runs.generate(base, request["prompt"], sampling)[0].text == texts[0]


def test_too_many_wait_and_the_next_gets_429(base: Run) -> None:
    models = models_of(base, limits=Limits(rows=1, waiting=1))
    engine = models.get("base").opened().engine
    gate = Gate(engine)
    for address in serving(open_session([base]), models):
        with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:

            def ask() -> str:
                answer = client.completions.create(model="base", prompt="say", max_tokens=3)
                return answer.choices[0].finish_reason

            with ThreadPoolExecutor(2) as pool:
                first = pool.submit(ask)
                until(lambda: len(engine._open) == 1)
                second = pool.submit(ask)
                until(lambda: len(engine._waiting) == 1)
                with pytest.raises(openai.RateLimitError) as refused:
                    ask()
                assert refused.value.response.headers["retry-after"] == "1"
                assert refused.value.code == "rate_limit_exceeded"
                # of more texts than could ever be taken, another try is no use
                with pytest.raises(openai.BadRequestError, match="takes 2 at a time"):
                    client.completions.create(model="base", prompt="say", n=3)
                gate.open()
                assert {first.result(30), second.result(30)} <= {"stop", "length"}
    models.close()


def test_a_client_that_leaves_is_cancelled_and_its_place_is_free(base: Run) -> None:
    models = models_of(base, limits=Limits(rows=1, waiting=0))
    engine = models.get("base").opened().engine
    gate = Gate(engine)
    for address in serving(open_session([base]), models):
        with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
            for stream in (True, False):
                request: Any = {"model": "base", "prompt": "say", "max_tokens": 60}
                if stream:
                    events = client.completions.create(**request, stream=True)
                    until(lambda: len(engine._open) == 1)
                    events.close()
                else:
                    with pytest.raises(openai.APITimeoutError):
                        client.completions.create(**request, timeout=0.5)
                until(lambda: engine._open[0].job.cancelled.is_set())
                gate.open(1)
                until(lambda: not engine._open)
            gate.open()
            answer = client.completions.create(model="base", prompt="say", max_tokens=2)
            assert answer.choices[0].finish_reason in ("stop", "length")
    models.close()


def test_a_client_that_leaves_while_tokens_come_is_cancelled_too(base: Run) -> None:
    models = models_of(base, limits=Limits(rows=1, waiting=0))
    engine = models.get("base").opened().engine
    step = engine._batch.step

    def slow(*given: Any) -> Any:
        time.sleep(0.05)
        return step(*given)

    engine._batch.step = slow  # type: ignore[method-assign]
    no_end = {str(base.tokenizer.end_id): -100}  # type: ignore[union-attr]
    for address in serving(open_session([base]), models):
        with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
            with pytest.raises(openai.APITimeoutError):
                client.completions.create(
                    model="base", prompt="say", max_tokens=80, logit_bias=no_end, timeout=0.5
                )
            until(lambda: not engine._open)
    assert 0 < engine._metrics.completion_tokens < 60  # 80 would have taken four seconds
    models.close()


def test_a_request_that_was_taken_back_while_it_waits_takes_no_place(engine: Engine) -> None:
    gate = Gate(engine)
    events: list[Event] = []
    sampling = Sampling(max_new_tokens=4)

    def job() -> Job:
        return job_of(engine.run, "say", sampling, events.append)

    engine.submit([job(), job()])
    until(lambda: len(engine._open) >= 1)
    waiting = job()
    engine.submit([waiting])
    with pytest.raises(ApiError, match="try again"):
        engine.submit([job()])
    waiting.cancelled.set()
    engine.submit([job()])
    gate.open()
    until(lambda: sum(isinstance(e, WrittenToken) and bool(e.stopped) for e in events) == 3)


def test_numbers_of_one_text_that_are_not_finite_end_that_text_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, broken_texts = engine._batch.step, list[Any]()

    def broken(texts: Any, tokens: Any) -> torch.Tensor:
        broken_texts.append(texts[0])  # the first is the one that joined first
        logits = step(texts, tokens).clone()
        logits[[text is broken_texts[0] for text in texts]] = float("nan")
        return logits

    monkeypatch.setattr(engine._batch, "step", broken)
    first: list[Event] = []
    second: list[Event] = []
    sampling = Sampling(max_new_tokens=4, temperature=0)
    engine.submit(
        [job_of(engine.run, "say", sampling, events.append) for events in (first, second)]
    )
    until(lambda: is_last(first[-1:]) and is_last(second[-1:]))
    assert isinstance(first[-1], Failed)
    assert isinstance(first[-1].error, NonFiniteError)
    assert isinstance(second[-1], WrittenToken)


def test_after_a_failure_of_a_whole_batch_the_next_request_is_answered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("memory")

    monkeypatch.setattr(engine._batch, "step", fail)
    events: list[Event] = []
    engine.submit([job_of(engine.run, "say", Sampling(max_new_tokens=3), events.append)])
    until(lambda: bool(events) and isinstance(events[-1], Failed))
    assert "memory" not in str(events[-1])
    engine.submit([job_of(engine.run, "say", Sampling(max_new_tokens=3), events.append)])
    until(lambda: isinstance(events[-1], WrittenToken) and bool(events[-1].stopped))


def test_a_page_that_watches_the_model_does_not_see_the_texts(base: Run) -> None:
    twin = share_weights(base.model)
    for parameter, twin_parameter in zip(base.model.parameters(), twin.parameters(), strict=True):
        assert parameter is twin_parameter
    calls: list[Any] = []
    hook = base.model.stack.blocks[0].register_forward_hook(
        lambda *call_inputs: calls.append(call_inputs)
    )
    ids = torch.tensor([[1, 2, 3]])
    with torch.inference_mode():
        assert torch.equal(twin(ids), base.model(ids))
    assert len(calls) == 1
    hook.remove()


def test_the_end_of_the_server_ends_what_is_open(base: Run) -> None:
    models: ServedModels = models_of(base)
    engine = models.get("base").opened().engine
    gate = Gate(engine)
    events: list[Event] = []
    engine.submit([job_of(base, "say", Sampling(max_new_tokens=50), events.append)])
    until(lambda: len(engine._open) == 1)
    gate.open(1)
    closing = threading.Thread(target=models.close)
    closing.start()
    gate.open()
    closing.join(20)
    assert not engine._thread.is_alive()
    with pytest.raises(ApiError, match="closing"):
        engine.submit([job_of(base, "say", Sampling(), events.append)])


def is_last(events: list[Event]) -> bool:
    """Whether the last event of a text is the end of it."""
    return any(isinstance(event, Failed) or event.stopped for event in events)  # type: ignore[union-attr]


def until(true: Any) -> None:
    """Until something is true."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)
