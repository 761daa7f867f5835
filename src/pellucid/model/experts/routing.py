"""The rule of a router: from a logit for each expert to a token's experts and their weights."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pellucid.model.facts import RouterFacts

#: The least sum of weights that they are divided by: all scores can be 0.
_LEAST_SUM = 1e-20


class Groups(NamedTuple):
    """Equal groups of experts, how many of them a token uses, and what a group's score is."""

    n_groups: int
    n_active: int
    score: Literal["largest", "two_largest"]


class Routing(NamedTuple):
    """The choice of each token: its experts, the best first, with their weights."""

    logits: Float[Tensor, "tokens experts"]
    scores: Float[Tensor, "tokens experts"]
    experts: Int[Tensor, "tokens active"]
    weights: Float[Tensor, "tokens active"]

    @property
    def is_chosen(self) -> Float[Tensor, "tokens experts"]:
        """1 where a token uses an expert, else 0."""
        return torch.zeros_like(self.logits).scatter(1, self.experts, 1.0)

    @property
    def weights_of_all(self) -> Float[Tensor, "tokens experts"]:
        """The weight of every expert; 0 if it is not chosen."""
        return torch.zeros_like(self.weights[:, :1].expand_as(self.logits)).scatter(
            1, self.experts, self.weights
        )


class RouterRule(nn.Module):
    """Softmax or sigmoid scores; the largest are chosen, and weigh the experts.

    See also:
        `pellucid.maths.softmax_router`, `pellucid.maths.sigmoid_router`.
    """

    def __init__(
        self,
        *,
        scores: Literal["softmax", "sigmoid"],
        n_active: int,
        normalised: bool,
        scale: float = 1.0,
        groups: Groups | None = None,
    ) -> None:
        super().__init__()
        self.scores: Literal["softmax", "sigmoid"] = scores
        self.n_active, self.normalised, self.scale = n_active, normalised, scale
        self.groups = groups

    def forward(
        self,
        logits: Float[Tensor, "tokens experts"],
        choice_bias: Float[Tensor, " experts"] | None,
    ) -> Routing:
        """The experts of each token, and their weights.

        Args:
            logits: (tokens, experts). choice_bias: (experts,), added to the scores for the choice.
        """
        scores = logits.softmax(-1) if self.scores == "softmax" else logits.sigmoid()
        ranked = scores if choice_bias is None else scores + choice_bias
        if self.groups is not None:
            ranked = _in_best_groups(ranked, self.groups)
        experts = ranked.topk(self.n_active, dim=-1).indices
        weights = scores.gather(1, experts)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdim=True).clamp_min(_LEAST_SUM)
        if self.scale != 1.0:
            weights = weights * self.scale
        return Routing(logits, scores, experts, weights)

    def facts(self) -> RouterFacts:
        """How it weighs the experts."""
        return RouterFacts(
            scores=self.scores,
            n_active=self.n_active,
            normalised=self.normalised,
            scale=self.scale,
            grouped=self.groups is not None,
        )


def _in_best_groups(
    scores: Float[Tensor, "tokens experts"], groups: Groups
) -> Float[Tensor, "tokens experts"]:
    """The scores of the experts in each token's best groups, and -inf for the others.

    Source:
        DeepSeek-AI 2024, "DeepSeek-V2", section 2.2.2 (largest); "DeepSeek-V3 Technical Report",
        section 2.1.2, and its released code (two_largest).
    """
    grouped = scores.view(len(scores), groups.n_groups, -1)
    n_counted = 1 if groups.score == "largest" else 2
    group_scores = grouped.topk(n_counted, dim=-1).values.sum(-1)
    best = group_scores.topk(groups.n_active, dim=-1).indices
    other_groups = torch.ones_like(group_scores, dtype=torch.bool).scatter(1, best, False)
    return grouped.masked_fill(other_groups[..., None], -torch.inf).view_as(scores)
