"""What one step of an optimiser did to a matrix, measured apart from the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pellucid.vitals.model_parts import local
from pellucid.vitals.step_signs import STEP_SIGNS, Step


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.AdamW, {"weight_decay": 0.5}),
        (torch.optim.Adam, {"weight_decay": 0.5, "decoupled_weight_decay": True}),
        # coupled: a part of the gradient, and so of the step
        (torch.optim.Adam, {"weight_decay": 0.5}),
    ],
)
def test_decoupled_decay_is_no_part_of_the_effective_step(
    kind: type[torch.optim.Adam], options: dict[str, Any]
) -> None:
    parameter = torch.nn.Parameter(torch.full((4, 4), 10.0))
    old = parameter.detach().clone()
    optimiser = kind([parameter], lr=0.1, **options)
    parameter.grad = torch.ones(4, 4)
    optimiser.step()
    moved = parameter.detach() - old
    step = Step(
        parameter, old, parameter.grad, moved, optimiser, optimiser.param_groups[0], read=local
    )
    value = STEP_SIGNS["update.effective_step"](step)
    assert value is not None
    # the first step of Adam is as large as the learning rate; the decay would add 5 times that
    assert float(value) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "is_judged"), [(torch.optim.RAdam, False), (torch.optim.NAdam, True)]
)
def test_steps_that_are_short_by_design_are_none_of_adams(
    kind: type[torch.optim.Optimizer], *, is_judged: bool
) -> None:
    parameter = torch.nn.Parameter(torch.full((4, 4), 10.0))
    optimiser = kind([parameter], lr=0.1)  # pyright: ignore[reportCallIssue]
    for _ in range(7):
        old = parameter.detach().clone()
        parameter.grad = torch.full((4, 4), 1e-3)
        optimiser.step()
    moved, group = parameter.detach() - old, optimiser.param_groups[0]
    value = STEP_SIGNS["update.effective_step"](
        Step(parameter, old, parameter.grad, moved, optimiser, group, read=local)
    )
    assert value is not None
    assert (float(value) > 0) == is_judged
