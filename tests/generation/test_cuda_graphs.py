"""The step that a GPU replays is the model's own, wherever it is recorded for.

Here the recorded functions run without a recording, and so on any device; the recording itself
needs a GPU.
"""

from __future__ import annotations

import dataclasses
import gc
import weakref
from itertools import islice
from typing import Any

import pytest
import torch

from pellucid import config
from pellucid.generation import Beams, Reader, Sampling, beam_search_ids, continue_tokens
from pellucid.generation import incremental as reading_module
from pellucid.generation.cuda_graphs import Steps, graphed
from pellucid.model.trainable import add_lora
from support.models import BASE, PAIRS, VARIANTS, build, random_ids
from support.nightly import sampled

GREEDY = Sampling(temperature=0.0)
#: What a mask and a place do not say, and so only the model itself does.
WITHOUT = {
    "alibi",
    "alibi, rounded",
    "alibi, scaled",
    "alternating",
    "bucketed",
    "bucketed in each layer",
    "experts",
    "experts with weighted inputs",
    "grouped experts and a shared one",
    "latent with a bias on scores",
    "layers that differ",
    "linear",
    "linear beside softmax",
    "linear with learned positions",
    "memory",
    "memory with a bias on scores",
    "dynamic rotary",
    "longrope",
    "positions that take turns",
    "shaw",
    "shaw with values",
    "disentangled",
    "disentangled with own projections",
    "two schemes of positions",
    "window",
}


def as_it_is(compute: Any) -> Any:
    return compute


def plainly(model: Any) -> Steps | None:
    """Steps that are run, and not recorded."""
    return graphed(model, as_it_is)


def ready(model: config.Transformer) -> Any:
    return build(model, double=False)


@pytest.fixture(autouse=True)
def recorded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "decoder", plainly)


def test_only_what_needs_more_than_a_place_and_a_mask_is_not_recorded() -> None:
    assert {name for name, model in VARIANTS.items() if plainly(ready(model)) is None} == WITHOUT
    assert all(plainly(ready(model)) is None for model in PAIRS.values())


def read(model: Any, ids: torch.Tensor) -> list[torch.Tensor]:
    """Logits after each column from the fifth on, by recorded steps."""
    reader = Reader(model)
    reader.next_logits(ids[:, :4])
    logits = [reader.next_logits(ids[:, :length]) for length in range(5, ids.shape[1] + 1)]
    assert isinstance(reader._decoder, Steps)
    assert reader._decoder._steps
    return logits


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - WITHOUT))
def test_logits_are_those_of_the_model(name: str) -> None:
    model = ready(VARIANTS[name])
    ids = random_ids(3, 16)
    for length, logits in enumerate(read(model, ids), start=5):
        expected = model(ids[:, :length])[:, -1]
        assert (logits - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_steps_are_recorded_once_for_each_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count_graphs(compute: Any) -> Any:
        calls.append(1)
        return compute

    monkeypatch.setattr(reading_module, "decoder", lambda model: graphed(model, count_graphs))
    model = ready(dataclasses.replace(BASE, context_length=150))
    ids = random_ids(2, 150)
    for length, logits in enumerate(read(model, ids), start=5):
        if length in (63, 64, 65, 127, 128, 129, 150):
            expected = model(ids[:, :length])[:, -1]
            assert (logits - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert len(calls) == 3  # 64 keys, 128, 150


@pytest.mark.parametrize(
    "name", sampled(sorted(VARIANTS.keys() - {"weight norm", "spectral norm"}))
)
def test_tokens_are_those_of_the_model_past_its_context_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ready(VARIANTS[name])
    prompts = [[3], random_ids(1, 6)[0].tolist(), random_ids(1, 11)[0].tolist()]
    random_sampling = Sampling(temperature=1.0, top_k=9, seed=3)
    drawn_tokens = [
        list(islice(continue_tokens(model, prompts, settings), 30))
        for settings in (GREEDY, random_sampling)
    ]
    monkeypatch.setattr(reading_module, "decoder", lambda _: None)
    plain = [
        list(islice(continue_tokens(model, prompts, settings), 30))
        for settings in (GREEDY, random_sampling)
    ]
    assert ids_of(drawn_tokens) == ids_of(plain)


def ids_of(texts: list[Any]) -> list[Any]:
    return [[[token and token.token_id for token in row] for row in text] for text in texts]


def test_beam_search_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, beams = ready(BASE), Beams(n_beams=4, n_best=4, max_new_tokens=10)
    searches = beam_search_ids(model, [[3, 4], [5, 6, 7]], beams, end_id=2)
    monkeypatch.setattr(reading_module, "decoder", lambda _: None)
    expected = beam_search_ids(model, [[3, 4], [5, 6, 7]], beams, end_id=2)
    assert [[text.ids for text in texts_found] for texts_found in searches] == [
        [text.ids for text in texts_found] for texts_found in expected
    ]


def test_two_texts_at_once_do_not_share_their_keys() -> None:
    model = ready(BASE)
    texts = [random_ids(2, 12, seed=seed) for seed in (1, 2)]
    readers = [Reader(model), Reader(model)]
    for length in range(4, 13):
        for reader, ids in zip(readers, texts, strict=True):
            logits = reader.next_logits(ids[:, :length])
            expected = model(ids[:, :length])[:, -1]
            assert (logits - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert readers[0]._decoder is readers[1]._decoder


def test_a_texts_steps_serve_the_next_and_go_with_the_model() -> None:
    model = ready(BASE)
    steps = plainly(model)
    assert plainly(model) is steps
    model.stack.blocks[0].feed_forward.up.weight = torch.nn.Parameter(torch.zeros(32, 16))
    assert plainly(model) is not steps
    model_reference = weakref.ref(model)
    del model, steps
    gc.collect()
    assert model_reference() is None


def test_adapters_can_be_turned_off_and_so_are_not_recorded() -> None:
    model = ready(BASE)
    add_lora(model, rank=2, alpha=4.0, dropout=0.0, targets=["*.query"], seed=1)
    assert plainly(model) is None


def test_the_model_itself_is_asked_where_faster_code_is_turned_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    assert plainly(ready(BASE)) is None


def test_whoever_watches_with_hooks_sees_every_token() -> None:
    model, calls = ready(BASE), []
    ids = random_ids(1, 7)
    reader = Reader(model)
    reader.next_logits(ids[:, :4])
    reader.next_logits(ids[:, :5])
    handle = model.stack.blocks[1].feed_forward.register_forward_hook(lambda *_: calls.append(1))
    reader.next_logits(ids[:, :6])
    assert calls == [1]
    handle.remove()
    after = reader.next_logits(ids)
    assert torch.allclose(after, model(ids)[:, -1], atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a GPU")
def test_a_recorded_step_gives_the_tokens_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    model = ready(BASE).cuda()
    drawn_tokens = list(islice(continue_tokens(model, [[3], [4, 5, 6]], GREEDY), 30))
    monkeypatch.setattr(reading_module, "graphed", lambda _: None)
    assert ids_of([drawn_tokens]) == ids_of(
        [list(islice(continue_tokens(model, [[3], [4, 5, 6]], GREEDY), 30))]
    )
