"""Faults that show in short runs and under few looks, and sound runs that come near them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.diagnosis import Reading, diagnose, history_of_watch
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.initialisation import loud_head
from pellucid.diagnosis.causes.optimiser import heavy_decay, large_eps
from pellucid.diagnosis.causes.probabilities import softmax_twice
from pellucid.diagnosis.causes.rates import too_high
from pellucid.diagnosis.causes.updates import put_back
from pellucid.diagnosis.history.adam_state import share_below_eps
from pellucid.diagnosis.history.history import Points
from pellucid.vitals import Mark, watch
from support.courses import GUESSING, but, curve, flat

EPS: list[tuple[dict[str, Any], bool]] = [
    ({"eps": 1e-2, "below_eps": 0.9}, True),
    ({"eps": 1e-2, "below_eps": 0.5}, False),
    ({"eps": 1e-5, "below_eps": 0.9}, False),
    ({"eps": None, "below_eps": 0.9}, False),
]


def view(**changes: Any) -> HistoryView:
    return HistoryView(but(**changes)())


def returns(*steps: int) -> dict[str, Any]:
    # `but` takes two values for the ends of a sign
    readings = [Reading(step, 9.0, "calm") for step in steps]
    return {"update.returned": tuple(readings + readings[:1] * (len(steps) == 2))}


def sawtooth(step: int, rise: float) -> Points:
    return tuple((n, 3.0 - 0.01 * n + (rise if n >= step else 0.0)) for n in range(1, 81))


@pytest.mark.parametrize(
    ("changes", "severity", "times"),
    [
        ({"signs": returns(21, 41, 61)}, None, 3),
        ({"signs": returns(21, 41)}, None, 2),
        ({"signs": returns(21)}, "note", 1),
        ({"signs": returns(41), "losses": sawtooth(41, 0.5)}, None, 1),
        ({"signs": returns(21), "marks": {"restored": Mark(3, 40, 5, [9.0], [5])}}, None, 3),
    ],
    ids=["three", "two", "one", "one, and the loss rises", "the ledger saw more"],
)
def test_weights_that_come_again_are_put_back(
    changes: dict[str, Any], severity: str | None, times: int
) -> None:
    candidate = put_back(view(**changes))
    assert candidate is not None
    assert (candidate.code, candidate.severity) == ("UPD001", severity)
    assert candidate.message.startswith(f"{times} times")
    assert candidate.likely == pytest.approx(0.6 if severity else (times + 1) / (times + 2))


def test_no_weights_that_come_again_are_no_candidate() -> None:
    assert put_back(view()) is None
    assert put_back(view(marks={"restored": Mark(0, 40)})) is None


@pytest.mark.parametrize(("facts", "is_large"), EPS)
def test_an_eps_is_large_if_it_hides_most_gradients(facts: dict[str, Any], is_large: bool) -> None:
    candidate = large_eps(view(facts=facts))
    assert (candidate is not None) == is_large


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.RMSprop])
@pytest.mark.parametrize(("eps", "low", "high"), [(1e-8, 0.0, 0.0), (0.8, 0.02, 0.9), (9.0, 1, 1)])
def test_the_share_below_eps_is_that_of_the_remembered_gradients(
    kind: Any, eps: float, low: float, high: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = nn.Parameter(torch.zeros(64, 64))
    optimiser = kind([weight], lr=1e-3, eps=eps)
    for _ in range(100 if kind is torch.optim.RMSprop else 3):
        weight.grad = torch.randn(64, 64, generator=generator)
        weight.grad[:8] = 0  # tokens that never came
        optimiser.step()
    share = share_below_eps(optimiser)
    assert share is not None
    assert low <= share <= high


def test_without_a_memory_of_squares_nothing_is_below_eps() -> None:
    assert share_below_eps(torch.optim.SGD([nn.Parameter(torch.zeros(4, 4))], lr=1.0)) is None
    assert share_below_eps(torch.optim.Adam([nn.Parameter(torch.zeros(4, 4))])) is None


@pytest.mark.parametrize(
    ("decay", "rate", "updates", "key"),
    [
        (12.0, 1e-3, 200, "OPT010"),
        (6.0, 1e-3, 200, None),
        (12.0, 1e-3, 70, None),
        (0.01, 1.2, 200, None),
    ],
    ids=["forgets", "remembers", "too short", "the rate is why"],
)
def test_decay_that_forgets_is_heavy_while_the_loss_falls(
    decay: float, rate: float, updates: int, key: str | None
) -> None:
    rates = tuple((n, rate) for n in range(1, updates + 1))
    losses, facts = curve(GUESSING, 2.5, updates), {"weight_decay": decay, "decays": "matrices"}
    candidate = heavy_decay(view(facts=facts, rates=rates, losses=losses))
    assert (None if candidate is None else candidate.code) == key
    gains = {"norm.gain_low": (1.0, 0.2)}  # what happens to the gains is surer
    shrunk = view(facts=facts | {"decays": "all"}, rates=rates, losses=losses, signs=gains)
    assert heavy_decay(shrunk) is None


@pytest.mark.parametrize(
    ("end", "updates", "is_high"), [(0.5, 200, True), (0.2, 200, False), (0.5, 25, False)]
)
def test_a_new_model_does_not_end_above_guessing(end: float, updates: int, is_high: bool) -> None:
    history = but(losses=flat(GUESSING + end, updates))()
    short = {id: tuple(r for r in rs if r.step <= updates) for id, rs in history.signs.items()}
    history = replace(history, rates=history.rates[:updates])
    candidate = too_high(HistoryView(replace(history, signs=short)))
    assert (candidate is not None) == is_high
    trained = short | {"weights.trained": (Reading(1, 1.0, "calm"),)}
    assert too_high(HistoryView(replace(history, signs=trained))) is None


@pytest.mark.parametrize(("trained", "is_loud"), [(0.4, True), (0.6, False)])
def test_a_trained_model_may_know_less_than_nothing_of_another_text(
    trained: float, is_loud: bool
) -> None:
    signs = {"weights.trained": (Reading(1, trained, "calm"),), "loss.probe": (GUESSING + 1.5, 2.5)}
    loud = view(signs=signs, losses=curve(GUESSING + 1.5, 2.5))
    assert (loud_head(loud) is not None) == is_loud


@pytest.mark.parametrize(("total", "is_squashed"), [(1.9, False), (0.01, True), (None, True)])
def test_a_gradient_of_logits_as_large_as_that_of_a_mean_has_one_softmax(
    total: float | None, is_squashed: bool
) -> None:
    marks = {} if total is None else {"outputs": Mark(4, 4, 1, [total] * 4, [1, 2, 3, 4])}
    norms = tuple((n, 0.05) for n in range(1, 201))
    faint = view(losses=curve(GUESSING, GUESSING - 0.02), grad_norms=norms, marks=marks)
    assert (softmax_twice(faint) is not None) == is_squashed


class Functional(nn.Module):
    """A model that calls dropout itself, by rates that it keeps."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.attention_dropout = rate
        self.layer, self.drop = nn.Linear(8, 8), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(nn.functional.dropout(self.layer(x), self.attention_dropout))


@pytest.mark.parametrize(("rate", "is_named"), [(0.8, True), (0.2, False)])
def test_dropout_that_is_called_as_a_function_has_its_rate(rate: float, is_named: bool) -> None:
    model = Functional(rate)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watch(model, optimizer) as w:
        for _ in range(12):
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            w.log({"loss": loss})
    history = history_of_watch(w)
    assert history.facts.dropout == max(rate, 0.1)
    assert len(history.losses) > 10  # a loss that is logged alone is the training's
    assert any(finding.code == "ARC010" for finding in diagnose(history)) == is_named
