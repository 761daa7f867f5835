"""Of a module that only keeps others, the part that trains is watched."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pellucid.vitals import watch
from pellucid.vitals.taps.trained_parts import called_part, has_forward, trained_part
from support.foreign import adam, ids_of, loss_of, made


class Keeper(nn.Module):
    """Keeps a model beside parts that are not trained."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        self.policy = made()
        self.criterion = nn.CrossEntropyLoss()
        self.reference = made().requires_grad_(False)
        for name, part in parts.items():
            self.add_module(name, part)


def test_a_loss_and_a_frozen_reference_beside_a_model_are_no_parts_that_train() -> None:
    keeper = Keeper()
    assert trained_part(keeper) is keeper.policy


@pytest.mark.parametrize("kind", ["another part", "a parameter of its own"])
def test_a_module_whose_parameters_are_in_several_places_is_watched_itself(kind: str) -> None:
    keeper = Keeper(**({"head": nn.Linear(2, 2)} if kind == "another part" else {}))
    if kind == "a parameter of its own":
        keeper.scale = nn.Parameter(torch.ones(()))
    assert trained_part(keeper) is keeper


def test_the_first_call_of_a_model_in_a_dictionary_is_probed() -> None:
    models = nn.ModuleDict({"policy": made(), "reference": made().requires_grad_(False)})
    optimiser = adam(models["policy"])
    with watch(models, optimiser) as w:
        for step in range(12):
            loss = loss_of(models["policy"], ids_of(step))
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            w.step(loss)
    assert w.first_call.passes > 0


def test_a_forward_of_the_class_or_of_the_instance_can_be_called() -> None:
    assert has_forward(made())
    assert not has_forward(nn.ModuleList())
    patched = nn.Module()
    patched.forward = made().forward
    assert has_forward(patched)


class Parts(nn.Module):
    """Keeps a body of transformers and a head, and never calls itself, as a LightningModule may."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(13, 2), made()
        self.body.config = SimpleNamespace(model_type="bert")

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(ids).mean(1))


@pytest.mark.parametrize("is_called", [True, False])
def test_a_loop_may_call_the_parts_of_a_model(is_called: bool) -> None:
    model = Parts()
    optimiser = adam(model)
    with watch(model, optimiser) as w:
        for step in range(12):
            ids = ids_of(step)
            outputs = model(ids) if is_called else model.head(model.body(ids).mean(1))
            loss = nn.functional.cross_entropy(outputs, torch.arange(len(ids)) % 2)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            w.step(loss)
    assert w.first_call.passes > 0
    assert "one_row" in w.state.marks
    assert (w.state.marks["bare"].n_seen, w.missing.get("call.*")) == (0, None)
    assert w.state.marks["one_class"].share == 0  # the head's gradient names both classes


def test_the_part_that_is_called_has_a_config_and_most_of_the_weights() -> None:
    model = Parts()
    assert called_part(model) is model.body
    assert called_part(nn.ModuleDict({"parts": nn.ModuleList([model.body, nn.Linear(2, 2)])}))
    assert called_part(nn.ModuleList([made(), nn.Linear(2, 2)])) is None
    model.config = model.body.config
    assert called_part(model) is None
