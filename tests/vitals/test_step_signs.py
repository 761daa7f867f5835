"""What one step of an optimiser did to a matrix, measured apart from the model."""

from __future__ import annotations

import pytest
import torch

from pellucid.vitals.step_signs import STEP_SIGNS, Step


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam])
def test_decoupled_decay_is_no_part_of_the_effective_step(kind: type[torch.optim.Adam]) -> None:
    parameter = torch.nn.Parameter(torch.full((4, 4), 10.0))
    old = parameter.detach().clone()
    optimiser = kind([parameter], lr=0.1, weight_decay=0.5 if kind is torch.optim.AdamW else 0.0)
    parameter.grad = torch.ones(4, 4)
    optimiser.step()
    moved = parameter.detach() - old
    step = Step(parameter, old, parameter.grad, moved, optimiser, optimiser.param_groups[0])
    value = STEP_SIGNS["update.effective_step"](step)
    assert value is not None
    # the first step of Adam is as large as the learning rate; the decay would add 5 times that
    assert float(value) == pytest.approx(1.0, rel=1e-4)
