"""The moving average of weights: its equation, and how it takes the place of the weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pellucid.training.averaging import WeightAverage, split_trained, with_trained


def test_it_is_the_average_of_all_updates_and_blocked_ones_do_not_count() -> None:
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.9)
    expected = model.weight.detach().clone()
    for step in range(200):
        with torch.no_grad():
            model.weight.copy_(torch.randn(2, 3))
        blocked = torch.tensor(float(step == 5))
        average.update(step, blocked)
        if step != 5:
            decay = min(0.9, (1 + step) / (10 + step))
            expected = decay * expected + (1 - decay) * model.weight.detach()
    with average.swapped():
        torch.testing.assert_close(model.weight.detach(), expected)


def test_the_weights_come_back_bit_for_bit_also_after_an_error() -> None:
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.5)
    with torch.no_grad():
        model.weight.mul_(1 / 3)
    average.update(0, torch.zeros(()))
    trained = model.weight.detach().clone()

    def fail() -> None:
        with average.swapped():
            assert not torch.equal(model.weight, trained)
            assert torch.equal(average.tensors()["weight::trained"], trained)
            raise ValueError("within")

    with pytest.raises(ValueError, match="within"):
        fail()
    assert torch.equal(model.weight, trained)


def test_frozen_weights_have_no_average_and_a_checkpoint_gives_both_back() -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(requires_grad=False)
    average = WeightAverage(model, 0.5)
    with torch.no_grad():
        model.weight.add_(1.0)
    average.update(100, torch.zeros(()))
    trained = model.weight.detach().clone()
    with average.swapped():
        saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        memory, trained_weights = split_trained(
            {"weight::momentum": saved["weight"], **average.tensors()}
        )
        trained_weights = {name: tensor.clone() for name, tensor in trained_weights.items()}
    assert set(trained_weights) == {"weight::trained"}
    assert set(memory) == {"weight::momentum"}
    other = nn.Linear(3, 2)
    other.bias.requires_grad_(requires_grad=False)
    other.load_state_dict(saved)
    restored = WeightAverage(other, 0.5)
    restored.restore(trained_weights)
    assert torch.equal(other.weight, trained)
    with restored.swapped():
        assert torch.equal(other.weight, saved["weight"])
    # a run that is resumed without an average continues with its trained weights
    assert torch.equal(with_trained(saved, trained_weights)["weight"], trained)
