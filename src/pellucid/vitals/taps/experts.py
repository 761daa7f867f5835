"""Mixtures of experts: how evenly the tokens of the fixed rows use them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.maths.divergences import entropy
from pellucid.model import expert_layers
from pellucid.model.experts.routing import Routing
from pellucid.training import Guard
from pellucid.typed import named_modules
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.taps.hooks import Hooks

#: With fewer tokens than that for each expert, some experts have none by chance.
_LEAST_PER_EXPERT = 8


class ExpertTaps:
    """Hooks on the rules of routers; a model without experts has none."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._layers = expert_layers(anatomy.model)
        modules = {} if self._layers else named_modules(anatomy.model)
        self._routers = {
            name: module for name, module in modules.items() if "Router" in type(module).__name__
        }

    @contextmanager
    def measuring(self, metrics: AsyncMetrics) -> Generator[None]:
        """Measure every forward pass within; the last one counts."""
        routings: dict[str, Routing] = {}
        with Hooks(metrics.guard) as hooks:
            for name, layer in self._layers.items():
                hooks.after(layer.rule, "experts.*", _keep(routings, name))
            for name, router in self._routers.items():
                hooks.after(router, "experts.*", _keep_foreign(routings, name))
            yield
        judged = {name: r for name, r in routings.items() if _has_enough_tokens(r)}
        for sign, measure in _SIGNS.items():
            _record(metrics, metrics.guard, sign, measure, judged)


def _keep(routings: dict[str, Routing], name: str) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: tuple[Any, ...], routing: Routing) -> None:
        routings[name] = routing

    return hook


def _keep_foreign(routings: dict[str, Routing], name: str) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        routing = _routing_in(output)
        if routing is not None:
            routings[name] = routing

    return hook


def _routing_in(output: Any) -> Routing | None:
    """The routing in the output of a router of transformers; None if it shows no choice.

    Most give logits, weights and the chosen experts. Switch gives a one at the chosen expert, or
    none for a token that is over the capacity: then the largest logit was the choice.
    """
    if not isinstance(output, tuple):
        return None
    tensors = [t for t in cast("tuple[Any, ...]", output) if isinstance(t, Tensor) and t.ndim > 1]
    flat = [tensor.detach().flatten(0, -2) for tensor in tensors]
    logits = max((t for t in flat if t.is_floating_point()), key=_width, default=None)
    experts = next((t for t in flat if not t.is_floating_point()), None)
    if logits is None or experts is None or logits.shape[0] != experts.shape[0]:
        return None
    if experts.shape[1] == logits.shape[1]:
        experts = logits.topk(1).indices
    scores = logits.softmax(-1)
    return Routing(logits, scores, experts, scores.gather(1, experts))


def _width(tensor: Tensor) -> int:
    return tensor.shape[1]


def _has_enough_tokens(routing: Routing) -> bool:
    n_tokens, n_active = routing.experts.shape
    n_experts = routing.logits.shape[1]
    return n_active < n_experts and n_tokens * n_active >= _LEAST_PER_EXPERT * n_experts


def _record(
    metrics: AsyncMetrics,
    guard: Guard,
    sign: str,
    measure: Callable[[Routing], Tensor],
    routings: dict[str, Routing],
) -> None:
    values = {name: guard(sign, measure, routing) for name, routing in routings.items()}
    values_by_layer = {name: value for name, value in values.items() if value is not None}
    if values_by_layer:
        metrics.record(
            sign,
            torch.stack([value.double() for value in values_by_layer.values()]),
            tuple(values_by_layer),
        )


def _load(routing: Routing) -> Tensor:
    """The share of all choices that went to each expert."""
    counts = torch.bincount(routing.experts.flatten(), minlength=routing.logits.shape[1])
    return counts.double() / routing.experts.numel()


def _unused(routing: Routing) -> Tensor:
    return (_load(routing) == 0).double().mean()


def _largest_load(routing: Routing) -> Tensor:
    return _load(routing).amax() * routing.logits.shape[1]


def _evenness(routing: Routing) -> Tensor:
    """0 if all tokens use the same experts, 1 if all experts get equally many tokens."""
    highest, lowest = math.log(routing.logits.shape[1]), math.log(routing.experts.shape[1])
    return (entropy(_load(routing)) - lowest) / (highest - lowest)


def _entropy(routing: Routing) -> Tensor:
    shares = routing.scores.double()
    shares = shares / shares.sum(-1, keepdim=True)
    return entropy(shares).mean() / math.log(routing.logits.shape[1])


_SIGNS: dict[str, Callable[[Routing], Tensor]] = {
    "experts.unused": _unused,
    "experts.evenness": _evenness,
    "experts.load": _largest_load,
    "experts.entropy": _entropy,
}
