"""A check leaves everything as it was, bit for bit."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.diagnosis import check, preserve_state
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.model import assemble
from support.faults import mean_loss, next_tokens, text, tiny
from support.models import BASE, build, with_stack
from support.untouched import everything, generators, same

MODELS = {
    "gpt": lambda: assemble(tiny("gpt2"), seed=0),
    "batch norm": lambda: build(
        with_stack(norm=config.BatchNorm(eps=1e-5, momentum=0.1)), double=False
    ),
    "spectral norm": lambda: build(
        with_stack(reparametrisation=config.SpectralNorm(power_iterations=2)), double=False
    ),
    "tied": lambda: build(BASE, double=False),
}


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_check_leaves_model_optimiser_and_chance_as_they_were(name: str, training: bool) -> None:
    model = MODELS[name]().train(training)
    vocab = model.token_embedding.num_embeddings
    ids = text(time=16, vocab=vocab)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mean_loss(model(ids), next_tokens(ids)).backward()
    optimizer.step()
    next(iter(model.parameters())).requires_grad_(False)
    next(model.children()).train(not training)
    before, chance = everything(model), generators()
    memory = [value.clone() for state in optimizer.state.values() for value in state.values()]
    check(model, ids, next_tokens(ids), optimizer=optimizer, loss=mean_loss)
    after = everything(model)
    assert [key for key in before if not same(before[key], after[key])] == []
    assert all(map(same, chance, generators()))
    remembered = [value for state in optimizer.state.values() for value in state.values()]
    assert all(map(torch.equal, memory, remembered))
    assert all(not module._forward_hooks for module in model.modules())


def test_model_is_put_back_where_a_probe_fails() -> None:
    model = assemble(tiny("gpt2"), seed=0)
    before = everything(model)

    def fail() -> None:
        with preserve_state(model, dtype=torch.float64):
            next(iter(model.parameters())).data.zero_()
            raise RuntimeError("within")

    with pytest.raises(RuntimeError, match="within"):
        fail()
    after = everything(model)
    assert [key for key in before if not same(before[key], after[key])] == []


def test_training_goes_on_to_the_same_bits_after_a_check() -> None:
    def trained(checked: bool) -> torch.Tensor:
        torch.manual_seed(3)
        model = assemble(tiny("nano"), seed=0).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        ids = text()
        for _ in range(4):
            if checked:
                check(model, ids, optimizer=optimizer)
            optimizer.zero_grad()
            mean_loss(model(ids), next_tokens(ids)).backward()
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(trained(False), trained(True))


def test_weights_that_share_memory_share_it_within() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.randn(3, 3))
            self.b = nn.Parameter(self.a.data)

    model = Shared()
    with preserve_state(model):
        assert model.a.data_ptr() == model.b.data_ptr()
        model.a.data.zero_()
        assert not model.b.any()
    assert model.a.any()


class Wrapper(nn.Module):
    """One that gives what its model does not."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, ids: Tensor) -> Tensor:
        """Logits that see no token but their own."""
        return self.module(ids[:, :1])[:, 0, None].expand(-1, ids.shape[1], -1)


def test_only_wrappers_that_change_nothing_are_taken_off() -> None:
    model = assemble(tiny("nano"), seed=0)
    wrapper = Wrapper(model)
    assert ModelAdapter(wrapper).model is wrapper
    assert ModelAdapter(cast("nn.Module", nn.DataParallel(model))).model is model


def test_a_device_that_is_not_used_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    def woken(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", woken)
    model = assemble(tiny("nano"), seed=0)
    before = torch.get_rng_state()
    with preserve_state(model):
        torch.rand(3)
    assert torch.equal(before, torch.get_rng_state())
