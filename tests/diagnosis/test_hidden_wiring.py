"""Loops whose parts are not wired as they seem to be, and sound loops that look like them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import Finding, Reading, diagnose, history_of_watch
from pellucid.diagnosis.expectations import Expectations
from pellucid.vitals import Watch, watch
from support.courses import GUESSING, healthy

TOKENS, WIDTH = 40, 16
UPDATES = 12


def rows_of(seed: int, n: int = 12, time: int = 9) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, TOKENS, (n, time), generator=generator)


def findings_of(watched: Watch) -> list[Finding]:
    """What is found, without notes: the runs are too short to learn anything."""
    return [f for f in diagnose(history_of_watch(watched)) if f.severity != "note"]


# ---- modules that are not registered


class Stack(nn.Module):
    """A model of token classes whose layers are kept by `keep`."""

    def __init__(self, keep: Callable[[list[nn.Module]], object]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.layers = keep([nn.Linear(WIDTH, WIDTH) for _ in range(3)])
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, ids: Tensor, prompt: Tensor | None = None) -> Tensor:
        h = self.embedding(ids) if prompt is None else self.embedding(ids) + prompt
        layers = self.layers.values() if isinstance(self.layers, dict) else self.layers
        for layer in layers:  # type: ignore[attr-defined]
            h = h + F.gelu(layer(h))
        return self.head(h)


def train(model: Stack, *extra: Tensor, prompt: nn.Parameter | None = None) -> Watch:
    optimiser = torch.optim.AdamW([*model.parameters(), *extra], lr=1e-3)
    with watch(model, optimiser, max_overhead=None) as watched:
        for step in range(UPDATES):
            ids = rows_of(step)
            loss = F.cross_entropy(model(ids[:, :-1], prompt).transpose(1, 2), ids[:, 1:])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            watched.step(loss)
    return watched


@pytest.mark.parametrize(
    ("keep", "name"),
    [(list, "layers[0].weight"), (lambda part: dict(zip("abc", part, strict=True)), "layers['a']")],
)
def test_layers_in_a_list_or_a_dict_are_in_no_optimiser(
    keep: Callable[[list[nn.Module]], object], name: str
) -> None:
    torch.manual_seed(0)
    watched = train(Stack(keep))
    (finding,) = [f for f in findings_of(watched) if f.code == "OPT001"]
    assert finding.severity == "fault"
    assert name in finding.text()
    declared = Expectations(frozen=("layers*",))
    assert "OPT001" not in {f.code for f in diagnose(history_of_watch(watched), declared=declared)}


def test_what_is_trained_all_the_same_or_given_to_the_call_is_no_fault() -> None:
    torch.manual_seed(0)
    listed = Stack(list)
    held = [weight for layer in listed.layers for weight in layer.parameters()]  # type: ignore[attr-defined]
    # a prompt that is learnt elsewhere belongs to the loop
    prompt = nn.Parameter(torch.zeros(WIDTH))
    runs = [train(listed, *held), train(Stack(nn.ModuleList), prompt=prompt)]
    assert not any(f.code == "OPT001" for run in runs for f in findings_of(run))


# ---- rows that are read as time


class Recurrent(nn.Module):
    def __init__(self, *, batch_first: bool, n_classes: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=batch_first)
        self.head = nn.Linear(WIDTH, n_classes)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(ids))
        return self.head(states[:, -1])


@pytest.mark.parametrize("batch_first", [True, False])
def test_an_lstm_that_reads_rows_as_time_mixes_them(batch_first: bool) -> None:
    torch.manual_seed(0)
    model = Recurrent(batch_first=batch_first)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch(model, optimiser) as watched:
        for step in range(UPDATES):
            ids = rows_of(step)
            loss = F.cross_entropy(model(ids), ids[:, 0] % 3)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            watched.step(loss)
    codes = [finding.code for finding in findings_of(watched)]
    assert codes == ([] if batch_first else ["ATT002"])


class Similarities(Recurrent):
    """Each row's likeness to all rows of its batch: these are compared on purpose."""

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(ids))
        return states[:, -1] @ states[:, -1].T


def test_a_comparison_of_all_rows_may_depend_on_all_of_them() -> None:
    torch.manual_seed(0)
    model = Similarities(batch_first=True)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch(model, optimiser) as watched:
        for step in range(UPDATES):
            loss = F.cross_entropy(model(rows_of(step)), torch.arange(12))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            watched.step(loss)
    assert "ATT002" not in {finding.code for finding in findings_of(watched)}


# ---- partners


@pytest.mark.parametrize("is_fault", [True, False])
def test_texts_that_are_all_pulled_to_one_partner_are_told(is_fault: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(TOKENS, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2 * WIDTH))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch(model, optimiser, max_overhead=None) as watched:
        for step in range(UPDATES):
            ids = rows_of(step)
            first, second = (F.normalize(model(part), dim=-1) for part in (ids, ids.flip(1)))
            targets = torch.zeros(12).long() if is_fault else torch.arange(12)
            loss = F.cross_entropy(first @ second.T / 0.05, targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            watched.step(loss)
    codes = {finding.code for finding in findings_of(watched)}
    assert ("LOS003" in codes) == is_fault


# ---- attention scores of a model that knows its texts


@pytest.mark.parametrize(("below", "severity"), [(0.0, "warn"), (2.0, "note")])
def test_a_model_that_knows_its_texts_was_trained_with_its_scale(
    below: float, severity: str
) -> None:
    course = healthy()
    losses = tuple((step, min(GUESSING - below, loss)) for step, loss in course.losses)
    first = {"attention.max_logit": 14.0, "attention.entropy": 0.2}
    signs = course.signs | {id: (Reading(1, value, ""),) for id, value in first.items()}
    facts = replace(course.facts, score_scale=4.0)
    findings = diagnose(replace(course, losses=losses, signs=signs, facts=facts))
    assert [f.severity for f in findings if f.code == "ARC006"] == [severity]
