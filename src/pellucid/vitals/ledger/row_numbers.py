"""What a loss makes of one number for each row, and how even classes are."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

#: Of a line in the outputs, so little is left, and so many different targets are no constant.
_STRAIGHT, _STEP = 1e-4, 1e-3
DIFFERENT = 4
#: Of two classes, one without rows leaves nothing to tell apart.
_FEWEST_CLASSES = 3
#: The gradient of a softmax adds up to so little of its size in each row.
_BALANCED = 1e-3


def shared_target(
    gradient: Float[Tensor, " rows"], outputs: Float[Tensor, " rows"]
) -> Float[Tensor, " 4"]:
    """Whether a squared error pulls all outputs to one number, and this number.

    Then the largest output, and how far the number is above the mean of the outputs, in units of
    their range.

    Then g = w (z - m) is a line in z; with a target for each row it is none.

    Args:
        gradient: Of the loss by the outputs.
        outputs: One number for each row.
    """
    g, z = gradient.double(), outputs.double()
    from_g, from_z = g - g.mean(), z - z.mean()
    slope = (from_g * from_z).sum() / from_z.square().sum().clamp_min(1e-300)
    residual = (from_g - slope * from_z).square().sum() / from_g.square().sum().clamp_min(1e-300)
    is_line = (residual < _STRAIGHT) & (slope > 0) & (from_g.abs().amax() > 0)
    target = z.mean() - g.mean() / slope.clamp_min(1e-300)
    rise = (target - z.mean()) / (z.amax() - z.amin()).clamp_min(1e-300)
    return torch.stack([is_line.double(), target, z.abs().amax(), rise])


def shared_targets(rows: Float[Tensor, "updates 4"]) -> Float[Tensor, ""]:
    """The share of the updates whose rows have one target, if it changes from update to update.

    A constant is a target of its own, such as that of a critic, and so are two of them. Means of
    labels come to lie on both sides of the outputs, and close to them. A loss that raises all
    outputs of a call without end, or lowers all of them, has a gradient that is nearly a line too,
    but its target stays far away. An example is a reward model that is called with chosen answers,
    which have the label 1, and then with rejected ones.

    Args:
        rows: What `shared_target` gives of each update.
    """
    is_line, targets, outputs, rises = rows.unbind(1)
    is_shared = is_line > 0
    line_rises = rises * is_line
    is_on_both = (line_rises.amin() < 0) & (line_rises.amax() > 0)
    is_near = torch.where(is_shared, rises.abs(), rises.new_tensor(torch.inf)).amin() < 1
    size = torch.maximum(targets.abs() * is_line, outputs).amax()
    ordered = torch.where(is_shared, targets, targets.new_tensor(torch.inf)).sort().values
    steps = ordered[1:] - ordered[:-1]
    n_different = 1 + ((steps > _STEP * size) & steps.isfinite()).sum()
    return torch.where((n_different >= DIFFERENT) & is_on_both & is_near, is_line.mean(), 0.0)


def rows_without_first(counts: Float[Tensor, " classes"]) -> Float[Tensor, ""]:
    """How many rows the rarest other class has, if the first one has none; 0 if it has some.

    Args:
        counts: The rows of each class; of fewer than three classes it is 0.
    """
    if len(counts) < _FEWEST_CLASSES:
        return counts.new_zeros(())
    return torch.where(counts[0] == 0, counts[1:].amin(), 0.0)


def entropy_of_counts(counts: Float[Tensor, "*columns classes"]) -> Float[Tensor, "*columns"]:
    """The entropy of classes that came so often, in nats; 0 without any.

    The plug-in estimate, plus the first term of its bias (see `baselines`).
    """
    n = counts.sum(-1).clamp_min(1)
    p = counts / n[..., None]
    plain = -(p * p.clamp_min(1e-30).log()).sum(-1)
    return plain + ((counts > 0).sum(-1) - 1).clamp_min(0) / (2 * n)


def squared_targets(
    gradient: Float[Tensor, " rows"], outputs: Float[Tensor, " rows"]
) -> Float[Tensor, " rows"]:
    """The targets of a mean squared error with this gradient: g = 2 (z - y) / n.

    Args:
        gradient: Of the loss by the outputs.
        outputs: One number for each row.
    """
    return outputs.double() - gradient.double() * (len(gradient) / 2)


def squared_errors(
    gradient: Float[Tensor, " rows"], targets: Float[Tensor, " rows"]
) -> Float[Tensor, " 3"]:
    """A mean squared error with this gradient, and the means of its targets and their squares.

    Args:
        gradient: Of the loss by the outputs.
        targets: What `squared_targets` gives.
    """
    errors = gradient.double() * (len(gradient) / 2)
    return torch.stack([errors.square().mean(), targets.mean(), targets.square().mean()])


def adds_up_to_zero(
    gradient: Float[Tensor, "rows classes"], within: float = _BALANCED
) -> Bool[Tensor, " rows"]:
    """Whether each row of a gradient adds up to 0, as softmax makes it do, within a share of it."""
    return gradient.sum(-1).abs() <= within * gradient.abs().sum(-1)
