"""What a loss makes of outputs (rows, classes) or of one number a row, read from its gradient.

Cross-entropy has the gradient w (softmax(z) - y) by the logits of a row, with one w for all rows of
a class. So the one negative number names the row's class. A squared error has w (z - y).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.place_weights import UNCERTAIN, target_weights
from pellucid.vitals.ledger.pulls import known_classes
from pellucid.vitals.taps.outputs import output_attribute

#: More columns are no classes, and fewer rows say nothing.
_MOST_CLASSES, _FEWEST = 256, 4
#: A softmax's gradient adds up to so little of its size, and rows of a class weigh so much alike.
_BALANCED, _EVEN = 1e-3, 0.02
#: A gradient has a shape if nothing of its square is left but rounding in single precision, and
#: another shape leaves so much more.
_FITS, _WORSE = 1e-9, 10.0
#: Weights follow 1 - p if a line explains so much of their logarithms.
_LINE = 0.9
#: Of a line in the outputs, so little is left, and so many different targets are no constant.
_STRAIGHT, _DIFFERENT, _STEP = 1e-4, 4, 1e-3


def row_outputs(output: object, rows: int) -> Tensor | None:
    """The outputs (rows, columns) or (rows,) of a call with so many rows; None if it has others."""
    values: object = output if isinstance(output, Tensor) else output_attribute(output, "logits")
    if not isinstance(values, Tensor) or values.ndim not in (1, 2) or len(values) != rows:
        return None
    if rows < _FEWEST or not values.is_floating_point():
        return None
    return values if values.ndim == 1 or values.shape[1] <= _MOST_CLASSES else None


def named_classes(gradient: Float[Tensor, "rows classes"]) -> Int[Tensor, " rows"]:
    """The class that each row's gradient makes likelier; `IGNORED` unless it is the only one."""
    return torch.where((gradient < 0).sum(-1) == 1, gradient.argmin(-1), IGNORED)


