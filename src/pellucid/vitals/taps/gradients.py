"""The gradients of an update, as its optimisers use them.

Several optimisers may step one after another, each with its own gradients: for a generator and a
discriminator, or one for each weight during the backward pass. So gradients are gathered when a
step begins, and recorded once the update is done.

Norms are over all numbers of a gradient. Other signs are measured on a sample of each matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.step_signs import sample
from pellucid.vitals.update_sizes import groups_by_parameter

#: With fewer matrices, the middle one is no measure of the others.
_FEWEST_MATRICES = 5
#: Names of parameters, each with its gradient, or this process's part of it.
_NamedGradients = list[tuple[str, Tensor]]


class Gradients:
    """Gathers the gradients of an update, one optimiser after another."""

    def __init__(self, anatomy: Anatomy, optimisers: Sequence[torch.optim.Optimizer]) -> None:
        self._anatomy = anatomy
        self._optimisers = tuple(optimisers)
        self._depth = {name: anatomy.block_of(name) for name in anatomy.parameters}
        #: the weights up to the last block: those behind it that have no gradient, where all of
        #: these have one, belong to an output that the loss does not use, such as a pooler's
        self._trunk = names_of_trunk(
            {name: anatomy.block_of(name) for name, _ in anatomy.model.named_parameters()}
        )
        self._sharing = anatomy.sharing
        #: the names and samples of the last reading
        self._last: tuple[list[str], Tensor] | None = None
        self._indices: tuple[list[str], Tensor, Tensor] | None = None
        #: names of the modules that the forward pass runs; empty while unknown
        self.called_modules: frozenset[str] = frozenset()
        self.clear()

    def clear(self) -> None:
        """Forget the gathered gradients: an update begins."""
        #: samples of the matrices' gradients, as the optimiser uses them
        self.samples: dict[str, Tensor] = {}
        self._names: list[str] = []
        self._norms: list[Tensor] = []
        self._joined_samples: list[Tensor] = []
        self._missing: list[str] = []
        self._n_expected = 0
        self._is_half = False
        is_single = len(self._optimisers) < 2
        self._groups = {} if is_single else groups_by_parameter(self._optimisers)

    @torch.no_grad()
    def gather(self, optimiser: torch.optim.Optimizer | None, metrics: AsyncMetrics) -> None:
        """Take the gradients that a step uses; with one optimiser, all gradients."""
        parameters = {
            name: parameter
            for name, parameter in self._anatomy.parameters.items()
            if not self._groups or self._steps_in(optimiser, parameter)
        }
        no_gradient = [name for name, parameter in parameters.items() if parameter.grad is None]
        self._missing += [name for name in no_gradient if self._takes_part(name)]
        self._n_expected += len(parameters)
        gradients = [
            (name, parameter.grad)
            for name, parameter in parameters.items()
            if parameter.grad is not None and not parameter.grad.is_sparse
        ]
        divisor = _divisor(optimiser)
        if self._anatomy.gathers_tensors:
            # one at a time: no process may be able to hold all whole gradients
            for name, gradient in gradients:
                self._take([(name, self._anatomy.read(gradient))], divisor, metrics)
            return
        parts = [(name, self._anatomy.read(gradient)) for name, gradient in gradients]
        # a process may have no part of a small tensor
        parts = [(name, part) for name, part in parts if part.numel()]
        if parts:
            self._take(parts, divisor, metrics)

    def _take(
        self, gradients: _NamedGradients, divisor: Tensor | None, metrics: AsyncMetrics
    ) -> None:
        metrics.guard("gradient.norm", self._take_norms, gradients, divisor)
        metrics.guard("gradient.zeros", self._take_samples, gradients, divisor)

    def _steps_in(self, optimiser: torch.optim.Optimizer | None, parameter: Tensor) -> bool:
        """Whether it belongs to this optimiser; the first one also has those that none moves."""
        owner, _ = self._groups.get(id(parameter), (self._optimisers[0], {}))
        return owner is optimiser

    def _take_norms(self, gradients: _NamedGradients, divisor: Tensor | None) -> None:
        # as torch.nn.utils.get_total_norm, but this keeps the norm of each tensor
        tensor_norms = cast("Any", torch)._foreach_norm([gradient for _, gradient in gradients])
        norms = torch.stack(
            [norm.to(tensor_norms[0].device, torch.float32) for norm in tensor_norms]
        )
        self._names += [name for name, _ in gradients]
        self._norms.append(norms if divisor is None else norms / divisor.to(norms))

    def _take_samples(self, gradients: _NamedGradients, divisor: Tensor | None) -> None:
        raw = {name: sample(grad) for name, grad in gradients if name in self._anatomy.matrices}
        if not raw:
            return
        wide = {name: gradient.float() for name, gradient in raw.items()}
        self._joined_samples.append(torch.cat([*wide.values()]))
        self._is_half |= any(gradient.dtype == torch.float16 for gradient in raw.values())
        # copies, because the next optimiser's backward pass may overwrite them
        self.samples |= {
            name: x.clone() if divisor is None else x / divisor.to(x) for name, x in wide.items()
        }

    @torch.no_grad()
    def record(self, metrics: AsyncMetrics) -> None:
        """Record the signs of the gathered gradients: the update is done."""
        is_cut = any(name in self._trunk for name in self._missing)
        share = len(self._missing) / max(1, self._n_expected) if is_cut else 0.0
        metrics.record("gradient.missing", torch.tensor(share, device="cpu"))
        if self._norms:
            norms = torch.cat([norms.to(self._norms[0].device) for norms in self._norms])
            metrics.record("gradient.norm", lambda: norms.square().sum().sqrt())
            metrics.guard("gradient.by_depth", self._profile, norms, metrics)
            metrics.guard("gradient.faint", self._compare_matrices, norms, metrics)
        if self._joined_samples:
            metrics.guard("gradient.zeros", self._record_samples, metrics)

    def _record_samples(self, metrics: AsyncMetrics) -> None:
        """Record the signs of all samples together."""
        samples = torch.cat(
            [numbers.to(self._joined_samples[0].device) for numbers in self._joined_samples]
        )
        names = list(self.samples)
        last, self._last = self._last, (names, samples)
        metrics.record("gradient.zeros", lambda: (samples == 0).double().mean())
        if self._is_half:
            max_half = torch.finfo(torch.float16).max
            metrics.record("gradient.near_max", lambda: samples.abs().amax() / max_half)
        if last is not None and last[0] == names:
            metrics.record("gradient.cosine", lambda: cosine_similarity(samples, last[1], dim=0))

    def _takes_part(self, name: str) -> bool:
        """Whether the forward pass runs a parameter's module, or its parent reads the weights.

        A pooler, for example, has no part in MLM, and weights of global attention have none in a
        call without global tokens. A parent that calls other modules of the same type would call
        this one too, if it used it. Before the first reading all take part.
        """
        module = name.rpartition(".")[0]
        parent = module.rpartition(".")[0]
        run = self.called_modules
        if not run or module in run:
            return True
        return bool(parent) and parent in run and not self._calls_alike(parent, module)

    def _calls_alike(self, parent: str, module: str) -> bool:
        """Whether the forward pass runs another child of a module, of the same type.

        Args:
            parent: The name of the module.
            module: The name of the child that is not run.
        """
        children = dict(self._anatomy.model.get_submodule(parent).named_children())
        kind = type(children.get(module.rpartition(".")[2]))
        return any(
            type(child) is kind and f"{parent}.{name}" in self.called_modules
            for name, child in children.items()
        )

    def _compare_matrices(self, norms: Tensor, metrics: AsyncMetrics) -> None:
        """Record each matrix's gradient, of that of the middle one; 1 for one of zeros.

        One of zeros has its own signs: a branch that begins at zero, and experts without tokens.
        """
        places = [i for i, name in enumerate(self._names) if name in self._anatomy.matrices]
        if len(places) < _FEWEST_MATRICES:
            return
        values = norms[places].double()
        middle = values.masked_fill(values == 0, torch.nan).nanmedian()
        ratios = torch.where(values > 0, values / middle, 1.0)
        metrics.record("gradient.faint", ratios, tuple(self._names[i] for i in places))

    def _profile(self, norms: Tensor, metrics: AsyncMetrics) -> None:
        blocks = tuple(self._anatomy.blocks)
        # frozen blocks have no gradients
        trained = {depth for depth in self._depth.values() if depth is not None}
        if len(trained) < 2:
            return
        indices, depth = self._block_indices(self._names, norms.device)
        squares = norms.new_zeros(len(blocks)).index_add_(0, depth, norms[indices].square())
        profile = squares.sqrt()
        if self._sharing:  # the gradient of a shared weight is one sum over its layers
            owners = [depth for depth in range(len(blocks)) if depth not in self._sharing]
            names = tuple(blocks[depth] for depth in owners)
            metrics.record("gradient.by_depth", profile[owners], names)
        else:
            metrics.record("gradient.by_depth", profile, blocks)
        first, last = profile[min(trained)], profile[max(trained)]
        metrics.record("gradient.depth_ratio", lambda: first / last.clamp(min=1e-30))

    def _block_indices(self, names: list[str], device: torch.device) -> tuple[Tensor, Tensor]:
        """Indices of the parameters that lie in a block, and the depth of each one's block.

        Cached, because moving a list to a device waits for the device.
        """
        if self._indices is None or self._indices[0] != names:
            pairs = [(i, d) for i, name in enumerate(names) if (d := self._depth[name]) is not None]
            indices = torch.tensor([i for i, _ in pairs], dtype=torch.long, device=device)
            depth = torch.tensor([d for _, d in pairs], dtype=torch.long, device=device)
            self._indices = (names, indices, depth)
        return self._indices[1:]


def names_of_trunk(depths: Mapping[str, int | None]) -> frozenset[str]:
    """The names of all blocks, or else of all layers in lists, and those before them; else all.

    A pooler follows the last block of its own tower, whatever tower comes next. A model whose
    layers share their weights has one block alone.
    """
    names = list(depths)
    in_blocks = [i for i, name in enumerate(names) if depths[name] is not None]
    in_lists = [i for i, name in enumerate(names) if any(map(str.isdigit, name.split(".")))]
    #: the last block within each module, by its name; within the model it is that of ""
    last = {"": len(names)}
    for i in in_blocks or in_lists:
        last |= dict.fromkeys(_modules_around(names[i]), i)
    return frozenset(
        name
        for i, name in enumerate(names)
        if i <= next(last[module] for module in _modules_around(name) if module in last)
    )


def _modules_around(name: str) -> list[str]:
    """The modules that hold a parameter, the innermost one first, and "" for the model."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(len(parts) - 1, -1, -1)]


def _divisor(optimiser: torch.optim.Optimizer | None) -> Tensor | None:
    """The number by which a fused optimiser divides gradients before it uses them."""
    divisor = cast("Any", getattr(optimiser, "grad_scale", None))
    return divisor if isinstance(divisor, Tensor) else None
