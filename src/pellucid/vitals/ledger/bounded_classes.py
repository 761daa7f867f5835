"""Outputs of classes that something bounds before the softmax of the loss: a sigmoid, tanh or ReLU.

Under a sigmoid all outputs lie between 0 and 1, around 0.5 at first. A tanh drives them against -1
and 1. A ReLU leaves many at exactly 0, and none below. Logits are free: a head makes about half of
them negative, and they grow.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

#: So near to -1 or 1 an output of a tanh stands at its bound, and so many of all do at either one.
_AT_BOUND, _CROWD, _REACHED = 0.95, 0.1, 0.99
#: Outputs that hardly differ are those of a head of zeros, or of nothing but its biases.
_LEAST_RANGE, _MIDDLE = 0.05, 0.5
#: Fewer outputs than these say nothing of all.
_FEWEST = 200
#: A gradient is that of a mean if no part of it is further off than this share of a row's weight.
_EXACT = 1e-2


def bound_sums(
    gradient: Float[Tensor, "rows classes"],
    outputs: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, " 7"]:
    """What `highest_share` needs of a call: four numbers to add up, and three to take the highest.

    They are the number of outputs, and how many stand near 1, near -1 and at 0. Then the negative
    of the lowest output, the highest one, and the number of classes.

    Args:
        gradient: Of the loss by the outputs.
        outputs: What the model gives for each class.
        labels: The class of each row where the gradient is that of a softmax, else below 0.
    """
    is_row = ((labels >= 0) & (gradient != 0).any(-1))[:, None]
    z = outputs.double()
    is_any = torch.ones_like(z, dtype=torch.bool)
    parts = (is_any, z > _AT_BOUND, z < -_AT_BOUND, z == 0)
    counts = [(is_row & part).sum().double() for part in parts]
    lowest = torch.where(is_row, z, torch.inf).amin()
    highest = torch.where(is_row, z, -torch.inf).amax()
    return torch.stack([*counts, -lowest, highest, z.new_tensor(z.shape[1])])


def highest_share(calls: Float[Tensor, "calls 7"]) -> Float[Tensor, ""]:
    """The most that outputs with two bounds leave a class, as a probability; 1 if they have none.

    Args:
        calls: What `bound_sums` gives of each call.
    """
    n, n_upper, n_lower, _ = calls[:, :4].sum(0).unbind()
    lowest, (highest, n_classes) = -calls[:, 4].amax(), calls[:, 5:].amax(0).unbind()
    is_squashed = (lowest > 0) & (highest > _MIDDLE) & (highest <= 1)
    is_squashed &= highest - lowest > _LEAST_RANGE
    reaches_both = torch.minimum(-lowest, highest) > _REACHED
    is_crowded = torch.minimum(n_upper, n_lower) >= _CROWD * n
    is_crowded &= reaches_both & (torch.maximum(-lowest, highest) <= 1)
    reach = torch.where(is_squashed, 1.0, 2.0).to(n)
    most = 1 / (1 + (n_classes - 1) * (-reach).exp())
    return torch.where((n >= _FEWEST) & (is_squashed | is_crowded), most, 1.0)


def share_cut_off(calls: Float[Tensor, "calls 7"]) -> Float[Tensor, ""]:
    """The share of outputs that are exactly 0, if none is below and some are above; 0 otherwise.

    Args:
        calls: What `bound_sums` gives of each call.
    """
    n, n_zero = calls[:, 0].sum(), calls[:, 3].sum()
    lowest, highest = -calls[:, 4].amax(), calls[:, 5].amax()
    is_cut = (n >= _FEWEST) & (lowest == 0) & (highest > _LEAST_RANGE)
    return torch.where(is_cut, n_zero / n.clamp_min(1), 0.0)


def mean_nats(
    gradient: Float[Tensor, "rows classes"],
    outputs: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, ""]:
    """-log p of the classes of a call, if its gradient is that of their plain mean; NaN if not.

    Args:
        gradient: Of the loss by the outputs.
        outputs: What the model gives for each class.
        labels: The class of each row; below 0 without one.
    """
    g, log_p = gradient.double(), outputs.double().log_softmax(-1)
    is_row, classes = labels >= 0, labels.clamp_min(0)[:, None]
    n = is_row.sum()
    shape = log_p.exp().scatter_add(1, classes, -torch.ones_like(log_p[:, :1]))
    is_mean = ((g * n - shape).abs().amax(-1) < _EXACT).where(is_row, True).all()
    nats = -(log_p.gather(1, classes)[:, 0].where(is_row, 0.0)).sum() / n.clamp_min(1)
    return torch.where(is_mean & (n > 0), nats, torch.nan)


class ClassOutputs:
    """Collects what some calls show of the outputs of classes."""

    def __init__(self) -> None:
        self._calls: list[Tensor] = []
        self._nats: list[Tensor] = []

    def add_places(self, gradient: Tensor, outputs: Tensor, labels: Tensor) -> None:
        """Take some rows or places of a call.

        Args:
            gradient: Of the loss by the outputs.
            outputs: (rows, classes).
            labels: The class of each row where the gradient is that of a softmax, else below 0.
        """
        self._calls.append(bound_sums(gradient, outputs, labels))

    def add_rows(self, gradient: Tensor, outputs: Tensor, labels: Tensor) -> None:
        """Take all rows of a call.

        Args:
            gradient: Of the loss by the outputs.
            outputs: (rows, classes).
            labels: The class of each row where the gradient is that of a softmax, else below 0.
        """
        self.add_places(gradient, outputs, labels)
        self._nats.append(mean_nats(gradient, outputs, labels))

    def take_signs(self) -> dict[str, Tensor]:
        """The signs of the calls so far, which are forgotten."""
        signs: dict[str, Tensor] = {}
        if self._calls:
            calls = torch.stack(self._calls)
            signs["logits.class_most"] = highest_share(calls)
            signs["logits.class_zeros"] = share_cut_off(calls)
        if self._nats:
            signs["targets.class_nats"] = torch.stack(self._nats).mean().nan_to_num(0.0)
        self._calls, self._nats = [], []
        return signs