def hard_classes(
    gradient: Float[Tensor, "rows classes"],
    logits: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Int[Tensor, " rows"]:
    """The labels, if the gradient is that of a softmax whose rows of a class weigh alike.

    Soft labels weigh each row as it is sure, and losses of many labels add up to something.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        labels: What `named_classes` gives.
    """
    gradient = gradient.float()
    is_named = labels >= 0
    classes = labels.clamp_min(0)
    weights = target_weights(gradient, logits.float().softmax(-1), classes) * is_named
    sums = gradient.new_zeros((2, gradient.shape[-1]))
    sums[0].index_add_(0, classes, is_named.float())
    sums[1].index_add_(0, classes, weights)
    usual = (sums[1] / sums[0].clamp_min(1))[classes]
    spread = ((weights - usual).abs() / usual.abs().clamp_min(1e-30)) * is_named
    balance = gradient.sum(-1).abs() / gradient.abs().sum(-1).clamp_min(1e-30)
    is_hard = (spread.amax() < _EVEN) & (balance.amax() < _BALANCED)
    is_paid = (gradient != 0).any(-1)
    is_hard &= (is_named & is_paid).sum() > _LINE * is_paid.sum()
    return torch.where(is_hard, labels, IGNORED)


def squashed_twice(
    gradient: Float[Tensor, "rows classes"],
    logits: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, ""]:
    """1 if the gradient is that of a cross-entropy of probabilities, and not of the logits, else 0.

    With s = softmax(z) or sigmoid(z) taken for logits, it is (softmax(s) - y) times ds/dz.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        labels: The class of each row; rows without one do not count.
    """
    is_class, classes = (x[:, None] for x in known_classes(labels, logits.shape[-1]))
    y = torch.zeros_like(logits, dtype=torch.float64).scatter_(1, classes, 1.0)
    g, z = gradient.double() * is_class, logits.double()
    p, s = z.softmax(-1), z.sigmoid()
    pull = p.softmax(-1) - y
    of_softmax = p * (pull - (p * pull).sum(-1, keepdim=True))
    of_sigmoid = s * (1 - s) * (s.softmax(-1) - y)
    plain, *squashed = (
        _left_over(g, shape * is_class) for shape in (p - y, of_softmax, of_sigmoid)
    )
    best = torch.stack(squashed).amin()
    return ((best < _FITS) & (plain > _WORSE * best)).double()


def _left_over(gradient: Tensor, shape: Tensor) -> Tensor:
    """The share of a gradient's square that no multiple of another one has."""
    product = (gradient * shape).sum()
    size = gradient.square().sum() * shape.square().sum()
    return torch.where(size > 0, 1 - product.square() / size.clamp_min(1e-300), 1.0).clamp_min(0.0)


def focus_sums(
    gradient: Float[Tensor, "rows classes"],
    logits: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, "6 classes"]:
    """For each class the sums of 1, x, y, x x, y y and x y, with x = ln(1 - p) and y = ln w.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        labels: The class of each row.
    """
    n_classes = gradient.shape[-1]
    is_class, classes = known_classes(labels, n_classes)
    p = logits.double().softmax(-1)
    weights = target_weights(gradient.double(), p, classes)
    doubt = 1 - p.gather(-1, classes[:, None])[:, 0]
    counts = is_class & (weights > 0) & (doubt > UNCERTAIN)
    x = torch.where(counts, doubt, 1.0).log()
    y = torch.where(counts, weights, 1.0).log()
    sums = gradient.new_zeros((6, n_classes), dtype=torch.float64)
    for total, part in zip(sums, (counts.double(), x, y, x * x, y * y, x * y), strict=True):
        total.index_add_(0, classes, part)
    return sums


def focus(sums: Float[Tensor, "6 classes"]) -> Float[Tensor, ""]:
    """The power of 1 - p by which rows of a class weigh; 0 if they do not follow it.

    Args:
        sums: What `focus_sums` gives, added up over some updates.
    """
    n = sums[0].clamp_min(1)
    xx, yy, xy = (
        (sums[i] - sums[j] * sums[k] / n).sum() for i, j, k in ((3, 1, 1), (4, 2, 2), (5, 1, 2))
    )
    is_line = (xy.square() > _LINE * xx * yy) & (xx > 0) & (sums[0].sum() >= 4 * _FEWEST)
    return torch.where(is_line, xy / xx.clamp_min(1e-300), 0.0)


def shared_target(
    gradient: Float[Tensor, " rows"], outputs: Float[Tensor, " rows"]
) -> Float[Tensor, " 4"]:
    """Whether a squared error pulls all outputs to one number, and this number.

    Then the largest output, and 1 if the number is above the mean of the outputs, -1 if below.

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
    return torch.stack([is_line.double(), target, z.abs().amax(), -g.mean().sign()])


def shared_targets(rows: Float[Tensor, "updates 4"]) -> Float[Tensor, ""]:
    """The share of the updates whose rows have one target, if it changes from update to update.

    A constant is a target of its own, such as that of a critic, and so are two of them. Means of
    labels come to lie on both sides of the outputs; a loss that raises all outputs without end,
    whose gradient is nearly a line too, has its target always on one.

    Args:
        rows: What `shared_target` gives of each update.
    """
    is_line, targets, outputs, sides = rows.unbind(1)
    is_shared = is_line > 0
    is_on_both = ((sides * is_line).amin() < 0) & ((sides * is_line).amax() > 0)
    size = torch.maximum(targets.abs() * is_line, outputs).amax()
    ordered = torch.where(is_shared, targets, targets.new_tensor(torch.inf)).sort().values
    steps = ordered[1:] - ordered[:-1]
    n_different = 1 + ((steps > _STEP * size) & steps.isfinite()).sum()
    return torch.where((n_different >= _DIFFERENT) & is_on_both, is_line.mean(), 0.0)


class RowLosses:
    """What the losses of some updates make of their rows, added up until it is asked for."""

    def __init__(self) -> None:
        self._squashed: list[Tensor] = []
        self._focus: Tensor | None = None
        self._targets: list[Tensor] = []

    def measure(self, gradient: Tensor, outputs: Tensor, labels: Tensor | None) -> Tensor | None:
        """Measure a call; returns the classes of its rows, if each surely has one.

        Args:
            gradient: Of the loss by the outputs.
            outputs: (rows, columns) or (rows,).
            labels: The class of each row; None to read it off the gradient.
        """
        if outputs.ndim == 1 or outputs.shape[1] == 1:
            self._targets.append(shared_target(gradient.flatten(), outputs.flatten()))
            return None
        if labels is None:
            labels = named_classes(gradient)
            sure_labels = hard_classes(gradient, outputs, labels)
        else:
            sure_labels = labels
        self._squashed.append(squashed_twice(gradient, outputs, labels))
        sums = focus_sums(gradient, outputs, labels)
        self._focus = sums if self._focus is None else self._focus + sums
        return sure_labels

    def take_signs(self) -> dict[str, Tensor]:
        """The signs of the calls so far, which are forgotten."""
        signs: dict[str, Tensor] = {}
        if self._squashed:
            signs["targets.squashed"] = torch.stack(self._squashed).mean()
        if self._focus is not None:
            signs["targets.focus"] = focus(self._focus)
        if len(self._targets) >= _DIFFERENT:
            signs["targets.one_number"] = shared_targets(torch.stack(self._targets))
        self._squashed, self._focus, self._targets = [], None, []
        return signs
