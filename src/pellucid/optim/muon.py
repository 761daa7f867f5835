"""Muon: for hidden matrices, momentum whose singular values are moved close to one.

Matrices with the same shape are orthogonalised together, in one batch of products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pellucid.maths.optimisers import Polynomials, newton_schulz, newton_schulz_coefficients
from pellucid.optim.eager import Optimizer
from pellucid.rounded_weights import is_rounded, read_exact, write_exact


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


class OneOwner:
    """One process owns everything."""

    def local(self, tensor: Tensor) -> Tensor:
        """The tensor."""
        return tensor

    def by_owners(
        self, function: Callable[[Tensor], Tensor], matrices: Tensor, n_rows: int
    ) -> Tensor:
        """`function` of the matrices, which are whole."""
        return function(matrices)


@dataclass(frozen=True, slots=True)
class Orthogonaliser:
    """How a machine computes NS of a batch of matrices.

    Attributes:
        dtype: in which float32 matrices are orthogonalised. bfloat16 is precise enough, because the
            singular values need only be close to one.
        fused: each polynomial is one operation, which rounds once. It takes half of the time, and
            in bfloat16 errs by half as much.
        polynomials: whose coefficients.
    """

    dtype: torch.dtype
    fused: bool = True
    polynomials: Polynomials = "Jordan"

    def __call__(self, matrices: Tensor, steps: int) -> Tensor:
        """NS of a batch of matrices, in their own type.

        Args:
            matrices: (batch, rows, columns).
            steps: iterations of Newton-Schulz.
        """
        rounded = matrices.to(self.dtype) if matrices.dtype == torch.float32 else matrices
        compute = fused_newton_schulz if self.fused else newton_schulz
        return compute(rounded, steps=steps, polynomials=self.polynomials).to(matrices.dtype)


def fused_newton_schulz(
    matrices: Tensor, *, steps: int, polynomials: Polynomials = "Jordan"
) -> Tensor:
    """`pellucid.maths.newton_schulz` of a batch, each polynomial in one operation.

    Args:
        matrices: (batch, rows, columns).
        steps: iterations.
        polynomials: whose coefficients.
    """
    x = newton_schulz(matrices, steps=0)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT.contiguous()
    for step in range(steps):
        a, b, c = newton_schulz_coefficients(step, polynomials)
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


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
        fused: bool = True,
        polynomials: Polynomials = "Jordan",
        owners: Owners | None = None,
    ) -> None:
        """Make an optimiser of matrices.

        Args:
            parameters: the matrices.
            lr: the learning rate.
            momentum: mu.
            weight_decay: decoupled, as in AdamW.
            newton_schulz_steps: iterations of Newton-Schulz.
            dtype, fused, polynomials: as in `Orthogonaliser`.
            owners: the processes that share the work; by default this one alone.
        """
        self.owners = owners or OneOwner()
        self.orthogonalise = Orthogonaliser(dtype, fused, polynomials)
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
        lr, local = options["lr"], self.owners.local
        mu, shrink = options["momentum"], 1 - lr * options["weight_decay"]
        rows, columns = matrices[0].shape
        rate = lr * max(1.0, rows / columns) ** 0.5
        skip = None if self.found_inf is None else self.found_inf > 0
        if skip is not None:
            # A step that is skipped changes nothing: times 1, plus or minus 0. The device decides.
            wide = torch.promote_types(matrices[0].dtype, torch.float32)
            mu, shrink, rate = (
                torch.full_like(skip, value, dtype=wide).masked_fill_(skip, idle)
                for value, idle in ((mu, 1.0), (shrink, 1.0), (rate, 0.0))
            )
        update = self.owners.by_owners(
            partial(self.orthogonalise, steps=self.newton_schulz_steps),
            torch.stack([self._look_ahead(matrix, mu, skip) for matrix in matrices]),
            rows,
        )
        for matrix, direction in zip(matrices, update, strict=True):
            if is_rounded(matrix):
                exact = read_exact(matrix)
                write_exact(matrix, exact.mul_(shrink).sub_(direction * rate))
            else:
                local(matrix).mul_(shrink).sub_(direction * rate)

    def _look_ahead(self, matrix: nn.Parameter, mu: float | Tensor, skip: Tensor | None) -> Tensor:
        """g + mu m of a matrix, after m has taken its gradient in."""
        assert matrix.grad is not None
        grad = self.owners.local(matrix.grad)
        if is_rounded(matrix):
            grad = grad.float()
        if self.grad_scale is not None:
            grad = grad / self.grad_scale
        if skip is not None:
            # where and not times: nan times zero is nan
            grad = torch.where(skip, 0.0, grad)
        momentum = self.owners.local(self._buffer(matrix)).mul_(mu).add_(grad)
        return (momentum * mu).add_(grad)

    def _buffer(self, matrix: nn.Parameter) -> Tensor:
        state = self.state[matrix]
        if "momentum" not in state:
            dtype = torch.float32 if is_rounded(matrix) else matrix.dtype
            state["momentum"] = torch.zeros_like(matrix, dtype=dtype)
        return state["momentum"]
