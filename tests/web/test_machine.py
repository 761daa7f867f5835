"""The machine: every part that a model has, in the order of its flow, with the trace's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pellucid.explain import Trace
from pellucid.web import Session
from pellucid.web.machine import machine
from pellucid.web.requests import PageRequest, Reading
from pellucid.web.sentence_view import SentenceView
from support.models import BASE, PAIRS, VARIANTS, build
from support.nightly import sampled
from support.traced import MODELS, traced


def view(model: Any) -> SentenceView:
    return SentenceView(traced(build(model)))


def walk(parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield part
        yield from walk(part["parts"])


def kinds(parts: list[dict[str, Any]]) -> list[str]:
    return [part["kind"] for part in parts]


def number_of(trace: Trace, address: str, token: int) -> float:
    rows = trace[address].double()
    if address.endswith((".scores", ".weights", "logits")):
        return float(rows[token][rows[token].isfinite()].max())
    return float(rows.norm() if rows.ndim < 2 else rows[token].norm())


@pytest.mark.parametrize("name", sampled(MODELS, every=12))
def test_every_number_is_the_traces(name: str) -> None:
    sentence = view(MODELS[name])
    addresses, n_weights = sentence.trace.addresses(), 0
    for side in sentence.trace.sides:
        parts = machine(sentence, side, 3)["parts"]
        n_weights += sum(part["weights"] for part in parts)
        for part in walk(parts):
            if part.get("value") is not None and part["id"] in addresses and part["id"] != "loss":
                traced_number = number_of(sentence.trace, part["id"], 3)
                assert part["value"] == pytest.approx(traced_number, rel=1e-3, abs=1e-5), part["id"]
        layers = [part for part in parts if part["kind"] == "layer"]
        assert len(layers) == sentence.trace.n_layers(side)
        has_sums = name != "no residual"
        assert all(("adds" in kinds(layer["parts"])) == has_sums for layer in layers)
    assert n_weights > 0


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("rotary", ["norm", "attention", "adds", "norm", "feed_forward", "adds"]),
        ("post-norm", ["attention", "adds", "norm", "feed_forward", "adds", "norm"]),
        ("no residual", ["norm", "attention", "norm", "feed_forward"]),
        ("output norm", ["attention", "norm", "adds", "feed_forward", "norm", "adds"]),
        (
            "sandwich",
            ["norm", "attention", "norm", "adds", "norm", "feed_forward", "norm", "adds"],
        ),
    ],
)
def test_norms_stand_where_they_act(name: str, order: list[str]) -> None:
    parts = machine(view(VARIANTS[name]), "decoder", 3)["parts"]
    (layer,) = (part for part in parts if part["id"] == "L1")
    assert kinds(layer["parts"]) == order


def test_a_pair_has_both_stacks_and_attention_across() -> None:
    sentence = view(PAIRS["original"])
    (layer,) = (p for p in machine(sentence, "decoder", 3)["parts"] if p["id"] == "L0")
    (cross,) = (part for part in layer["parts"] if part["kind"] == "cross_attention")
    assert cross["parts"][1]["id"] == "L0.H1.cross"
    encoder = machine(sentence, "encoder", 8)["parts"]
    assert "E0" in [part["id"] for part in encoder]
    assert "logits" not in kinds(encoder)


def test_experts_and_parallel_blocks_are_shown_as_such() -> None:
    parts = machine(view(VARIANTS["experts"]), "decoder", 3)["parts"]
    (feed,) = (p for p in walk(parts) if p["id"] == "L0.feed_forward")
    assert set(kinds(feed["parts"])) == {"expert"}
    (layer,) = (
        p for p in machine(view(VARIANTS["parallel"]), "decoder", 3)["parts"] if p["id"] == "L0"
    )
    assert layer["parallel"]
    (layer,) = (p for p in machine(view(BASE), "decoder", 3)["parts"] if p["id"] == "L0")
    assert not layer["parallel"]
    assert [step for step, *_ in layer["parts"][1]["parts"][0]["steps"]] == [
        "q", "k", "v", "scores", "weights", "out",
    ]  # fmt: skip


def test_attention_says_from_which_tokens_it_takes_most(session: Session) -> None:
    reading = Reading("run0", "", "the fox sat")
    answer = session.get(PageRequest(kind="machine", reading=reading))
    (layer,) = (part for part in answer["parts"] if part["id"] == "L1")
    (attention,) = (part for part in layer["parts"] if part["kind"] == "attention")
    shares = [share for _, share in attention["reads"]]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-5
