"""Questions of no page: each is answered or refused in words, and nothing in pellucid fails."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.hostile import bounded_memory, damaged
from support.page import SENTENCE

READING = {"run": "run0", "checkpoint": "", "sentence": SENTENCE}
SCALE = {"stack": "decoder", "layer": 0, "head": 0, "by": 0.5, "cross": False}
PLACE = {"token": 1, "layer": 0, "head": 0, "stack": "decoder", "cross": False}
#: A good question of each kind.
QUESTIONS: list[Any] = [
    {"kind": "runs"},
    {"kind": "progress", "reading": READING},
    {"kind": "overview", "reading": READING, "scales": [SCALE]},
    {"kind": "thumbnails", "reading": READING, "place": PLACE},
    {"kind": "prediction", "reading": READING, "versus": READING, "place": PLACE},
    {"kind": "backward", "reading": {**READING, "checkpoint": "step-8"}},
    *(
        {"kind": "chapter", "reading": READING, "chapter": name, "place": PLACE}
        for name in ("tokens", "scores", "update", "gradients")
    ),
]
#: Values that a browser never sends in the place of others.
STRANGE: list[Any] = [
    None, True, -1, 10**9, 10**10, 10**30, 1e308, -0.5, "", "mean", "x" * 30_000, "../..", "\ud800",
    "\0", [], {}, [[]], [SCALE] * 65, {"": {}}, float("nan"), float("inf"), "step-12", "encoder",
]  # fmt: skip


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a nested value."""
    places = [path]
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            places += places_in(part, (*path, key))
    return places


def strange(question: Any, chance: random.Random) -> bytes:
    """A question with a strange value in one or two of its places, or damaged as text."""
    roots = [deepcopy(question)]
    if chance.random() < 0.3:
        return damaged(json.dumps(question).encode(), chance)
    for _ in range(chance.randint(1, 2)):
        *outer, last = chance.choice([(0, *path) for path in places_in(roots[0])])
        table: Any = roots
        for key in outer:
            table = table[key]
        table[last] = deepcopy(chance.choice(STRANGE))
    return json.dumps(roots[0]).encode()


def attack(client: TestClient, seeds: range) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        content = strange(chance.choice(QUESTIONS), chance)
        response = client.post("/ask", content=content)
        assert response.status_code in (200, 400), (seed, content[:300], response.text)
        if response.status_code == 400:
            assert response.json()["error"]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["kind"])
def test_every_good_question_is_answered(client: TestClient, question: Any) -> None:
    response = client.post("/ask", json=question)
    assert response.status_code == 200
    assert "error" not in response.json()


def test_a_strange_question_is_answered_or_refused_in_words(client: TestClient) -> None:
    with bounded_memory():
        attack(client, range(250))
        assert client.post("/ask", json=QUESTIONS[0]).json()["runs"]


@pytest.mark.nightly
def test_a_strange_question_is_answered_or_refused_in_words_at_length(client: TestClient) -> None:
    with bounded_memory():
        attack(client, range(250, 10_000))
