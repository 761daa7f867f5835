"""Penalties on weights, as a separate step after the optimiser's: small weights become 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.maths.penalties import elastic_net_penalty, elastic_net_prox

#: How many names an error shows.
_MAX_NAMES = 20


@dataclass(slots=True)
class Penalty:
    """The penalty of one parameter: l1 sum |w| + l2 sum w^2.

    Attributes:
        parameter: whose numbers are penalised.
        l1: the weight of sum |w|.
        l2: the weight of sum w^2.
    """

    parameter: nn.Parameter
    l1: float = 0.0
    l2: float = 0.0

    def value(self) -> Float[Tensor, ""]:
        """The penalty of the weights as they are, without a gradient."""
        return elastic_net_penalty(self.parameter.detach(), l1=self.l1, l2=self.l2)

    @torch.no_grad()
    def step(self, rate: float, blocked: Float[Tensor, ""]) -> None:
        """w <- sign(w) max(|w| - rate l1, 0) / (1 + 2 rate l2), unless `blocked` is 1.

        The penalty is not added to the gradient, which would give no exact zeros, and which Adam
        would divide by its root mean square. After plain gradient descent this is the proximal
        gradient method: its fixed points are the optima of loss plus penalty. After Adam, AdamW or
        Muon it is decoupled like AdamW's weight decay: its strength is relative to their updates,
        not to the gradient of the loss.

        Source:
            Parikh and Boyd 2014, "Proximal Algorithms", sections 4.2 and 6.5.3; Loshchilov and
            Hutter 2019, "Decoupled Weight Decay Regularization" (a step apart from the gradient).
        """
        new_weights = elastic_net_prox(self.parameter, l1=self.l1, l2=self.l2, step=rate)
        # where and not times: nan times zero is nan
        self.parameter.copy_(torch.where(blocked > 0, self.parameter, new_weights))


def penalties_of(
    strengths: Iterable[tuple[float, float, Sequence[str]]], parameters: Mapping[str, nn.Parameter]
) -> list[Penalty]:
    """The penalty of each trainable parameter, from (l1, l2, patterns of names).

    Penalties of several patterns on one parameter add up.

    Raises:
        ConfigError: a pattern matches no parameter that is trained.
    """
    trained = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
    penalties: dict[str, Penalty] = {}
    for l1, l2, patterns in strengths:
        # a parameter that two patterns of one penalty match pays it once
        for name in _matched(patterns, trained):
            penalty = penalties.setdefault(name, Penalty(trained[name]))
            penalty.l1, penalty.l2 = penalty.l1 + l1, penalty.l2 + l2
    return list(penalties.values())


def _matched(patterns: Sequence[str], trained: Mapping[str, nn.Parameter]) -> list[str]:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in trained):
            raise ConfigError(
                f"penalties: {pattern!r} matches no parameter that is trained; there are "
                f"{_list_names(list(trained))}"
            )
    return [name for name in trained if any(fnmatchcase(name, wildcard) for wildcard in patterns)]


def _list_names(names: Sequence[str]) -> str:
    n_omitted = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {n_omitted} more" if n_omitted > 0 else "")
