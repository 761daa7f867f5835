"""What the gradients by a model's outputs say of the loss, read as the backward pass meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from pellucid.training import Guard
from pellucid.vitals.call.place_weights import as_logits, paid_entropy
from pellucid.vitals.ledger.batch_rows import Rows, class_range
from pellucid.vitals.ledger.bounded_logits import highest_probability, pull_on_likely_tokens
from pellucid.vitals.ledger.focus import focus_of_places
from pellucid.vitals.ledger.label_tokens import LabelledRows
from pellucid.vitals.ledger.latest_batch import LatestBatch
from pellucid.vitals.ledger.leading_row import states_in
from pellucid.vitals.ledger.pulls import (
    class_logits,
    class_pulls,
    class_smoothing,
    gap_of_places,
    places_and_stride,
    shift_of_rows,
    smoothing_sums,
    token_pulls,
    unevenness,
)
from pellucid.vitals.ledger.row_losses import (
    RowLosses,
    hard_classes,
    named_classes,
    row_outputs,
    span_outputs,
)
from pellucid.vitals.ledger.row_vectors import MOST_LABELS
from pellucid.vitals.taps.hooks import Hook
from pellucid.vitals.taps.outputs import GradientHandle, logits_of
from pellucid.vitals.taps.recorded_call import is_plain

#: Columns of the logits whose gradients tell whether a place is paid for.
_COLUMNS = 8
#: Places whose whole gradients are added up.
_PLACES = 64
#: Multiples of the first number, modulo the second, are spread evenly: their ratio is near the
#: golden one.
_ODD, _SPAN = 40503, 2**16


class OutputGradients:
    """Measures the gradients by outputs: of tokens, of rows with a class, of spans.

    Args:
        guard: Guards measurements.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        #: whether numbers are kept: a page is open
        self.records = False
        #: whether the gradients of all outputs of the next calls are measured
        self.measures_outputs = False
        #: whether gaps in these gradients are to be measured, and what was measured last
        self.measures_gap = False
        self._gap_signs: dict[str, Tensor] = {}
        #: the logits of the same places
        self._gap_logits: Tensor | None = None
        #: the logits of some places, if each is one of few classes
        self._place_logits: Tensor | None = None
        #: sums of the line that smoothed labels make, and of how many calls they are
        self._lines: tuple[Tensor, int] | None = None
        #: the rows of each class, and what they weigh in the loss, as far as was measured
        self._classes: Tensor | None = None
        #: what the losses of an open page make of their rows
        self.rows = RowLosses()
        self.clear()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is measured: no page is open, and no gap is due."""
        return not (self.records or self.measures_gap)

    def clear(self) -> None:
        """Begin anew: an update is done."""
        self.rows.vectors.end_update()
        self.rows.leader.end_update()
        #: sums of the absolute gradients of logits, NaN where too few places are sampled
        self.sizes: list[Tensor] = []
        #: of each of these: the share of targets that follow, and of places that are pushed down
        self.pulls: list[Tensor] = []
        #: the first rows of the last measured call, and the class of each
        self.labelled: LabelledRows | None = None
        #: the lowest and the highest class that the loss names, if the model is given no labels
        self.class_range: Tensor | None = None

    def take_signs(self) -> Iterator[tuple[str, Tensor]]:
        """What the updates of an open page showed; it is forgotten then."""
        if self._classes is not None:
            yield "targets.class_weights", unevenness(self._classes)
        if self._lines is not None:
            yield "targets.class_smoothing", class_smoothing(*self._lines)
        yield from self.rows.take_signs().items()
        self._classes = self._lines = None

    def take_gap(self) -> Iterator[tuple[str, Tensor]]:
        """The last gap, and what the logits of the same places say; they are forgotten then."""
        yield from self._gap_signs.items()
        self._gap_signs = {}

    def watch(self, output: object, batch: LatestBatch | None) -> None:
        """Measure the gradients by the outputs of a call, as far as they are due.

        Args:
            output: What the model returned.
            batch: Knows the rows of the call.
        """
        ids, labels = (None, None) if batch is None else (batch.placed_ids, batch.labels)
        of_rows = class_logits(output, labels)
        if of_rows is None and self.records and batch is not None and ids is not None:
            self._watch_rows(output, len(ids), batch)
        is_due = of_rows is not None or self.measures_outputs or self.measures_gap
        logits = (logits_of(output) if of_rows is None else of_rows) if is_due else None
        if logits is None or not logits.requires_grad or not is_plain(logits):
            return
        if self.measures_gap and of_rows is None and logits.is_contiguous():
            places, stride = places_and_stride(logits.detach())
            self._gap_logits = places[:: 2 * stride].clone()
        self._place_logits = self._keep_places(logits) if of_rows is None else None
        measure = partial(self.measure_tokens, ids)
        if of_rows is not None and isinstance(labels, Tensor):
            texts = batch.rows() if batch is not None and self.records else None
            measure = partial(self.measure_classes, of_rows.detach(), labels, texts)
        self._at_gradient(logits, "logits", measure)

    def watch_head(self, output: object, batch: LatestBatch) -> None:
        """Measure the gradients by what a head gives for each row, as far as they are due.

        Args:
            output: What the head returned.
            batch: Knows the rows of the latest call of the body.
        """
        ids = batch.placed_ids
        if self.records and ids is not None:
            self._watch_rows(output, len(ids), batch)

    def _keep_places(self, logits: Tensor) -> Tensor | None:
        """A copy of the logits of some places, if these are few classes of each token."""
        is_due = self.records and self.measures_outputs and logits.is_contiguous()
        if not is_due or not 1 < logits.shape[-1] <= MOST_LABELS:
            return None
        places, stride = places_and_stride(logits.detach())
        return places[::stride].clone()

    def _watch_rows(self, output: object, rows: int, batch: LatestBatch) -> None:
        """Measure the gradient by outputs (rows, classes) whose labels the model is not given."""
        self.rows.vectors.add(output, rows, batch.rows)
        for states in states_in(output, rows):
            self._at_gradient(states, "rows", self.rows.leader.add)
        starts = span_outputs(output, rows)
        if starts is not None:
            self._at_gradient_of_rows(starts, self.rows.measure_softmax)
        values = row_outputs(output, rows)
        if values is None:
            return
        texts = batch.rows()

        def measure(gradient: Tensor, before: Tensor) -> None:
            labels = self.rows.measure(gradient, before, None)
            self._pair(texts)
            if labels is None:
                return
            classes, columns = class_range(labels), self.rows.column_labels
            # rows that have no class may have labels, such as one for each column
            if columns is not None and columns.numel() > 0:
                classes = torch.where(classes < 0, class_range(columns), classes)
            self.class_range = classes
            if self.measures_outputs:
                self._add_classes(class_pulls(gradient, before, labels))

        self._at_gradient_of_rows(values, measure)

    def _at_gradient_of_rows(
        self, values: Tensor, measure: Callable[[Tensor, Tensor], object]
    ) -> None:
        """Measure the gradient by outputs, with a copy of them: a loop may write to them."""
        if values.requires_grad and is_plain(values):
            before = values.detach().clone()
            self._at_gradient(values, "rows", lambda gradient: measure(gradient.detach(), before))

    def _at_gradient(self, values: Tensor, kind: str, take: Callable[[Tensor], object]) -> None:
        GradientHandle(values, Hook(self._guard, f"gradients of {kind}", take))

    def _add_classes(self, sums: Tensor) -> None:
        if self._classes is None:
            self._classes = sums
        elif self._classes.shape == sums.shape:  # not of a second head with other classes
            self._classes = self._classes + sums

    def _pair(self, texts: Rows | None) -> None:
        """Keep the rows of a call that was measured, with the class of each."""
        if texts is not None and self.rows.sides is not None:
            self.labelled = LabelledRows(texts, self.rows.sides)

    def measure_tokens(self, ids: Tensor | None, gradient: Tensor) -> None:
        """Measure the gradient by the logits of tokens (batch, time, vocab), or (rows, vocab)."""
        if is_plain(gradient) and gradient.shape[-1] <= MOST_LABELS:
            gradient = gradient.contiguous()  # few numbers: a loss may take them transposed
        if not _is_readable(gradient):
            return
        gradient = gradient.detach()
        places, stride = places_and_stride(gradient)
        sampled = places[::stride]
        if self.measures_gap and gradient.ndim == 3 and gradient.dtype != torch.float16:
            self._measure_gap(sampled)
        if not (self.records and self.measures_outputs):
            return
        self.sizes.append(_size(places))
        logits = self._place_logits
        if logits is not None and logits.shape == sampled.shape:
            labels = hard_classes(sampled, logits, named_classes(sampled))
            self._add_classes(class_pulls(sampled, logits, labels))
            self.rows.class_outputs.add_places(sampled, logits, labels)
        if gradient.ndim == 3:
            numbers = torch.arange(0, len(places), stride, device=places.device)
            own_ids = ids if ids is not None and ids.shape == gradient.shape[:2] else None
            shift = shift_of_rows(gradient, own_ids)
            self.pulls.append(torch.cat([token_pulls(sampled, numbers, own_ids), shift[None]]))

    def _measure_gap(self, sampled: Tensor) -> None:
        """Measure the gradient (places, vocab) of some places, and the logits of every other."""
        self.measures_gap = False
        gradient, outputs = sampled[::2], self._gap_logits
        self._gap_logits = None
        if outputs is None or outputs.shape != gradient.shape:
            self._gap_signs = {"targets.gap": gap_of_places(sampled)}
            return
        gradient, logits = as_logits(gradient, outputs)
        self._gap_signs = {
            "targets.gap": gap_of_places(gradient),
            "targets.focus": focus_of_places(gradient, logits),
            "logits.pull": pull_on_likely_tokens(gradient, logits),
            "logits.most": highest_probability(logits),
            "predictions.paid_entropy": paid_entropy(gradient, logits),
        }

    def measure_classes(
        self, logits: Tensor, labels: Tensor, texts: Rows | None, gradient: Tensor
    ) -> None:
        """Measure the gradient by the logits (rows, classes) of rows with known labels.

        Args:
            logits: A copy of them.
            labels: The labels that the model is given.
            texts: The rows that it reads.
            gradient: Of the loss by the logits.
        """
        if not (self.records and _is_readable(gradient)):
            return
        gradient = gradient.detach()
        sums, n = self._lines or (0, 0)
        self._lines = (sums + smoothing_sums(gradient, logits, labels), n + 1)
        self.rows.measure(gradient, logits, labels)
        self._pair(texts)
        if not self.measures_outputs:
            return
        self.sizes.append(_size(places_and_stride(gradient)[0]))
        pulls = class_pulls(gradient, logits, labels)
        self._add_classes(pulls)
        lowered = (pulls[1] < 0).sum() / (pulls[0] > 0).sum().clamp_min(1)
        unknown = -torch.ones_like(lowered)
        self.pulls.append(torch.stack([unknown, lowered, unknown]))


def _is_readable(gradient: Tensor) -> bool:
    """Whether the numbers of a gradient can be read in their order without a copy."""
    return is_plain(gradient) and gradient.is_contiguous() and gradient.numel() > 0


def _size(places: Tensor) -> Tensor:
    """The sum of a gradient's absolute values, from some of its places; NaN if unknown.

    Places that are paid for are read first, evenly spread: of a masked model they are a few.

    Args:
        places: (places, columns) the gradient.
    """
    # a few columns tell which places are paid for, without reading all of them
    is_paid = (places[:, :_COLUMNS] != 0).any(-1)
    turns = is_paid + torch.arange(len(places), device=places.device) * _ODD % _SPAN / (2 * _SPAN)
    sampled = places[turns.topk(min(_PLACES, len(places))).indices]
    of_places = sampled.abs().sum(-1, dtype=torch.float32)
    n_sampled = (of_places > 0).sum()
    n_paid = is_paid.sum().clamp_min(n_sampled)
    total = of_places.sum() * n_paid / n_sampled.clamp_min(1)
    # if only the target's number has a gradient, as of -log p by p, these are no logits
    is_of_logits = ((sampled != 0).sum(-1) > 1).any()
    return torch.where(is_of_logits, total, torch.nan)
