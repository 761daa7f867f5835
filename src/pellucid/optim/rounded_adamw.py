"""AdamW for weights in bfloat16."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from pellucid.optim.eager import AdamW
from pellucid.rounded_weights import read_exact, write_exact

#: The update of lists of tensors in torch, untyped.
_update: Any = cast("Any", adamw)


class RoundedAdamW(AdamW):
    """AdamW on the exact weights, one matrix after another; its moments are in float32.

    With remainders it computes the bits of `AdamW` on float32 weights, from equal gradients.
    """

    grad_scale: Tensor | None = None
    found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One update of every matrix that has a gradient."""
        for options in self.param_groups:
            for parameter in options["params"]:
                if parameter.grad is not None:
                    self._step_one(parameter, options)

    def _step_one(self, parameter: nn.Parameter, options: dict[str, Any]) -> None:
        assert parameter.grad is not None
        exact, state = read_exact(parameter), self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=exact.device)
            state["exp_avg"] = torch.zeros_like(exact)
            state["exp_avg_sq"] = torch.zeros_like(exact)
        beta1, beta2 = options["betas"]
        _update(
            [exact],
            [parameter.grad.float()],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [state["step"]],
            fused=True,
            grad_scale=self.grad_scale,
            found_inf=self.found_inf,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=options["lr"],
            weight_decay=options["weight_decay"],
            eps=options["eps"],
            maximize=False,
        )
        write_exact(parameter, exact)
