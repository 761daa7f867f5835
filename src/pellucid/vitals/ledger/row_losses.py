"""What a loss makes of outputs (rows, classes) or of one number a row, read from its gradient.

Cross-entropy has the gradient w (softmax(z) - y) by the logits of a row, with one w for all rows of
a class. So the one negative number names the row's class. A squared error has w (z - y).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.place_weights import UNCERTAIN, as_logits, target_weights
from pellucid.vitals.ledger.binary_losses import (
    exclusive_labels,
    fits_best,
    impossible_labels,
    label_weights,
    several_labels,
    sigmoid_twice,
    unevenness_of_labels,
)
from pellucid.vitals.ledger.bounded_classes import ClassOutputs
from pellucid.vitals.ledger.class_temperature import temperature, temperature_sums
from pellucid.vitals.ledger.focus import ease, ease_sums, focus, focus_sums
from pellucid.vitals.ledger.leading_row import LeadingRow
from pellucid.vitals.ledger.pulls import known_classes, smoothing_of_rows
from pellucid.vitals.ledger.row_numbers import (
    DIFFERENT,
    adds_up_to_zero,
    entropy_of_counts,
    rows_without_first,
    shared_target,
    shared_targets,
    squared_errors,
    squared_targets,
)
from pellucid.vitals.ledger.row_vectors import MOST_LABELS, RowVectors
from pellucid.vitals.taps.outputs import output_attribute

#: More columns are no classes, and fewer rows say nothing.
_MOST_CLASSES, _FEWEST = 256, 4
#: Of labels that do not exclude each other, so many are set against the words of their rows.
_COLUMNS = 8
#: Rows of a class weigh so much alike.
_EVEN = 0.02
#: A row whose likeliest class has less is not learnt: its gradient is not 0 by rounding.
_DOUBTFUL = 0.9
#: Nearly all rows that are paid for have one class.
_NEARLY_ALL = 0.9


def row_outputs(output: object, rows: int) -> Tensor | None:
    """The outputs (rows, columns) or (rows,) of a call with so many rows; None if it has others."""
    values: object = output if isinstance(output, Tensor) else output_attribute(output, "logits")
    if not isinstance(values, Tensor) or values.ndim not in (1, 2) or len(values) != rows:
        return None
    if rows < _FEWEST or not values.is_floating_point():
        return None
    return values if values.ndim == 1 or values.shape[1] <= _MOST_CLASSES else None


def span_outputs(output: object, rows: int) -> Tensor | None:
    """The logits (rows, places) of where the answer in each row starts; None if there are none."""
    values: object = output_attribute(output, "start_logits")
    if not isinstance(values, Tensor) or values.ndim != 2 or len(values) != rows:
        return None
    return values if values.is_floating_point() and values.shape[1] > 1 else None


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
    p = logits.float().softmax(-1)
    # the weight of a row that is nearly sure does not show, and no soft label is that sure
    is_open = is_named & (1 - p.gather(-1, classes[:, None])[:, 0] > UNCERTAIN)
    weights = target_weights(gradient, p, classes) * is_open
    sums = gradient.new_zeros((2, gradient.shape[-1]))
    sums[0].index_add_(0, classes, is_open.float())
    sums[1].index_add_(0, classes, weights)
    usual = (sums[1] / sums[0].clamp_min(1))[classes]
    spread = ((weights - usual).abs() / usual.abs().clamp_min(1e-30)) * is_open
    is_hard = (spread.amax() < _EVEN) & adds_up_to_zero(gradient).all()
    is_paid = (gradient != 0).any(-1)
    is_hard &= (is_named & is_paid).sum() > _NEARLY_ALL * is_paid.sum()
    return torch.where(is_hard, labels, IGNORED)


def squashed_twice(
    gradient: Float[Tensor, "rows classes"],
    logits: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, ""]:
    """1 if the gradient is that of a cross-entropy of probabilities, and not of the logits, else 0.

    With s = softmax(z) or sigmoid(z) taken for logits, it is (softmax(s) - y) times ds/dz. While
    logits are small that hardly differs from row to row, and no more than a margin's gradient.

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
    plain, margin, *squashed = (
        _left_over(g, shape * is_class) for shape in (p - y, g.sign(), of_softmax, of_sigmoid)
    )
    return fits_best(torch.stack(squashed).amin(), plain, margin)


