"""The training loop's optimiser: one or several torch optimisers behind one step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.errors import CheckpointError
from pellucid.optim.clipping import Gate
from pellucid.optim.grouping import Group
from pellucid.optim.proximal import Penalty
from pellucid.optim.remembered import check_state


class Optimiser:
    """Several `torch.optim` optimisers, stepped together; each keeps its own peak learning rate."""

    def __init__(
        self,
        parts: Sequence[torch.optim.Optimizer],
        names: Mapping[str, nn.Parameter],
        groups: Sequence[Group],
        penalties: Iterable[Penalty] = (),
    ) -> None:
        self.parts = tuple(parts)
        self.groups = tuple(groups)
        self.penalties = tuple(penalties)
        self._names = dict(names)
        # torch keeps these tables, and each step sets the learning rate in them
        self._options: dict[nn.Parameter, dict[str, Any]] = {
            parameter: options
            for part in parts
            for options in part.param_groups
            for parameter in options["params"]
        }
        self._peaks = [[float(options["lr"]) for options in part.param_groups] for part in parts]

    @property
    def learning_rate(self) -> float:
        """The current learning rate of the first group."""
        return float(self.parts[0].param_groups[0]["lr"])

    def step(self, gate: Gate, factor: float) -> None:
        """One update at `factor` times the peak learning rates, clipped and gated on the device.

        Each penalty then takes its proximal step at the learning rate of its parameter.
        """
        for part, peaks in zip(self.parts, self._peaks, strict=True):
            for options, peak in zip(part.param_groups, peaks, strict=True):
                options["lr"] = peak * factor
            # torch's GradScaler uses these attributes of fused optimisers: the kernel divides the
            # gradients by grad_scale and skips the step if found_inf is 1.
            fused = cast("Any", part)
            fused.grad_scale, fused.found_inf = gate.divisor, gate.blocked
            part.step()
        for penalty in self.penalties:
            penalty.step(float(self._options[penalty.parameter]["lr"]), gate.blocked)

    def penalty(self) -> Float[Tensor, ""] | None:
        """The penalty of the current weights; None if there is no penalty."""
        costs = [penalty.value() for penalty in self.penalties]
        return torch.stack([cost.float() for cost in costs]).sum() if costs else None

    def zeros(self) -> Float[Tensor, ""] | None:
        """The share of penalised weights that are exactly 0; None if there is no penalty."""
        if not self.penalties:
            return None
        weights = [penalty.parameter.detach() for penalty in self.penalties]
        zeros = torch.stack([(weight == 0).sum() for weight in weights]).sum()
        return zeros / sum(weight.numel() for weight in weights)

    @property
    def parameters(self) -> Iterable[nn.Parameter]:
        """All parameters of the model, in its order."""
        return self._names.values()

    def gradients(self) -> list[Tensor]:
        """All gradients, in the order of the parameters."""
        return [p.grad for p in self._names.values() if p.grad is not None]

    def zero_grad(self) -> None:
        """Delete all gradients."""
        for parameter in self._names.values():
            parameter.grad = None

    def state_tensors(self) -> dict[str, Tensor]:
        """The whole state of the optimiser: `parameter name::key` -> tensor."""
        return {
            f"{name}::{key}": value
            for part in self.parts
            for name, parameter in self._names.items()
            if parameter in part.state
            for key, value in cast("dict[str, Tensor]", part.state[parameter]).items()
        }

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state that `state_tensors` returned.

        Args:
            tensors: the state; of parameters that ranks share, divided as the parameters are.

        Raises:
            CheckpointError: a tensor belongs to no parameter of this model, or has another shape or
                type than this optimiser uses; names both.
        """
        by_name: dict[str, dict[str, Tensor]] = {}
        for full, value in tensors.items():
            name, _, key = full.partition("::")
            if name not in self._names:
                raise CheckpointError(
                    f"the optimiser's state names {name!r}, which the model does not have: "
                    "the checkpoint belongs to another model"
                )
            by_name.setdefault(name, {})[key] = value
        owners = {
            parameter: part
            for part in self.parts
            for options in part.param_groups
            for parameter in cast("list[nn.Parameter]", options["params"])
        }
        for name, state in by_name.items():
            parameter = self._names[name]
            check_state(name, state, owners[parameter], parameter)
            # fused optimisers need step counters and moments on the device of their parameter
            placed = {key: value.to(parameter.device) for key, value in state.items()}
            owners[parameter].state[parameter].update(placed)
