"""The gradients of an update, as the steps of its optimisers find them.

Several optimisers may step one after another, each with gradients of its own: a generator's after
a discriminator's, or one for each weight in the middle of the backward pass. So each step's
gradients are gathered when it begins, and put on the tape once the update is done.

Norms are over all numbers of a gradient. What its numbers are like is measured on a sample of
each matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import Anatomy, local
from pellucid.vitals.step_signs import sample
from pellucid.vitals.update_sizes import groups_by_parameter

#: A parameter's name, and its gradient, the part of it that this process has.
_Named = list[tuple[str, Tensor]]


class Gradients:
    """Gathers the gradients of an update, optimiser by optimiser."""

    def __init__(self, anatomy: Anatomy, optimisers: Sequence[torch.optim.Optimizer]) -> None:
        self._anatomy = anatomy
        self._optimisers = tuple(optimisers)
        self._depth = {name: anatomy.block_of(name) for name in anatomy.parameters}
        #: the samples of the look before, and whose they are
        self._last: tuple[list[str], Tensor] | None = None
        self._places: tuple[list[str], Tensor, Tensor] | None = None
        #: names of the modules that the model goes through; empty while not known
        self.called: frozenset[str] = frozenset()
        self.clear()

    def clear(self) -> None:
        """Forget what was gathered: an update begins."""
        #: of those matrices that have one, as the optimiser uses it
        self.samples: dict[str, Tensor] = {}
        self._names: list[str] = []
        self._norms: list[Tensor] = []
        self._numbers: list[Tensor] = []
        self._n_lacking = self._n_asked = 0
        self._is_half = False
        several = len(self._optimisers) > 1
        self._groups = groups_by_parameter(self._optimisers) if several else {}

    @torch.no_grad()
    def gather(self, optimiser: torch.optim.Optimizer | None, tape: AsyncMetrics) -> None:
        """Take the gradients that a step uses: all there are, unless others step too."""
        parameters = {
            name: parameter
            for name, parameter in self._anatomy.parameters.items()
            if not self._groups or self._steps_in(optimiser, parameter)
        }
        lacking = [name for name, parameter in parameters.items() if parameter.grad is None]
        self._n_lacking += sum(self._takes_part(name) for name in lacking)
        self._n_asked += len(parameters)
        named = [
            (name, local(parameter.grad))
            for name, parameter in parameters.items()
            if parameter.grad is not None and not parameter.grad.is_sparse
        ]
        # a process may have no part of what is small
        named = [(name, gradient) for name, gradient in named if gradient.numel()]
        if not named:
            return
        divisor = _divisor(optimiser)
        tape.guard("gradient.norm", self._take_norms, named, divisor)
        tape.guard("gradient.zeros", self._take_samples, named, divisor)

    def _steps_in(self, optimiser: torch.optim.Optimizer | None, parameter: Tensor) -> bool:
        """Whether it is this optimiser's: the first one has those that no optimiser moves."""
        owner, _ = self._groups.get(id(parameter), (self._optimisers[0], {}))
        return owner is optimiser

    def _take_norms(self, named: _Named, divisor: Tensor | None) -> None:
        # torch.nn.utils.get_total_norm, its norms of each tensor kept
        tensor_norms = cast("Any", torch)._foreach_norm([gradient for _, gradient in named])
        norms = torch.stack(
            [norm.to(tensor_norms[0].device, torch.float32) for norm in tensor_norms]
        )
        self._names += [name for name, _ in named]
        self._norms.append(norms if divisor is None else norms / divisor.to(norms))

    def _take_samples(self, named: _Named, divisor: Tensor | None) -> None:
        raw = {name: sample(grad) for name, grad in named if name in self._anatomy.matrices}
        if not raw:
            return
        wide = {name: gradient.float() for name, gradient in raw.items()}
        self._numbers.append(torch.cat([*wide.values()]))
        self._is_half |= any(gradient.dtype == torch.float16 for gradient in raw.values())
        # copies: the next optimiser's backward pass may write to what this one has read
        self.samples |= {
            name: x.clone() if divisor is None else x / divisor.to(x) for name, x in wide.items()
        }

    @torch.no_grad()
    def put(self, tape: AsyncMetrics) -> None:
        """Put what was gathered on the tape: the update is done."""
        share = self._n_lacking / max(1, self._n_asked)
        tape.put("gradient.missing", torch.tensor(share, device="cpu"))
        if self._norms:
            norms = torch.cat([norms.to(self._norms[0].device) for norms in self._norms])
            tape.put("gradient.norm", lambda: norms.square().sum().sqrt())
            tape.guard("gradient.by_depth", self._profile, norms, tape)
        if self._numbers:
            tape.guard("gradient.zeros", self._put_numbers, tape)

    def _put_numbers(self, tape: AsyncMetrics) -> None:
        """What the numbers of the gradients are like, all samples at once."""
        together = torch.cat([numbers.to(self._numbers[0].device) for numbers in self._numbers])
        names = list(self.samples)
        last, self._last = self._last, (names, together)
        tape.put("gradient.zeros", lambda: (together == 0).double().mean())
        if self._is_half:
            max_half = torch.finfo(torch.float16).max
            tape.put("gradient.near_max", lambda: together.abs().amax() / max_half)
        if last is not None and last[0] == names:
            tape.put("gradient.cosine", lambda: cosine_similarity(together, last[1], dim=0))

    def _takes_part(self, name: str) -> bool:
        """Whether the model goes through a parameter's module, or through the one around that.

        A pooler is no part of a training on hidden tokens. Before the first look all take part.
        """
        module = name.rpartition(".")[0]
        around = module.rpartition(".")[0]
        return not self.called or module in self.called or (bool(around) and around in self.called)

    def _profile(self, norms: Tensor, tape: AsyncMetrics) -> None:
        blocks = tuple(self._anatomy.blocks)
        # a block that is not trained has no gradient to lose
        trained = {depth for depth in self._depth.values() if depth is not None}
        if len(trained) < 2:
            return
        indices, depth = self._inside(self._names, norms.device)
        squares = norms.new_zeros(len(blocks)).index_add_(0, depth, norms[indices].square())
        profile = squares.sqrt()
        tape.put("gradient.by_depth", profile, blocks)
        first, last = profile[min(trained)], profile[max(trained)]
        tape.put("gradient.depth_ratio", lambda: first / last.clamp(min=1e-30))

    def _inside(self, names: list[str], device: torch.device) -> tuple[Tensor, Tensor]:
        """Which of these parameters lie in a block, and in which.

        Made once: a list that becomes indices on a device is waited for.
        """
        if self._places is None or self._places[0] != names:
            inside = [
                (i, d) for i, name in enumerate(names) if (d := self._depth[name]) is not None
            ]
            indices = torch.tensor([i for i, _ in inside], dtype=torch.long, device=device)
            depth = torch.tensor([d for _, d in inside], dtype=torch.long, device=device)
            self._places = (names, indices, depth)
        return self._places[1:]


def _divisor(optimiser: torch.optim.Optimizer | None) -> Tensor | None:
    """What a fused optimiser divides gradients by before it uses them."""
    divisor = cast("Any", getattr(optimiser, "grad_scale", None))
    return divisor if isinstance(divisor, Tensor) else None
