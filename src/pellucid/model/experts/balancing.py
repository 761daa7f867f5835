"""Even loads for a model's experts: a loss over the router's choices, or a bias that moves."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.maths.experts.balancing import balancing_step, load_balancing_loss, router_z_loss
from pellucid.model.experts.layer import Experts, RoutingRecord
from pellucid.typed import named_modules


class BalancingLoss(NamedTuple):
    """The sum to add to the objective, and its named parts without their weights."""

    total: Float[Tensor, ""]
    parts: Mapping[str, Float[Tensor, ""]]


class LayerLoad(NamedTuple):
    """Of one layer: how many real tokens chose each expert, and the mean share of each score."""

    n_chosen: Float[Tensor, " experts"]
    n_tokens: Float[Tensor, ""]
    probability: Float[Tensor, " experts"]


def expert_layers(model: nn.Module) -> dict[str, Experts]:
    """The mixtures of experts of a model, by path."""
    return {name: m for name, m in named_modules(model).items() if isinstance(m, Experts)}


class Balancing:
    """Reads the routing of each forward pass, and evens it out.

    Args:
        layers: the mixtures of experts of a model.
    """

    def __init__(self, layers: Mapping[str, Experts]) -> None:
        self._layers = layers
        self._loads: dict[str, Tensor] = {}

    @contextmanager
    def recording(self) -> Generator[None]:
        """Within it, calls that learn are recorded."""
        try:
            for layer in self._layers.values():
                layer.records = []
            yield
        finally:
            for layer in self._layers.values():
                layer.records = None

    def take_losses(self, share: float) -> BalancingLoss | None:
        """The losses of the recorded calls; their loads count for the update.

        Args:
            share: of the batch in the calls: the losses of all parts of a batch add up.

        Returns:
            None if no layer has such a loss, or nothing was recorded.
        """
        totals: list[Tensor] = []
        parts: dict[str, list[Tensor]] = {}
        for name, layer in self._layers.items():
            if not layer.records:
                continue
            load = measure_load(layer.records)
            self._loads[name] = self._loads.get(name, 0) + load.n_chosen.detach()
            if layer.load_loss:
                share_by_expert = load.n_chosen / load.n_tokens
                loss = load_balancing_loss(load.probability, share_by_expert.detach())
                totals.append(layer.load_loss * loss)
                parts.setdefault("load_loss", []).append(loss.detach())
            if layer.router_z_loss:
                loss = _z_loss(layer.records)
                totals.append(layer.router_z_loss * loss)
                parts.setdefault("router_z_loss", []).append(loss.detach())
        if not totals:
            return None
        total = share * torch.stack(totals).sum() / len(self._layers)
        mean_losses = {part: share * torch.stack(losses).mean() for part, losses in parts.items()}
        return BalancingLoss(total, mean_losses)

    def loads(self) -> list[Tensor]:
        """How many tokens of the update chose each expert, by layer."""
        return list(self._loads.values())

    @torch.no_grad()
    def step(self, blocked: Float[Tensor, ""]) -> None:
        """Move the biases of the choice after an update; waits for nothing.

        Args:
            blocked: a scalar; above 0 the update was skipped, and the biases stay too.
        """
        for name, load in self._loads.items():
            layer = self._layers[name]
            bias, rate = layer.choice_bias, layer.balancing_rate
            if bias is not None and rate and layer.router.weight.requires_grad:
                next_bias = balancing_step(bias, load.to(bias.dtype), rate=rate)
                bias.copy_(torch.where(blocked > 0, bias, next_bias))
        self._loads = {}


def assemble_balancing(model: nn.Module) -> Balancing | None:
    """What balances a model's experts; None if it has none, or nothing evens out their load."""
    layers = expert_layers(model)
    balanced = any(
        layer.load_loss or layer.router_z_loss or layer.balancing_rate for layer in layers.values()
    )
    return Balancing(layers) if balanced else None


def measure_load(records: list[RoutingRecord]) -> LayerLoad:
    """The load of a layer over its recorded calls; padding counts for nothing."""
    n_chosen, n_tokens, probability = 0.0, 0.0, 0.0
    for routing, real in records:
        weight = torch.ones_like(routing.logits[:, :1])
        weight = weight if real is None else weight * real[:, None]
        shares = routing.scores / routing.scores.sum(-1, keepdim=True)
        n_chosen = n_chosen + (routing.is_chosen * weight).sum(0)
        n_tokens = n_tokens + weight.sum()
        probability = probability + (shares * weight).sum(0)
    n_real = torch.as_tensor(n_tokens).clamp_min(1.0)
    return LayerLoad(torch.as_tensor(n_chosen), n_real, torch.as_tensor(probability) / n_real)


def _z_loss(records: list[RoutingRecord]) -> Tensor:
    losses = torch.cat([router_z_loss(routing.logits) for routing, _ in records])
    if all(real is None for _, real in records):
        return losses.mean()
    weights = torch.cat(
        [
            torch.ones_like(routing.logits[:, 0]) if real is None else real.to(losses.dtype)
            for routing, real in records
        ]
    )
    return (losses * weights).sum() / weights.sum().clamp_min(1.0)
