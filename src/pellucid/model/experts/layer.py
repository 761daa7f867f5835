"""A mixture of experts: a router sends each token to a few feed-forward layers of many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pellucid.model.experts.routing import RouterRule, Routing
from pellucid.model.facts import ExpertsFacts
from pellucid.model.precision import as_given, wide
from pellucid.typed import to_list

#: How the names of layers end that choose experts; their inputs are states, and no units.
ROUTERS = (".router", ".shared_gate")


class RoutingRecord(NamedTuple):
    """The routing of one call, and which of its tokens are real: None if all are."""

    routing: Routing
    real: Bool[Tensor, " tokens"] | None


class Experts(nn.Module):
    """sum over the chosen experts i of w_i expert_i(x), plus the shared layer's output.

    Tokens are sorted by expert, so each expert multiplies the tokens that chose it, and no others.
    There is no capacity: no token is dropped. The router computes in float32 at least.

    Source:
        Shazeer et al. 2017, "Outrageously Large Neural Networks", eq. 1; Gale et al. 2022,
        "MegaBlocks" (no token is dropped); Dai et al. 2024, "DeepSeekMoE", eq. 9 (shared experts).
    See also:
        `pellucid.maths.mixture_of_experts`.
    """

    #: Added to the scores of the router for the choice alone.
    choice_bias: Tensor | None

    def __init__(
        self,
        *,
        d_model: int,
        experts: Iterable[nn.Module],
        rule: RouterRule,
        router_bias: bool = False,
        balancing_rate: float | None = None,
        shared: nn.Module | None = None,
        shared_gate: bool = False,
        weights_on: Literal["output", "input"] = "output",
        load_loss: float = 0.0,
        router_z_loss: float = 0.0,
    ) -> None:
        """Join experts and a router.

        Args:
            d_model: features of a token.
            experts: the feed-forward layers to choose from.
            rule: from the router's logits to weights.
            router_bias: whether the router has biases.
            balancing_rate: see `pellucid.maths.balancing_step`; None for no bias of the choice.
            shared: a layer that every token uses.
            shared_gate: whether a sigmoid of the token scales the shared layer's output.
            weights_on: whether a weight scales the output of an expert, or its input.
            load_loss: the weight of `pellucid.maths.load_balancing_loss` in the training.
            router_z_loss: the weight of `pellucid.maths.router_z_loss` in the training.
        """
        super().__init__()
        self.rule = rule
        self.weights_on: Literal["output", "input"] = weights_on
        self.load_loss, self.router_z_loss = load_loss, router_z_loss
        self.balancing_rate = balancing_rate
        self.experts = nn.ModuleList(experts)
        self.router = nn.Linear(d_model, len(self.experts), bias=router_bias)
        choice_bias = None if balancing_rate is None else torch.zeros(len(self.experts))
        self.register_buffer("choice_bias", choice_bias)
        self.shared = shared
        self.shared_gate = nn.Linear(d_model, 1, bias=False) if shared_gate else None
        #: Gets a record of every call that learns, while it is a list.
        self.records: list[RoutingRecord] | None = None

    def forward(
        self, x: Float[Tensor, "*batch d_model"], real: Bool[Tensor, "*batch"] | None = None
    ) -> Float[Tensor, "*batch d_model"]:
        """The layer's output for each token.

        Args:
            x: (..., d_model). real: (...), True where a token is no padding; only records use it.
        """
        tokens = x.reshape(-1, x.shape[-1])
        routing = self.route(tokens)
        if self.records is not None and torch.is_grad_enabled():
            self.records.append(RoutingRecord(routing, None if real is None else real.flatten()))
        mixed = self._mix(tokens, routing)
        if self.shared is not None:
            shared = self.shared(tokens)
            if self.shared_gate is not None:
                shared = self.shared_gate(tokens).sigmoid() * shared
            mixed = mixed + shared
        return mixed.to(x.dtype).view_as(x)

    def route(self, tokens: Float[Tensor, "tokens d_model"]) -> Routing:
        """The experts of each token, and their weights."""
        with as_given(tokens.device):
            logits = wide(self.router(tokens.to(self.router.weight.dtype)))
            return self.rule(logits, self.choice_bias)

    def _mix(self, tokens: Tensor, routing: Routing) -> Tensor:
        n_tokens, n_active = routing.experts.shape
        by_expert = routing.experts.flatten()
        order = by_expert.argsort(stable=True)
        # the one place that waits for the device: each expert's matrix product has its own size
        counts: list[int] = to_list(by_expert.bincount(minlength=len(self.experts)))
        weights = routing.weights.flatten()[order, None]
        rows = tokens[order // n_active]
        if self.weights_on == "input":
            rows = rows * weights.to(rows.dtype)
        # an expert without a token still gets a gradient, of zeros
        learns = torch.is_grad_enabled()
        outputs = torch.cat(
            [
                expert(part)
                for expert, part in zip(self.experts, torch.split(rows, counts), strict=True)
                if len(part) or learns
            ]
        )
        if self.weights_on == "output":
            outputs = outputs * weights
        # back in the order of the tokens, as a permutation: adding rows up is not deterministic
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        return outputs[places].view(n_tokens, n_active, -1).sum(1)

    def facts(self) -> ExpertsFacts:
        """How many experts there are, and how the router weighs them."""
        return ExpertsFacts(
            n_experts=len(self.experts),
            rule=self.rule.facts(),
            weights_on=self.weights_on,
            choice_bias=None if self.choice_bias is None else "choice_bias",
            shared=None if self.shared is None else "shared",
            shared_gate=None if self.shared_gate is None else "shared_gate",
        )
