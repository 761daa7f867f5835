"""The page of every kind of model, and of large ones: all is sent, and little."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from pellucid.errors import PellucidError
from pellucid.explain import Trace, trace
from pellucid.explain.chapter_types import Matrix, Place
from pellucid.explain.inspection import list_chapters
from pellucid.model import assemble
from pellucid.web.assets import files
from pellucid.web.json_payload import LARGEST_ANSWER, chapter_payload
from pellucid.web.page_state import backward, head_thumbnails, overview, prediction
from pellucid.web.sentence_view import Attention, SentenceView
from support.models import BASE, random_ids
from support.traced import MODELS, traced


def sent(said: Any) -> bytes:
    """As it goes over the wire; a number that JSON has not is an error."""
    return json.dumps(said, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_has_an_overview_and_a_prediction(name: str) -> None:
    read = traced(assemble(MODELS[name], seed=0).eval())
    view = SentenceView(read)
    overview_facts = overview(view)
    sent(overview_facts)
    stacks = [(stack["name"], stack["cross"]) for stack in overview_facts["stacks"]]
    crossing = [("decoder", True)] if len(read.sides) == 2 else []
    assert stacks == [*((side, False) for side in read.sides), *crossing]
    assert len(overview_facts["pieces"]) == len(read.ids)
    prediction_facts = prediction(view, -1, None)
    sent(prediction_facts)
    if not read.model.has_head:
        assert prediction_facts["likely"] == []
        return
    p = read["logits"][-1].double().softmax(-1)
    assert prediction_facts["likely"][0][0] == int(p.argmax())
    assert prediction_facts["lens"][-1]["p"] == pytest.approx(float(p.max()), rel=1e-4)


@pytest.mark.parametrize("name", ["pair original", "encoder bert", "preset gpt2"])
def test_chapters_of_other_kinds_are_sent_or_refused_in_words(name: str) -> None:
    read = traced(assemble(MODELS[name], seed=0).eval())
    view = SentenceView(read)
    sides = [(side, False) for side in read.sides]
    sides += [("decoder", True)] if len(sides) == 2 else []
    refused = 0
    for (side, cross), chapter in itertools.product(sides, list_chapters()):
        try:
            sent(chapter_payload(view.inspect(Place(stack=side, cross=cross), chapter).chapter()))
        except PellucidError:
            refused += 1
    assert refused <= len(sides)
    if view.has_loss:
        gradients = backward(view)
        sent(gradients)
        for side in read.sides:
            lengths = [float(grad.norm()) for grad in read.backward().stream(side)]
            assert gradients["stacks"][side] == pytest.approx(lengths)


def large(n_layers: int, n_heads: int, time: int) -> Trace:
    """Many heads, a long text and a vocabulary of 20,000; narrow, so that it is quick."""
    assert BASE.decoder is not None
    attention = replace(BASE.decoder.attention, n_heads=n_heads, n_kv_heads=n_heads, d_head=4)
    decoder = replace(BASE.decoder, n_layers=n_layers, attention=attention)
    model = replace(BASE, vocab_size=20_000, context_length=time, decoder=decoder)
    return trace(assemble(model, seed=0).eval(), ids=random_ids(1, time))


@pytest.mark.parametrize("shape", [(12, 12, 64), (12, 12, 128), (24, 16, 300)])
def test_a_large_model_stays_within_what_is_sent(shape: tuple[int, int, int]) -> None:
    read = large(*shape)
    view = SentenceView(read)
    overview_facts = overview(view)
    answers = [sent(overview_facts), sent(prediction(view, -1, None))]
    assert len(answers[0]) <= LARGEST_ANSWER
    assert len(answers[1]) <= LARGEST_ANSWER
    layers = overview_facts["stacks"][0]["layers"]
    for number, layer in enumerate(layers):
        if layer["thumbnails"] is None:
            assert len(sent(head_thumbnails(view, Attention("decoder"), number))) <= LARGEST_ANSWER
            break
    for name in list_chapters() if shape[2] < 100 else ("scores", "residual", "probabilities"):
        chapter_answer = sent(
            chapter_payload(view.inspect(Place(layer=shape[0] - 1), name).chapter())
        )
        assert len(chapter_answer) <= LARGEST_ANSWER, name
    sizes = {
        name: len(gzip.compress(file.content, 5))
        for name, file in files().items()
        if not name.startswith("learn/")
    }
    languages = [size for name, size in sizes.items() if name.startswith("texts.")]
    n_bytes = sum(sizes.values()) - sum(languages)
    # the page before its first answer, in English, and in the language with the longest texts
    assert n_bytes <= 90_000
    assert n_bytes - sizes["words.en.json"] + max(languages) <= 95_000
    assert (
        n_bytes + sum(len(gzip.compress(answer, 5)) for answer in answers) + LARGEST_ANSWER
        <= 300_000
    )


def test_a_long_map_is_shown_as_a_whole_and_in_part() -> None:
    long = large(2, 2, 300)
    weights = long["L1.H1.weights"]
    for token, first in ((299, 252), (100, 84), (3, 0)):
        pooled, part, *_ = (
            SentenceView(long)
            .inspect(Place(layer=1, head=1, token=token, other=token), "softmax")
            .chapter()
            .pictures
        )
        assert isinstance(pooled, Matrix)
        assert isinstance(part, Matrix)
        assert (part.first_row, part.first_column, len(part.rows)) == (first, first, 48)
        assert pooled.patch == 5
        assert len(pooled.rows) == len(pooled.columns) == 60
        assert pooled.values[10][4] == float(weights[50:55, 20:25].max())
        assert pooled.values[4][10] is None
    scores = long["L1.H1.scores"]
    pooled = SentenceView(long).inspect(Place(layer=1, head=1), "scores").chapter().pictures[0]
    assert isinstance(pooled, Matrix)
    # a key that the mask hides has a score, and it is no part of the map
    visible = torch.ones(5, 5).tril().bool()
    assert pooled.values[7][7] == float(scores[35:40, 35:40][visible].max())
    short = SentenceView(large(2, 2, 40)).inspect(Place(), "softmax").chapter().pictures
    assert sum(isinstance(picture, Matrix) for picture in short) == 1
