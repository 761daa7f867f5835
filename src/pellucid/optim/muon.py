"""Muon: for hidden matrices, momentum whose singular values are moved close to one.

Matrices with the same shape are orthogonalised together, in one batch of products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pellucid.maths.optimisers import newton_schulz
from pellucid.optim.eager import Optimizer


@runtime_checkable
class Owners(Protocol):
    """The processes that train together: each may hold a share of every matrix."""

    def local(self, tensor: Tensor) -> Tensor:
        """What this process holds of a tensor."""
        ...

    def by_owners(
        self, function: Callable[[Tensor], Tensor], matrices: Tensor, n_rows: int
    ) -> Tensor:
        """This process's share of what `function` gives for the whole matrices.

        Args:
            function: of a batch of whole matrices.
            matrices: (batch, rows, columns), the rows that this process holds.
            n_rows: the rows of a whole matrix.
        """
        ...


class Alone:
    """One process owns everything."""

    def local(self, tensor: Tensor) -> Tensor:
        """The tensor."""
        return tensor

    def by_owners(
        self, function: Callable[[Tensor], Tensor], matrices: Tensor, n_rows: int
    ) -> Tensor:
        """`function` of the matrices, which are whole."""
        return function(matrices)


class Muon(Optimizer):
    """m <- mu m + g;  w <- w (1 - lr decay) - lr sqrt(max(1, rows / columns)) NS(g + mu m).

    NS is `pellucid.maths.newton_schulz`; g + mu m is Nesterov's look-ahead. The root makes the
    update of a tall matrix change its outputs as much as a square one.

    Source:
        Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
    """

    grad_scale: Tensor | None = None
    found_inf: Tensor | None = None

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        newton_schulz_steps: int,
        dtype: torch.dtype = torch.bfloat16,
        owners: Owners | None = None,
    ) -> None:
        """Make an optimiser of matrices.

        Args:
            parameters: the matrices.
            lr: the learning rate.
            momentum: mu.
            weight_decay: decoupled, as in AdamW.
            newton_schulz_steps: iterations of Newton-Schulz.
            dtype: in which float32 matrices are orthogonalised. bfloat16 is precise enough, because
                the singular values need only be close to one.
            owners: the processes that share the work; by default this one alone.
        """
        self.owners = owners or Alone()
        self.dtype = dtype
        self.newton_schulz_steps = newton_schulz_steps
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One update of every matrix that has a gradient."""
        for options in self.param_groups:
            by_shape: defaultdict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in options["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for matrices in by_shape.values():
                self._step_together(matrices, options)

    def _step_together(self, matrices: list[nn.Parameter], options: dict[str, Any]) -> None:
        mu, lr, local = options["momentum"], options["lr"], self.owners.local
        buffers = [local(self._buffer(matrix)) for matrix in matrices]
        grads = torch.stack([local(m.grad) for m in matrices if m.grad is not None])
        if self.grad_scale is not None:
            grads = grads / self.grad_scale
        momentum = torch.stack(buffers) * mu + grads
        look_ahead = grads + mu * momentum
        rows, columns = matrices[0].shape
        update = self.owners.by_owners(
            partial(orthogonalise, steps=self.newton_schulz_steps, dtype=self.dtype),
            look_ahead,
            rows,
        )
        rate = lr * max(1.0, rows / columns) ** 0.5
        weights = torch.stack([local(matrix) for matrix in matrices])
        new_weights = weights * (1 - lr * options["weight_decay"]) - rate * update
        if self.found_inf is not None:
            # where and not times: nan times zero is nan
            skip = self.found_inf > 0
            new_weights = torch.where(skip, weights, new_weights)
            momentum = torch.where(skip, torch.stack(buffers), momentum)
        for matrix, buffer, new, new_momentum in zip(
            matrices, buffers, new_weights, momentum, strict=True
        ):
            local(matrix).copy_(new)
            buffer.copy_(new_momentum)

    def _buffer(self, matrix: nn.Parameter) -> Tensor:
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        return state["momentum"]


def orthogonalise(matrices: Tensor, *, steps: int, dtype: torch.dtype) -> Tensor:
    """NS of a batch of matrices, in their own type.

    Args:
        matrices: (batch, rows, columns).
        steps: iterations of Newton-Schulz.
        dtype: in which float32 matrices are orthogonalised.
    """
    rounded = matrices.to(dtype) if matrices.dtype == torch.float32 else matrices
    update: Tensor = newton_schulz(rounded, steps=steps)
    return update.to(matrices.dtype)
