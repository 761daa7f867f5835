"""What a loop does between two updates: calls of the model, gradients that arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from pellucid.training import Guard
from pellucid.vitals.call.kinship import measure_masked
from pellucid.vitals.ledger.answer_places import share_misplaced
from pellucid.vitals.ledger.batch_rows import Rows, class_range
from pellucid.vitals.ledger.label_tokens import LabelledRows
from pellucid.vitals.ledger.place_focus import focus_of_places
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
from pellucid.vitals.ledger.row_losses import RowLosses, row_outputs, span_outputs
from pellucid.vitals.ledger.witnesses import gradient_numbers, numbers_of
from pellucid.vitals.taps.hooks import Hook, Hooks, LastingHook
from pellucid.vitals.taps.outputs import GradientHandle, logits_of
from pellucid.vitals.taps.recorded_call import is_plain

#: Columns of the logits whose gradients tell whether a place is paid for.
_COLUMNS = 8
#: With fewer of these that the loss pays for, their sum says little about that of all.
_FEWEST_PAID = 16


class Batches(Protocol):
    """What knows the rows of the latest batch."""

    def latest(self) -> tuple[Tensor | None, object]:
        """The ids and the labels of the latest call, None for what it does not have."""
        ...

    def rows(self) -> Rows | None:
        """Its first rows."""
        ...

    def kinship(self) -> Tensor | None:
        """The kinship of its masked tokens and the others, and how often those are equal."""
        ...

    def class_range(self) -> Tensor | None:
        """The lowest and the highest class among its labels."""
        ...

    def count_answers(self) -> Tensor | None:
        """How many answers it marks, and where they stand."""
        ...


class Events:
    """Counts what happens since the last update.

    Args:
        rate: Gives the learning rate now.
        guard: Guards measurements of logits.
    """

    def __init__(self, rate: Callable[[], float | None], guard: Guard) -> None:
        self._rate = rate
        self._guard = guard
        #: whether numbers are kept: a page is open
        self.records = False
        #: whether the gradient of the next call's logits is measured
        self.measures_outputs = False
        #: whether gaps in these gradients are to be measured, and the last measured
        self.measures_gap = False
        self.gap: Tensor | None = None
        #: the logits of the same places, and the power of their doubt by which the loss weighs them
        self._gap_logits: Tensor | None = None
        self.focus: Tensor | None = None
        self.open_calls = (0, 0)
        #: sums of the line that smoothed labels make, and of how many calls they are
        self.lines: tuple[Tensor, int] | None = None
        #: the rows of each class, and what they weigh in the loss, as far as was measured
        self.classes: Tensor | None = None
        #: what the losses of an open page make of their rows
        self.rows = RowLosses()
        #: the kinship of masked tokens and others in each update of an open page
        self.kin: list[Tensor] = []
        #: how many answers stand where, in the updates of an open page
        self.answers: Tensor | None = None
        #: on a parameter, while a page is open
        self.arrival_hooks = Hooks(guard, LastingHook)
        self._batches: Batches | None = None
        self.clear()

    @property
    def is_idle(self) -> bool:
        """Whether a call is only counted: no page is open, and no gap is to be measured."""
        return not (self.records or self.measures_gap)

    def clear(self) -> None:
        """Begin anew: an update is done."""
        self.clear_calls()
        self.arrivals = 0
        #: how many of the gradients arrived where there was none, or one of zeros
        self.fresh: Tensor | int = 0
        self.rates: set[float | None] = set()
        #: numbers of the first gradient that arrived, and of the one that was there
        self.first: tuple[Tensor, Tensor | None] | None = None
        #: numbers of the gradient so far
        self.total: Tensor | None = None
        #: sums of the absolute gradients of logits, NaN where too few places are sampled
        self.outputs: list[Tensor] = []
        #: of each of these: the share of targets that follow, and of places that are pushed down
        self.pulls: list[Tensor] = []
        #: the first rows of the last measured call, and the class of each
        self.labelled: LabelledRows | None = None
        #: the lowest and the highest class that the loss names, if the model is given no labels
        self.class_range: Tensor | None = None
        self._pending: tuple[Tensor, Tensor | None] | None = None

    def take_signs(self) -> Iterator[tuple[str, Tensor]]:
        """What the updates of an open page showed; it is forgotten then."""
        if self.classes is not None:
            yield "targets.class_weights", unevenness(self.classes)
        if self.lines is not None:
            yield "targets.class_smoothing", class_smoothing(*self.lines)
        if self.kin:
            yield from measure_masked(self.kin).items()
        if self.answers is not None:
            yield "targets.misplaced", share_misplaced(self.answers)
        yield from self.rows.take_signs().items()
        self.classes, self.lines, self.answers, self.kin = None, None, None, []

    def clear_calls(self) -> None:
        """Begin to count calls anew."""
        #: calls of the model since the last update, and the most before one
        self.open_calls = (0, max(self.open_calls))
        self.calls = self.training_calls = 0

    def attach_to_model(self, model: nn.Module, hooks: Hooks, batches: Batches | None) -> None:
        """Count the calls of the model, whose rows `batches` knows."""
        self._batches = batches
        hooks.after(model, "calls of the model", self._on_output, when_idle=self._count)

    def attach_to_parameter(self, parameter: nn.Parameter, size: int) -> None:
        """Count the gradients that arrive at a parameter; `arrival_hooks` do it.

        Args:
            parameter: One that every backward pass reaches.
            size: The numbers that are kept of its gradient.
        """

        def before_adding(gradient: Tensor) -> None:
            self._pending = None
            if is_plain(gradient) and gradient.is_contiguous():
                old = gradient_numbers(parameter, size)
                new = numbers_of(gradient.detach(), size)
                # copies, because the sum may be written to the memory of either
                self._pending = (new.clone(), None if old is None else old.clone())
                self.fresh = self.fresh + (1 if old is None else (old == 0).all().long())

        def arrived(_: Tensor) -> None:
            self.arrivals += 1
            self.rates.add(self._rate())  # a schedule may step between two parts
            if self._pending is None:
                return
            new, old = self._pending
            if self.arrivals == 1:
                self.first = self._pending
            self.total = new if old is None else old + new

        leaf: Any = parameter
        register = self.arrival_hooks.register
        register(leaf.register_hook, "gradient.left", before_adding)
        register(leaf.register_post_accumulate_grad_hook, "gradients that arrive", arrived)

    def _count(self, module: nn.Module, *_: object) -> None:
        """Count a call of the model that may learn from it."""
        if torch.is_grad_enabled():
            self.calls += 1
            self.open_calls = (self.calls, self.open_calls[1])
            self.training_calls += module.training

    def _on_output(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._count(module)
        if torch.is_grad_enabled() and not self.is_idle:
            ids, labels = (None, None) if self._batches is None else self._batches.latest()
            of_rows = class_logits(output, labels)
            if of_rows is None and self.records and ids is not None:
                self._watch_rows(output, len(ids))
            is_due = of_rows is not None or self.measures_outputs or self.measures_gap
            logits = (logits_of(output) if of_rows is None else of_rows) if is_due else None
            if logits is not None and logits.requires_grad and is_plain(logits):
                if self.measures_gap and of_rows is None and logits.is_contiguous():
                    places, stride = places_and_stride(logits.detach())
                    self._gap_logits = places[:: 2 * stride].clone()
                row_logits = None if of_rows is None else of_rows.detach()
                is_paired = row_logits is not None and self.records
                texts = self._batches.rows() if is_paired and self._batches is not None else None
                measure = partial(self._measure_outputs, row_logits, ids, labels, texts=texts)
                hook = Hook(self._guard, "gradients of logits", measure)
                GradientHandle(logits, hook)

    def _watch_rows(self, output: Any, rows: int) -> None:
        """Measure the gradient of outputs (rows, classes) whose labels the model is not given."""
        self.rows.vectors.add(output, rows)
        starts = span_outputs(output, rows)
        if starts is not None:
            self._at_gradient(starts, self.rows.measure_softmax)
        values = row_outputs(output, rows)
        if values is None:
            return
        texts = None if self._batches is None else self._batches.rows()

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
                sums = class_pulls(gradient, before, labels)
                self.classes = sums if self.classes is None else self.classes + sums

        self._at_gradient(values, measure)

    def _at_gradient(self, values: Tensor, measure: Callable[[Tensor, Tensor], object]) -> None:
        """Measure the gradient by outputs, beside a copy of them: a loop may write to them."""
        if not values.requires_grad or not is_plain(values):
            return
        before = values.detach().clone()

        def on_gradient(gradient: Tensor) -> None:
            measure(gradient.detach(), before)

        cast("Any", values).register_hook(Hook(self._guard, "gradients of rows", on_gradient))

    def _pair(self, texts: Rows | None) -> None:
        """Keep the rows of a call that was measured, with the class of each."""
        if texts is not None and self.rows.sides is not None:
            self.labelled = LabelledRows(texts, self.rows.sides)

    def _measure_outputs(
        self,
        logits: Tensor | None,
        ids: Tensor | None,
        labels: Any,
        gradient: Tensor,
        texts: Rows | None = None,
    ) -> None:
        """Measure the gradients of the logits (batch, time, vocab), or of classes."""
        if not (is_plain(gradient) and gradient.is_contiguous() and gradient.numel()):
            return
        gradient = gradient.detach()
        rows, stride = places_and_stride(gradient)
        sampled = rows[::stride]
        if self.measures_gap and gradient.ndim == 3 and gradient.dtype != torch.float16:
            self.gap, self.measures_gap = gap_of_places(sampled), False
            if self._gap_logits is not None and len(self._gap_logits) == len(sampled[::2]):
                self.focus = focus_of_places(sampled[::2], self._gap_logits)
            self._gap_logits = None
        if logits is not None and self.records:
            sums, n = self.lines or (0, 0)
            self.lines = (sums + smoothing_sums(gradient, logits, labels), n + 1)
            self.rows.measure(gradient, logits, labels)
            self._pair(texts)
        if not (self.records and self.measures_outputs):
            return
        of_places = sampled.abs().sum(-1, dtype=torch.float32)
        n_sampled = (of_places > 0).sum()
        # a few columns tell which places are paid for, without reading all of them
        n_paid = (rows[:, :_COLUMNS] != 0).any(-1).sum().clamp_min(n_sampled)
        total = of_places.sum() * n_paid / n_sampled.clamp_min(1)
        is_known = n_sampled >= (_FEWEST_PAID if stride > 1 else 0)
        self.outputs.append(torch.where(is_known, total, torch.nan))
        if logits is not None:
            sums = class_pulls(gradient, logits, labels)
            self.classes = sums if self.classes is None else self.classes + sums
            lowered = (sums[1] < 0).sum() / (sums[0] > 0).sum().clamp_min(1)
            unknown = -torch.ones_like(lowered)
            self.pulls.append(torch.stack([unknown, lowered, unknown]))
        elif gradient.ndim == 3:
            places = torch.arange(0, len(rows), stride, device=rows.device)
            is_own = ids is not None and ids.shape == gradient.shape[:2]
            own_ids = ids if is_own else None
            shift = shift_of_rows(gradient, own_ids)
            self.pulls.append(torch.cat([token_pulls(sampled, places, own_ids), shift[None]]))
