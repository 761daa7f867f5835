"""The effect of optimisers: how far weights move, and how large they are.

Both are measured on a sample of each matrix, evenly spread and the same every time, without a copy
of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.step_signs import (
    NO_VALUE,
    STEP_SIGNS,
    Step,
    is_adaptive,
    number_in,
    rms,
    sample,
)

Optimisers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer]

#: About how many tokens' vectors are measured.
_VECTORS = 512
_NO_GROUP: tuple[None, dict[str, Any]] = (None, {})


class Updates:
    """One optimiser's steps, or several that step together."""

    def __init__(self, anatomy: Anatomy, optimisers: Sequence[torch.optim.Optimizer]) -> None:
        self._anatomy = anatomy
        self._optimisers = tuple(optimisers)
        #: samples of the weights before an update
        self._weights: dict[str, Tensor] = {}
        # read before training begins, because this waits for the device; other processes may
        # not be here yet
        self._from_zero = None if anatomy.is_sharded else self._find_zeros()

    def _find_zeros(self) -> set[str]:
        """The matrices that are all zero."""
        parameters, read = self._anatomy.parameters, self._anatomy.read
        return {name for name in self._anatomy.matrices if not bool(read(parameters[name]).any())}

    @property
    def adaptive(self) -> bool:
        """Whether the steps of any matrix are divided by the gradient's own size."""
        groups = groups_by_parameter(self._optimisers)
        matrices = (self._anatomy.parameters[name] for name in self._anatomy.matrices)
        return any(is_adaptive(groups.get(id(matrix), _NO_GROUP)[1]) for matrix in matrices)

    @torch.no_grad()
    def begin(self) -> None:
        """Keep samples of the weights before an update."""
        if self._from_zero is None:
            self._from_zero = self._find_zeros()
        parameters, read = self._anatomy.parameters, self._anatomy.read
        samples = {name: sample(read(parameters[name])).clone() for name in self._anatomy.matrices}
        self._weights = {name: x for name, x in samples.items() if x.numel()}

    @torch.no_grad()
    def measure(self, gradients: Mapping[str, Tensor], metrics: AsyncMetrics) -> None:
        """Measure the change of the weights by an update, and the gains of norms after it.

        Args:
            gradients: Samples of the matrices' gradients, as the optimisers used them, by name.
            metrics: Takes the measurements.
        """
        metrics.guard("norm.gain", self._gains, metrics)
        metrics.guard("embeddings.*", self._embeddings, metrics)
        weights, self._weights = self._weights, {}
        gradients = {name: x for name, x in gradients.items() if name in weights}
        if gradients:
            self._sizes({name: weights[name] for name in gradients}, metrics)
        if gradients and self._optimisers:  # without one, an update is over when it is known
            self._steps(weights, gradients, metrics)

    def _steps(
        self, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor], metrics: AsyncMetrics
    ) -> None:
        groups = groups_by_parameter(self._optimisers)
        ratios: list[Tensor] = []
        from_zero = self._from_zero or set()
        by_sign: dict[str, dict[str, Tensor]] = {}
        for name, gradient in gradients.items():
            parameter, old_weights = self._anatomy.parameters[name], weights[name]
            change = (sample(self._anatomy.read(parameter)) - old_weights).float()
            ratio = rms(change) / rms(old_weights.float()).clamp(min=1e-30)
            # matrices that began at zero (adapters, outputs) have no size to compare with; without
            # a gradient nothing has to move, such as an expert that no token went to
            has_no_ratio = (ratio == 0) & ~gradient.any() | (name in from_zero)
            ratios.append(torch.where(has_no_ratio, NO_VALUE, ratio))
            optimiser, group = groups.get(id(parameter), _NO_GROUP)
            read = self._anatomy.read
            step = Step(parameter, old_weights, gradient, change, optimiser, group, read)
            for sign, measure in STEP_SIGNS.items():
                value = metrics.guard(sign, measure, step)
                if value is not None:
                    by_sign.setdefault(sign, {})[name] = value
        metrics.record("update.ratio", lambda: torch.stack(ratios), tuple(gradients))
        for sign, values in by_sign.items():
            metrics.record(
                sign, lambda values=values: torch.stack([*values.values()]), tuple(values)
            )

    def _sizes(self, weights: Mapping[str, Tensor], metrics: AsyncMetrics) -> None:
        weights_and_roots = [
            (weight, self._anatomy.parameters[name].shape[-1] ** 0.5)
            for name, weight in weights.items()
        ]
        metrics.record(
            "weights.size",
            lambda: torch.stack([rms(weight.float()) * root for weight, root in weights_and_roots]),
            tuple(weights),
        )

    def _gains(self, metrics: AsyncMetrics) -> None:
        numbers = {
            name: self._anatomy.read(norm.gain.detach()).float() + norm.facts.gain_offset
            for name, norm in self._anatomy.norms.items()
            if norm.gain is not None
        }
        gains = {name: rms(x) for name, x in numbers.items() if x.numel()}
        if gains:
            metrics.record("norm.gain", lambda: torch.stack(list(gains.values())), tuple(gains))

    def _embeddings(self, metrics: AsyncMetrics) -> None:
        """RMS of some tokens' vectors, and how much it differs from token to token."""
        weights = [module.weight for module in self._anatomy.embeddings.values()]
        largest = self._anatomy.read(max(weights, key=len)) if weights else None
        if largest is None or largest.ndim != 2 or not largest.numel():
            return
        vectors = largest.detach()[:: -(-len(largest) // _VECTORS)].float()
        vector_sizes = vectors.square().mean(-1).sqrt()
        metrics.record("embeddings.rms", lambda: vector_sizes.mean())
        metrics.record(
            "embeddings.spread",
            lambda: vector_sizes.std(correction=0) / vector_sizes.mean().clamp(min=1e-30),
        )


def rate_of(optimisers: Sequence[torch.optim.Optimizer]) -> float | None:
    """The learning rate of the first group; None if it has none."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            return number_in(group, "lr")
    return None


def rests(optimisers: Sequence[torch.optim.Optimizer]) -> bool:
    """Whether a schedule has the rate of the first group at 0, as at the foot of a warm-up."""
    group: dict[str, Any] | None = next(
        (group for optimiser in optimisers for group in optimiser.param_groups), None
    )
    return (
        group is not None and number_in(group, "lr") == 0 and bool(number_in(group, "initial_lr"))
    )


def groups_by_parameter(
    optimisers: Sequence[torch.optim.Optimizer],
) -> dict[int, tuple[torch.optim.Optimizer, dict[str, Any]]]:
    """Each parameter's optimiser and group, by its `id`, at this moment: loops may change both."""
    return {
        id(parameter): (optimiser, group)
        for optimiser in optimisers
        for group in optimiser.param_groups
        for parameter in cast("list[nn.Parameter]", group["params"])
    }


def unwrap_optimisers(optimizer: Optimisers | None) -> tuple[torch.optim.Optimizer, ...]:
    """The optimisers that step, without their wrappers."""
    if optimizer is None:
        return ()
    optimisers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
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
        inner_optimisers += _parts(inner)
    return tuple(inner_optimisers)


def _parts(optimiser: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """The optimisers to which one hands all of its weights, as SAM does; or itself."""
    parts = [part for part in vars(optimiser).values() if isinstance(part, torch.optim.Optimizer)]
    has_all = groups_by_parameter(parts).keys() >= groups_by_parameter([optimiser]).keys()
    return parts if parts and has_all else [optimiser]