def _left_over(gradient: Tensor, shape: Tensor) -> Tensor:
    """The share of a gradient's square that no multiple of another one has."""
    product = (gradient * shape).sum()
    size = gradient.square().sum() * shape.square().sum()
    return torch.where(size > 0, 1 - product.square() / size.clamp_min(1e-300), 1.0).clamp_min(0.0)


class RowLosses:
    """What the losses of some updates make of their rows, added up until it is asked for."""

    def __init__(self) -> None:
        self._squashed: list[Tensor] = []
        self._focus: Tensor | None = None
        self._ease: Tensor | None = None
        self._temperature: Tensor | None = None
        self._targets: list[Tensor] = []
        #: sums of `label_weights`, the shares of impossible and of several labels, squared errors
        self._label_weights: Tensor | None = None
        self._shares: dict[str, list[Tensor]] = {}
        self.class_outputs = ClassOutputs()
        self._squares: list[Tensor] = []
        #: what the calls make of their rows, if they give vectors
        self.vectors = RowVectors()
        #: the row that gets most of the gradient
        self.leader = LeadingRow()
        #: how often each class came so far
        self._class_counts: Tensor | None = None
        #: how often each label of each column came so far, of binary losses
        self._label_counts: Tensor | None = None
        #: the class of each row of the last call, or on which side of the mean its target is; of
        #: binary losses also the label of each column
        self.sides: Tensor | None = None
        #: the label of each row and column of the last call, of binary losses
        self.column_labels: Tensor | None = None

    def measure(self, gradient: Tensor, outputs: Tensor, labels: Tensor | None) -> Tensor | None:
        """Measure a call; returns the classes of its rows, if each surely has one.

        Args:
            gradient: Of the loss by the outputs.
            outputs: (rows, columns) or (rows,).
            labels: The class of each row; None to read it off the gradient.
        """
        self.column_labels = None
        if outputs.ndim == 1 or outputs.shape[1] == 1:
            column, numbers = gradient.reshape(-1, 1), outputs.reshape(-1, 1)
            self._targets.append(shared_target(column[:, 0], numbers[:, 0]))
            self._squashed.append(sigmoid_twice(column, numbers))
            weights = self._measure_columns(column, numbers)
            # a binary cross-entropy says which label it is, whatever the output
            self._measure_numbers(column[:, 0], numbers[:, 0], weights.abs().sum() > 0)
            return None
        gradient, outputs = as_logits(gradient, outputs)
        classes = named_classes(gradient) if labels is None else labels
        squashed = squashed_twice(gradient, outputs, classes)
        hard_labels = hard_classes(gradient, outputs, classes)
        self.class_outputs.add_rows(gradient, outputs, hard_labels)
        sure_labels = hard_labels if labels is None else labels
        if labels is None:
            squashed = torch.maximum(squashed, sigmoid_twice(gradient, outputs))
            if gradient.shape[1] <= MOST_LABELS:
                self._measure_columns(gradient, outputs)
            self._add_share("targets.class_smoothing", smoothing_of_rows(gradient, outputs))
            self._add_share("targets.several", several_labels(gradient, outputs))
            self._add_share("targets.exclusive", exclusive_labels(gradient, outputs))
        self._squashed.append(squashed)
        is_silent = (gradient == 0).all(-1) & (outputs.softmax(-1).amax(-1) < _DOUBTFUL)
        has_classes = (sure_labels >= 0).any()
        self._add_share("targets.unclassed", (is_silent & has_classes).double().mean())
        self._count_classes(sure_labels, gradient.shape[1])
        self.sides = sure_labels if gradient.shape[1] <= MOST_LABELS else None
        if self.sides is not None and self.column_labels is not None:
            columns = self.column_labels.view(gradient.shape)[:, :_COLUMNS]
            self.sides = torch.cat([sure_labels[:, None], columns], 1)
        self._focus = _added(self._focus, focus_sums(gradient, outputs, classes))
        self._ease = _added(self._ease, ease_sums(gradient, outputs))
        sums = temperature_sums(gradient, outputs, classes)
        self._temperature = _added(self._temperature, sums)
        return sure_labels

    def measure_softmax(self, gradient: Tensor, logits: Tensor) -> None:
        """Measure a loss that makes one of the columns of each row likelier, such as a place.

        Args:
            gradient: Of the loss by the logits.
            logits: (rows, columns).
        """
        targets = named_classes(gradient)
        self._squashed.append(squashed_twice(gradient, logits, targets))
        sums = temperature_sums(gradient, logits, targets)
        self._temperature = _added(self._temperature, sums)

    def _measure_numbers(self, gradient: Tensor, outputs: Tensor, is_binary: Tensor) -> None:
        """Measure a squared error, and note which rows have the higher targets, or the label 1."""
        targets = squared_targets(gradient, outputs)
        self._squares.append(squared_errors(gradient, targets))
        labels = torch.where(gradient == 0, IGNORED, (gradient < 0).long())
        self._count_classes(torch.where(is_binary, labels, IGNORED), 2)
        self.sides = torch.where(is_binary, labels, (targets > targets.mean()).long())

    def _count_classes(self, labels: Tensor, n_classes: int) -> None:
        is_class, classes = known_classes(labels, n_classes)
        counts = torch.zeros(n_classes, device=labels.device)
        counts.index_add_(0, classes, is_class.float())
        self._class_counts = _added(self._class_counts, counts)

    def _measure_columns(self, gradient: Tensor, outputs: Tensor) -> Tensor:
        """Measure a loss that may give each column a label of its own; returns `label_weights`."""
        weights = label_weights(gradient, outputs)
        is_binary = weights.abs().sum((1, 2)) > 0
        self.column_labels = torch.where(is_binary, (gradient < 0).long(), IGNORED).flatten()
        # columns, labels
        self._label_counts = _added(self._label_counts, weights[:, 0])
        self._label_weights = _added(self._label_weights, weights)
        self._add_share("targets.impossible", impossible_labels(gradient, outputs))
        return weights

    def _add_share(self, id: str, share: Tensor) -> None:
        self._shares.setdefault(id, []).append(share)

    def take_signs(self) -> dict[str, Tensor]:
        """The signs of the calls so far, which are forgotten."""
        signs: dict[str, Tensor] = {}
        if self._squashed:
            signs["targets.squashed"] = torch.stack(self._squashed).mean()
        if self._focus is not None:
            signs["targets.focus"] = focus(self._focus)
        if self._ease is not None:
            signs["targets.ease"] = ease(self._ease)
        if self._temperature is not None:
            signs["logits.temperature"] = temperature(self._temperature)
        if len(self._targets) >= DIFFERENT:
            signs["targets.one_number"] = shared_targets(torch.stack(self._targets))
        if self._class_counts is not None:
            signs["targets.none_first"] = rows_without_first(self._class_counts)
            entropy = entropy_of_counts(self._class_counts)
            if self._label_counts is not None:
                of_columns = entropy_of_counts(self._label_counts).mean()
                entropy = torch.where(self._class_counts.sum() > 0, entropy, of_columns)
            signs["targets.entropy"] = entropy
        signs |= self.vectors.take_signs() | self.leader.take_signs()
        signs |= self.class_outputs.take_signs()
        if self._label_weights is not None:
            signs["targets.label_weights"] = unevenness_of_labels(self._label_weights)
        signs |= {id: torch.stack(shares).mean() for id, shares in self._shares.items()}
        if len(self._squares) >= DIFFERENT:
            error, mean, square = torch.stack(self._squares).mean(0).unbind()
            signs |= {"targets.square": error, "targets.variance": square - mean * mean}
        self._squashed, self._focus, self._targets = [], None, []
        self._temperature = self._ease = None
        self._label_weights, self._shares, self._squares = None, {}, []
        return signs


def _added(earlier: Tensor | None, sums: Tensor) -> Tensor:
    """The sums added to earlier ones; a call with another number of outputs begins anew."""
    return sums if earlier is None or earlier.shape != sums.shape else earlier + sums
