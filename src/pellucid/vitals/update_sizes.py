"""What optimisers make of gradients: how far weights move, and how large they are.

How weights move is measured on a sample of each matrix, evenly spread and the same every time: no
copy of the weights is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import Anatomy, local
from pellucid.vitals.step_signs import (
    NONE,
    OF_STEPS,
    Step,
    is_adaptive,
    number_in,
    rms,
    sample,
)

Optimisers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer]

#: How many tokens' vectors are looked at, about.
_VECTORS = 512
_NO_GROUP: tuple[None, dict[str, Any]] = (None, {})


class Updates:
    """One optimiser's steps, or several that step together."""

    def __init__(self, anatomy: Anatomy, optimisers: Sequence[torch.optim.Optimizer]) -> None:
        self._anatomy = anatomy
        self._optimisers = tuple(optimisers)
        #: samples of the weights that an update begins with
        self._weights: dict[str, Tensor] = {}
        # asked before training begins, for it waits for the device
        self._from_zero = {
            name for name in anatomy.matrices if not bool(local(anatomy.parameters[name]).any())
        }

    @property
    def adaptive(self) -> bool:
        """Whether any matrix is moved by a step that divides by the gradient's own size."""
        groups = groups_by_parameter(self._optimisers)
        matrices = (self._anatomy.parameters[name] for name in self._anatomy.matrices)
        return any(is_adaptive(groups.get(id(matrix), _NO_GROUP)[1]) for matrix in matrices)

    @torch.no_grad()
    def begin(self) -> None:
        """Keep what weights are like before an update."""
        named = {name: self._anatomy.parameters[name] for name in self._anatomy.matrices}
        nonempty = {name: p for name, p in named.items() if local(p).numel()}
        self._weights = {name: sample(p).clone() for name, p in nonempty.items()}

    @torch.no_grad()
    def after(self, gradients: Mapping[str, Tensor], tape: AsyncMetrics) -> None:
        """Measure what an update has done to the weights, and the gains of norms as they are now.

        Args:
            gradients: samples of the matrices' gradients, as the optimisers used them, by name.
            tape: takes the measurements.
        """
        tape.guard("norm.gain", self._gains, tape)
        tape.guard("embeddings.*", self._embeddings, tape)
        weights, self._weights = self._weights, {}
        gradients = {name: x for name, x in gradients.items() if name in weights}
        if gradients:
            self._sizes({name: weights[name] for name in gradients}, tape)
            self._steps(weights, gradients, tape)

    def _steps(
        self, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor], tape: AsyncMetrics
    ) -> None:
        groups = groups_by_parameter(self._optimisers)
        ratios: list[Tensor] = []
        by_sign: dict[str, dict[str, Tensor]] = {}
        for name, gradient in gradients.items():
            parameter, old = self._anatomy.parameters[name], weights[name]
            moved = (sample(parameter) - old).float()
            ratio = rms(moved) / rms(old.float()).clamp(min=1e-30)
            # what began at zero (adapters, outputs) has no size of its own that it could move by
            ratios.append(torch.full_like(ratio, NONE) if name in self._from_zero else ratio)
            step = Step(parameter, old, gradient, moved, *groups.get(id(parameter), _NO_GROUP))
            for sign, measure in OF_STEPS.items():
                value = tape.guard(sign, measure, step)
                if value is not None:
                    by_sign.setdefault(sign, {})[name] = value
        tape.put("update.ratio", lambda: torch.stack(ratios), tuple(gradients))
        for sign, values in by_sign.items():
            tape.put(sign, lambda values=values: torch.stack([*values.values()]), tuple(values))

    def _sizes(self, weights: Mapping[str, Tensor], tape: AsyncMetrics) -> None:
        weights_and_roots = [
            (weight, self._anatomy.parameters[name].shape[-1] ** 0.5)
            for name, weight in weights.items()
        ]
        tape.put(
            "weights.size",
            lambda: torch.stack([rms(weight.float()) * root for weight, root in weights_and_roots]),
            tuple(weights),
        )

    def _gains(self, tape: AsyncMetrics) -> None:
        gains = {
            name: rms(local(gain.detach()).float() + norm.facts.gain_offset)
            for name, norm in self._anatomy.norms.items()
            if (gain := norm.gain) is not None and local(gain).numel()
        }
        if gains:
            tape.put("norm.gain", lambda: torch.stack(list(gains.values())), tuple(gains))

    def _embeddings(self, tape: AsyncMetrics) -> None:
        """RMS of some tokens' vectors, and how much it differs from token to token."""
        largest = max(
            (local(module.weight) for module in self._anatomy.embeddings.values()),
            key=len,
            default=None,
        )
        if largest is None or largest.ndim != 2 or not largest.numel():
            return
        vectors = largest.detach()[:: -(-len(largest) // _VECTORS)].float()
        vector_sizes = vectors.square().mean(-1).sqrt()
        tape.put("embeddings.rms", lambda: vector_sizes.mean())
        tape.put(
            "embeddings.spread",
            lambda: vector_sizes.std(correction=0) / vector_sizes.mean().clamp(min=1e-30),
        )


def rate_of(optimisers: Sequence[torch.optim.Optimizer]) -> float | None:
    """The learning rate of the first group; None where it has none."""
    groups = [group for optimiser in optimisers for group in optimiser.param_groups]
    return number_in(groups[0], "lr") if groups else None


def groups_by_parameter(
    optimisers: Sequence[torch.optim.Optimizer],
) -> dict[int, tuple[torch.optim.Optimizer, dict[str, Any]]]:
    """Each parameter's optimiser and group, by its `id`, as they are now: both can be changed."""
    return {
        id(parameter): (optimiser, group)
        for optimiser in optimisers
        for group in optimiser.param_groups
        for parameter in cast("list[nn.Parameter]", group["params"])
    }


def optimisers_of(given: Optimisers | None) -> tuple[torch.optim.Optimizer, ...]:
    """The optimisers that step, inside whatever wraps them."""
    if given is None:
        return ()
    optimisers = [given] if isinstance(given, torch.optim.Optimizer) else list(given)
    inner_optimisers: list[torch.optim.Optimizer] = []
    for optimiser in optimisers:
        inner: Any = optimiser
        while isinstance(getattr(inner, "optimizer", None), torch.optim.Optimizer):
            inner = inner.optimizer
        if not isinstance(inner, torch.optim.Optimizer):
            raise ConfigError(
                f"{type(optimiser).__name__} is no torch.optim.Optimizer: pass the one whose "
                "step() updates the weights, or several in a list"
            )
        inner_optimisers.append(inner)
    return tuple(inner_optimisers)
