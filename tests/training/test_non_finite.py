"""Which value was not finite first, where no tensor of the model is to blame."""

from __future__ import annotations

from pathlib import Path

import torch

from pellucid.training.non_finite import Culprit, find_culprit, refusal


class Pair(torch.nn.Module):
    """A module whose output is no tensor, around one whose output is."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, float]:
        return self.inner(x), 1.0


def test_finite_gradients_whose_norm_is_not_are_named_together() -> None:
    model = torch.nn.Sequential(Pair())

    def repeat() -> torch.Tensor:
        (output, _) = model(torch.ones(1, 2))
        loss = output.sum()
        loss.backward()
        return loss.detach()

    assert find_culprit(model, repeat) == Culprit("norm of the gradient", "all parameters together")
    assert not any(module._forward_hooks for module in model.modules())


def test_the_refusal_counts_the_update_and_says_where_the_state_is() -> None:
    text = refusal(6, Culprit("gradient", "head.weight"), Path("runs/x/step-6"))
    assert text.startswith("update 7 met a value that is not finite: gradient of head.weight.")
    assert f"were set aside in {Path('runs/x/step-6')}" in text
