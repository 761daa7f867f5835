"""The core behind the page: what it answers is what the model computes, and small."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pellucid
from pellucid.errors import PellucidError
from pellucid.explain import trace
from pellucid.explain.chapter_types import Chapter, Matrix, Place
from pellucid.web import Session, parse_request
from pellucid.web.cancellation import Stopped, stop
from pellucid.web.json_payload import LARGEST_ANSWER, LARGEST_RESPONSE, chapter_payload
from support.page import SENTENCE, session_of


def ask(session: Session, kind: str, reading: Any, **more: Any) -> Any:
    """The answer as the page gets it, through JSON and back."""
    request = json.loads(json.dumps({"kind": kind, "reading": reading, **more}))
    return json.loads(session.answer(parse_request(request)))


def floats(text: str) -> np.ndarray[Any, Any]:
    import base64

    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def test_the_overview_has_the_tokens_and_every_head(session: Session, reading: Any) -> None:
    overview = ask(session, "overview", reading)
    assert "".join(overview["pieces"][1:]) == SENTENCE
    assert [layer["heads"] for layer in overview["stacks"][0]["layers"]] == [2, 2]
    read = trace(pellucid.load(session.shelf.load("run0").folder), SENTENCE)
    norms = [float(read[f"L{n}.residual"].norm(dim=-1).mean()) for n in range(3)]
    assert overview["stacks"][0]["norms"] == pytest.approx(norms, rel=1e-5)
    assert overview["surprisals"][0] is None
    bits = [float(nats) / math.log(2) for nats in read["surprisal"]]
    assert overview["surprisals"][1:] == pytest.approx(bits)


def test_thumbnails_are_the_weights_in_256_shades(session: Session, reading: Any) -> None:
    import base64

    overview = ask(session, "overview", reading)
    maps = overview["stacks"][0]["layers"][1]["thumbnails"]
    read = trace(session.shelf.load("run0"), SENTENCE)
    shades = np.frombuffer(base64.b64decode(maps["data"]), dtype=np.uint8).reshape(maps["shape"])
    weights = torch.stack([read["L1.H0.weights"], read["L1.H1.weights"]]).numpy()
    assert not maps["pooled"]
    assert np.abs(shades / 255 - weights).max() <= 0.5 / 255 + 1e-6


def test_the_prediction_is_the_models_softmax(session: Session, reading: Any) -> None:
    prediction = ask(session, "prediction", reading, place={"token": 3})
    read = trace(session.shelf.load("run0"), SENTENCE)
    logits = read["logits"][3].double()
    exact = {token: logit for token, _, logit in prediction["likely"]}
    assert len(exact) == 256
    is_near = [logits[token] == pytest.approx(logit, abs=1e-5) for token, logit in exact.items()]
    assert all(is_near)
    tail_means, counts = floats(prediction["tail"]["means"]), floats(prediction["tail"]["counts"])
    assert counts.sum() + 256 == prediction["vocabulary"] == len(logits)
    total = sum(math.exp(logit_value) for logit_value in exact.values()) + float(
        (np.exp(tail_means) * counts).sum()
    )
    assert total == pytest.approx(float(logits.exp().sum()), rel=1e-5)
    p = logits.softmax(-1)
    assert prediction["target"]["p"] == pytest.approx(float(p[read.ids[4]]))
    assert prediction["entropy"] == pytest.approx(float(-(p * p.log()).sum()))
    last = prediction["lens"][-1]
    assert last["id"] == int(p.argmax())
    assert last["p"] == pytest.approx(float(p.max()), rel=1e-5)


def test_a_head_that_is_taken_away_changes_the_prediction_as_in_the_model(
    session: Session, reading: Any
) -> None:
    scales = [{"stack": "decoder", "layer": 1, "head": 0, "by": 0}]
    prediction = ask(session, "prediction", reading, place={"token": -1}, scales=scales)
    read = trace(session.shelf.load("run0"), SENTENCE)
    before = read["logits"][-1].double().log_softmax(-1)
    after = read.with_heads({(1, 0): 0.0})["logits"][-1].double().log_softmax(-1)
    kl = float((before.exp() * (before - after)).sum())
    assert kl > 0
    assert prediction["changed"]["kl"] == pytest.approx(kl, rel=1e-4)
    for token, _, was, now in prediction["changed"]["rows"]:
        assert was == pytest.approx(math.exp(before[token]), rel=1e-5)
        assert now == pytest.approx(math.exp(after[token]), rel=1e-5)


def test_every_chapter_is_told_at_every_layer_and_is_small(session: Session, reading: Any) -> None:
    overview = ask(session, "overview", reading)
    assert len(overview["contents"]) >= 3
    for heading in overview["contents"]:
        for layer in (0, 1):
            place = {"token": 4, "other": 2, "layer": layer, "head": 1}
            question = {
                "kind": "chapter",
                "reading": reading,
                "chapter": heading["id"],
                "place": place,
            }
            answer = session.answer(parse_request(question))
            assert len(answer) <= LARGEST_ANSWER, heading["id"]
            chapter = json.loads(answer)
            title, part = heading["title"], heading["part"]
            assert (chapter["id"], chapter["title"], chapter["part"]) == (
                heading["id"],
                title,
                part,
            )


def test_a_large_matrix_is_pooled_and_says_so() -> None:
    names = tuple(str(n) for n in range(600))
    values = torch.randn(600, 600)
    rows = tuple(tuple(row) for row in values.tolist())
    picture = Matrix(
        title="m", rows=names, columns=names, values=rows, scale="diverging", address="x"
    )
    chapter = Chapter(
        id="c", number=1, part="forward", title="C", sentence="s", pictures=(picture,)
    )
    sent_picture = chapter_payload(chapter)["pictures"][0]
    assert "largest by size of 5 x 5 of 600 x 600" in sent_picture["pooled"]
    assert sent_picture["address"] == ""  # no cell is one number of the model
    pooled_cells = floats(sent_picture["data"]).reshape(120, 120)
    tile = values[:5, :5].flatten()
    assert pooled_cells[0, 0] == pytest.approx(float(tile[tile.abs().argmax()]))
    assert len(json.dumps(sent_picture)) < LARGEST_ANSWER
    small = Matrix(
        title="m", rows=("a",), columns=("b",), values=((None,),), scale="diverging", address="x"
    )
    assert math.isnan(floats(chapter_payload(_holding(small))["pictures"][0]["data"])[0])


def _holding(picture: Matrix) -> Chapter:
    return Chapter(id="c", number=1, part="forward", title="C", sentence="s", pictures=(picture,))


def test_an_answer_that_would_be_too_large_is_refused(
    session: Session, reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "get", lambda ask: {"x": "y" * LARGEST_RESPONSE})
    with pytest.raises(PellucidError, match=r"would have 2\.0 MB, and at most 2 MB are sent"):
        session.answer(parse_request({"kind": "overview", "reading": reading}))


def test_sentences_are_kept_up_to_a_number(trained: Path, reading: Any) -> None:
    session = session_of(trained)
    for n in range(12):
        ask(session, "overview", {**reading, "sentence": f"the {n}"})
    assert len(session._read) == 8  # pyright: ignore[reportPrivateUsage]


def test_work_that_nobody_waits_for_stops(trained: Path, reading: Any) -> None:
    session = session_of(trained)
    event = threading.Event()
    event.set()
    token = stop.set(event)
    try:
        with pytest.raises(Stopped):
            session.get(parse_request({"kind": "overview", "reading": reading}))
    finally:
        stop.reset(token)
    model = session.shelf.load("run0").model
    hooks = [part._forward_pre_hooks for part in model.modules()]  # pyright: ignore[reportPrivateUsage]
    assert not any(hooks)


def test_work_stops_between_two_layers(trained: Path, reading: Any) -> None:
    session = session_of(trained)
    model = session.shelf.load("run0").model
    event, calls = threading.Event(), []
    assert model.decoder is not None

    def count_call(*_: Any) -> None:
        calls.append(1)
        event.set()

    for block in model.decoder.blocks:
        block.register_forward_hook(count_call)
    token = stop.set(event)
    try:
        with pytest.raises(Stopped):
            session.get(parse_request({"kind": "overview", "reading": reading}))
    finally:
        stop.reset(token)
    assert len(calls) == 1  # of two


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "has to be a JSON object"),
        ({"kind": "secrets"}, "is no kind of request"),
        ({"kind": "overview"}, "did not name a run"),
        ({"kind": "overview", "reading": {"run": "run0", "sentence": 7}}, "has to be text"),
        ({"kind": "overview", "reading": {"run": "run0", "sentence": "  "}}, "sentence is empty"),
        ({"kind": "overview", "reading": {"run": "run0", "sentence": "x" * 99}}, "shorten it"),
        ({"kind": "overview", "reading": {"run": "run0", "sentence": "x" * 30000}}, "shorten it"),
        (
            {"kind": "overview", "reading": {"run": "run0", "sentence": "\ud800"}},
            "half a character",
        ),
        ({"kind": "overview", "reading": {"run": "/etc", "sentence": "x"}}, "no run '/etc' here"),
        (
            {"kind": "overview", "reading": {"run": "run0", "checkpoint": "..", "sentence": "x"}},
            "checkpoint '..' is not there",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(session: Session, said: Any, why: str) -> None:
    with pytest.raises(PellucidError, match=why):
        session.get(parse_request(said))


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ({"layer": 9}, "no layer 9 of the decoder: there are 2 layers"),
        ({"head": 7}, "no head 7 of layer 0: there are 2 heads"),
        ({"token": 99}, "no token 99: there are 12 tokens"),
        ({"stack": "encoder"}, "this model has no encoder"),
        ({"stack": "x"}, "called decoder or encoder"),
        ({"path": 1}, "a place has"),
        ({"layer": 1.5}, "whole number"),
    ],
)
def test_a_place_that_is_not_there_is_refused(
    session: Session, reading: Any, place: Any, why: str
) -> None:
    question = {"kind": "chapter", "reading": reading, "chapter": "tokens", "place": place}
    with pytest.raises(PellucidError, match=why):
        session.get(parse_request(question))


@pytest.mark.parametrize("by", [-1, 99, "0", True, None])
def test_a_head_counts_by_a_number_within_bounds(session: Session, reading: Any, by: Any) -> None:
    scales = [{"layer": 0, "head": 0, "by": by}]
    with pytest.raises(PellucidError, match="a head counts"):
        parse_request({"kind": "overview", "reading": reading, "scales": scales})


def test_a_chapter_that_this_model_has_not_is_refused(session: Session, reading: Any) -> None:
    with pytest.raises(PellucidError, match="no chapter 'x'; chapters: why, tokens"):
        ask(session, "chapter", reading, chapter="x")


def test_checkpoints_are_listed_and_opened(session: Session, reading: Any) -> None:
    run_entry = json.loads(session.answer(parse_request({"kind": "runs"})))["runs"][0]
    assert run_entry["checkpoints"] == ["step-8", "step-12"]
    first = ask(session, "prediction", {**reading, "checkpoint": "step-8"}, place={"token": 2})
    last = ask(session, "prediction", reading, place={"token": 2})
    assert first["likely"] != last["likely"]


def test_a_newer_checkpoint_of_a_run_that_trains_is_read(trained: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    (folder / "checkpoints" / "latest").write_text("step-8\n")
    session = session_of(folder)
    assert session.shelf.load("run0").checkpoint.name == "step-8"
    (folder / "checkpoints" / "latest").write_text("step-12\n")
    assert session.shelf.load("run0").checkpoint.name == "step-12"


def test_a_run_without_a_checkpoint_yet_says_so(trained: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(trained, folder, ignore=shutil.ignore_patterns("step-*", "latest", "best"))
    with pytest.raises(PellucidError, match="has no checkpoint"):
        session_of(folder).shelf.load("run0")


def test_the_way_back_is_told_by_layer_and_weight(session: Session, reading: Any) -> None:
    overview = ask(session, "overview", reading)
    assert overview["backward"]["there"]
    assert not overview["backward"]["large"]
    gradients = ask(session, "backward", reading)
    read = trace(session.shelf.load("run0"), SENTENCE)
    lengths = [float(read[f"L{n}.residual.grad"].norm()) for n in range(3)]
    assert gradients["stacks"]["decoder"] == pytest.approx(lengths, rel=1e-5)
    assert ["token_embedding.weight", 258, 16] in gradients["weights"]
    place = {"layer": 1, "weight": "attention.key.weight", "row": 2, "column": 3}
    chapter_facts = ask(session, "chapter", reading, chapter="update", place=place)
    assert "decoder.blocks.1.attention.key.weight[2, 3]" in chapter_facts["sentence"]
    with pytest.raises(PellucidError, match="too long a name"):
        ask(session, "chapter", reading, chapter="update", place={"weight": "x" * 400})


def test_how_far_the_way_back_is_can_be_asked_meanwhile_and_it_stops(trained: Path) -> None:
    session = session_of(trained)
    reading = {"run": "run0", "checkpoint": "", "sentence": "the ox sat"}
    ask(session, "overview", reading)
    event, progress = threading.Event(), []
    run = session.shelf.load("run0")

    def slow(_: Any, arguments: Any) -> None:
        progress.append(ask(session, "progress", reading))
        event.set()  # the browser has gone: the next layer is not entered

    handle = run.model.decoder.blocks[1].register_forward_pre_hook(slow)
    stop.set(event)
    try:
        with pytest.raises(Stopped):
            ask(session, "backward", reading)
    finally:
        stop.set(None)
        handle.remove()
    assert progress == [{"done": 1, "of": 4}]
    assert ask(session, "progress", reading) == {"done": 0, "of": 0}
    assert not ask(session, "overview", reading)["backward"]["done"]
    ask(session, "backward", reading)
    assert ask(session, "overview", reading)["backward"]["done"]


def test_a_place_defaults_to_the_last_token(session: Session, reading: Any) -> None:
    assert parse_request({"kind": "overview", "reading": reading}).place == Place()


def test_two_checkpoints_are_compared_token_by_token(session: Session, reading: Any) -> None:
    versus = {**reading, "checkpoint": "step-8"}
    prediction = ask(session, "prediction", reading, place={"token": 4}, versus=versus)
    now = trace(session.shelf.load("run0"), SENTENCE).logits_at(4).double().log_softmax(-1)
    was = trace(session.shelf.load("run0", "step-8"), SENTENCE).logits_at(4).double()
    before = was.log_softmax(-1)
    kl = float((before.exp() * (before - now)).sum())
    assert prediction["changed"]["kl"] == pytest.approx(kl, rel=1e-4)
    shorter = {**versus, "sentence": "a"}
    prediction = ask(session, "prediction", reading, place={"token": 4}, versus=shorter)
    assert prediction["changed"]["why"].startswith("the other sentence has no token")


def test_tokens_of_a_chat_are_read_as_they_are_and_what_one_looks_at_is_the_mean_of_all_heads(
    session: Session,
) -> None:
    run = session.shelf.load("run0")
    ids = run.require_tokenizer().encode_prompt("the fox")
    reading = {"run": "run0", "checkpoint": "", "sentence": "", "ids": ids}
    assert ask(session, "overview", reading)["ids"] == ids
    looked_at_facts = ask(session, "looked", reading, place={"token": 4})
    read = trace(run, ids)
    heads = [read[f"L{layer}.H{head}.weights"][4] for layer in (0, 1) for head in (0, 1)]
    mean = torch.stack(heads).float().mean(0)
    assert looked_at_facts["heads"] == 4
    assert {place: share for place, _, share in looked_at_facts["rows"]} == pytest.approx(
        {n: float(share) for n, share in enumerate(mean) if share > 0}
    )
    for wrong in ([-1], ["x"], [True], "12", [2**31], [0] * 20_001):
        with pytest.raises(PellucidError, match="tokens have to be"):
            ask(session, "overview", reading | {"ids": wrong})
    with pytest.raises(PellucidError, match="there is no token 99"):
        ask(session, "looked", reading, place={"token": 99})
