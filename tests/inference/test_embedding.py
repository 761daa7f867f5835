"""The laws of embeddings and of filled masks, against the model's own states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import ConfigError, RunError
from pellucid.free_memory import Free
from pellucid.runs import Pool, Run, embed, fill, load, neighbours, ranked
from pellucid.tokenizers import Framing
from support.kinds import KINDS, write_bert_tokenizer, write_run

TEXTS = ["the cat sat", "a dog", "the capital of france is paris .", "home", "runs on the mat"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    place = tmp_path_factory.mktemp("kinds")
    tokenizer = write_bert_tokenizer(place / "tokenizer")
    return {kind: load(write_run(place / kind, kind, tokenizer)) for kind in KINDS}


def states(run: Run, text: str) -> torch.Tensor:
    """The states that are pooled, of a text that is read alone."""
    framed = torch.tensor([Framing(run.tokenizer).ids_of(text)])
    with torch.no_grad():
        if run.model.encoder is None:
            return run.model.states(torch.tensor([run.tokenizer.encode_prompt(text)]))[0]
        if run.model.decoder is None:
            return run.model.states(framed)[0]
        return run.model.encode(framed).states[0]


ALLOWED: list[tuple[str, Pool]] = [
    ("encoder", "mean"),
    ("encoder", "first"),
    ("encoder", "last"),
    ("encoder without head", "mean"),
    ("encoder-decoder", "mean"),
    ("encoder-decoder", "first"),
    ("decoder", "mean"),
    ("decoder", "last"),
]


@pytest.mark.parametrize(("kind", "pool"), ALLOWED)
def test_padding_and_neighbours_change_nothing(kind: str, pool: Pool, runs: dict[str, Run]) -> None:
    run = runs[kind]
    vectors = embed(run, TEXTS, pool=pool, normalise=False)
    for text, vector in zip(TEXTS, vectors, strict=True):
        text_states = states(run, text)
        expected = {
            "mean": text_states.mean(dim=0),
            "first": text_states[0],
            "last": text_states[-1],
        }[pool]
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 5, 32])
def test_batches_of_any_size_give_the_same_in_the_order_of_the_texts(
    batch_size: int, runs: dict[str, Run]
) -> None:
    one_batch = embed(runs["encoder"], TEXTS)
    parts = embed(runs["encoder"], TEXTS, batch_size=batch_size)
    np.testing.assert_allclose(parts, one_batch, atol=1e-5)


def test_the_pooler_is_tanh_of_a_dense_layer_over_the_first_state(runs: dict[str, Run]) -> None:
    run = runs["encoder"]
    assert run.model.pooler is not None
    expected = torch.tanh(run.model.pooler(states(run, TEXTS[0])[0])).detach()
    pooled = embed(run, TEXTS[0], pool="pooler", normalise=False)[0]
    np.testing.assert_allclose(pooled, expected, rtol=1e-4, atol=1e-5)


def test_no_texts_have_no_vectors(runs: dict[str, Run]) -> None:
    assert embed(runs["encoder"], []).shape == (0, 16)
    with pytest.raises(ConfigError, match="batch_size must be at least 1"):
        embed(runs["encoder"], TEXTS, batch_size=0)


@settings(max_examples=60)
@given(seed=st.integers(0, 1000), n=st.integers(2, 9), scale=st.floats(0.01, 100))
def test_neighbours_are_the_nearest_by_angle_whatever_the_length(
    seed: int, n: int, scale: float
) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(n, 5)).astype(np.float32)
    lengths = (scale * random.uniform(0.5, 2, size=(n, 1))).astype(np.float32)
    nearest_texts = neighbours(vectors * lengths)
    for neighbour in nearest_texts:
        cosines = [
            np.dot(vectors[neighbour.text], other)
            / np.linalg.norm(vectors[neighbour.text])
            / np.linalg.norm(other)
            for other in vectors
        ]
        cosines[neighbour.text] = -2.0
        assert neighbour.nearest == int(np.argmax(cosines))
        assert neighbour.cosine == pytest.approx(max(cosines), abs=1e-5)
    in_order = ranked(vectors, vectors[:1])
    assert in_order[0].text == 0
    assert [neighbour.cosine for neighbour in in_order] == sorted(
        (o.cosine for o in in_order), reverse=True
    )


def test_each_mask_is_filled_from_the_models_own_distribution(runs: dict[str, Run]) -> None:
    run, text = runs["encoder"], "the [MASK] sat on [MASK] mat"
    filling = fill(run, text, top=1000)
    ids = torch.tensor([Framing(run.tokenizer, masks=True).ids_of(text)])
    with torch.no_grad():
        shares = torch.softmax(run.model(ids)[0].double(), dim=-1)
    assert len(filling.masks) == 2
    for mask in filling.masks:
        assert len(mask.likeliest) == run.tokenizer.vocab_size
        assert sum(token.probability for token in mask.likeliest) == pytest.approx(1)
        for token in mask.likeliest:
            own_share = float(shares[mask.position, token.token_id])
            assert token.probability == pytest.approx(own_share, rel=1e-4)


def test_the_text_is_filled_with_the_likeliest_at_each_mask(runs: dict[str, Run]) -> None:
    run = runs["encoder"]
    filling = fill(run, "the [MASK] sat")
    best = filling.masks[0].likeliest[0]
    ids = [*run.tokenizer.encode("the"), best.token_id, *run.tokenizer.encode("sat")]
    assert filling.filled == run.tokenizer.decode(ids)


def test_texts_compared_part_by_part_have_the_same_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    all_at_once = neighbours(vectors)
    monkeypatch.setattr("pellucid.inference.embedding._COMPARED_AT_ONCE", 3)
    in_parts = neighbours(vectors)
    assert [neighbour.nearest for neighbour in in_parts] == [
        neighbour.nearest for neighbour in all_at_once
    ]


def test_a_text_that_does_not_fit_is_not_filled_unless_forced(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pellucid.saved_runs.memory_check.free_memory", lambda: Free(1, "this machine")
    )
    with pytest.raises(RunError, match=r"reading this needs .* the length of the text"):
        fill(runs["encoder"], "the [MASK] sat")
    assert fill(runs["encoder"], "the [MASK] sat", force=True).masks
