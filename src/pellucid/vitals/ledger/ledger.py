"""The ledger: it fills pages with rows of updates in a row, as far as its budget allows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pellucid.training import Guard
from pellucid.vitals.async_metrics import AsyncMetrics, Column
from pellucid.vitals.call.padding_mask import misfits
from pellucid.vitals.call.reading_order import measure_batches
from pellucid.vitals.ledger.batch_signs import BatchSigns
from pellucid.vitals.ledger.events import Events
from pellucid.vitals.ledger.label_tokens import measure
from pellucid.vitals.ledger.latest_batch import LatestBatch
from pellucid.vitals.ledger.marks import Mark, MarkName, Marks, Row
from pellucid.vitals.ledger.page import Page, copy_into, rows_of
from pellucid.vitals.ledger.witnesses import Witnesses
from pellucid.vitals.overhead_budget import OverheadBudget
from pellucid.vitals.schedule import LookSchedule
from pellucid.vitals.step_signs import number_in
from pellucid.vitals.taps.hooks import Hooks
from pellucid.vitals.verdicts import VerdictTracker

#: Updates on the first page, for faults that appear at once, and on later ones.
_FIRST, _ROWS = 8, 32
#: Updates between two questions whether the budget pays for another page.
_RETRIED = 8
#: Pages on which the gradients of logits are measured: what they show holds from the first update.
_OUTPUT_PAGES = 1
#: Every so many updates, gaps in these gradients are measured: a bound of the logits shows once
#: they reach it. In long runs it is every so many that this is a part of the updates so far.
_GAPS, _GAP_SHARE = 32, 8
#: The share of the budget that the ledger may take.
SHARE = 0.5
COLUMN = "ledger"
#: Every so many updates, gradients that are left are judged as a sign.
_JUDGED = 4
_LEFT = Column("gradient.left", ("",))


class Ledger:
    """What every update did.

    Args:
        optimisers: Those that step.
        schedule: Its share bounds the time of the ledger.
        guard: Guards measurements.
    """

    def __init__(
        self, optimisers: Sequence[Optimizer], schedule: LookSchedule, guard: Guard
    ) -> None:
        self._optimisers = optimisers
        self._schedule, share = schedule, schedule.share
        self._budget = OverheadBudget(None if share is None else share * SHARE)
        schedule.other_budgets.append(self._budget)
        self.events = Events(self._rate, guard)
        self._marks = Marks()
        self._witnesses: Witnesses | None = None
        self._batch: LatestBatch | None = None
        self._batch_signs = BatchSigns()
        #: how many gradients had arrived when the step began, and how many of them at none
        self._arrivals = 0
        self._fresh: Tensor | int = 0
        self._page: Page | None = None
        self._rows: list[Row] = []
        self._pages_sent: list[list[Row]] = []
        self._n_pages = 0
        #: the last update that has a row
        self._last_step = -1
        #: the witnesses after that update, and before the first of all
        self._previous: Tensor | None = None
        self._start: Tensor | None = None
        #: the columns of the witness whose gradients are seen as they arrive
        self._hooked, self._hooked_place = slice(0, 0), 0
        self._rate_before: float | None = None
        self._has_gradient = False

    @property
    def marks(self) -> dict[MarkName, Mark]:
        """The marks so far, by name."""
        return self._marks.by_name

    def attach(
        self, model: nn.Module | None, hooks: Hooks, batch: LatestBatch | None = None
    ) -> None:
        """Add a hook to the model, if given; one on a parameter follows with the first update.

        Args:
            model: The model.
            hooks: Take the hooks.
            batch: The latest batch.
        """
        self._batch = batch
        hooks.add(self.events.arrival_hooks)
        self._witnesses = self._page = None
        self._rows = []
        self.events.clear()
        if model is not None:
            self.watch_calls(model, hooks, batch)

    def watch_calls(self, model: nn.Module, hooks: Hooks, batch: LatestBatch | None) -> None:
        """Count the calls of a model, or of its part, and read their batches.

        Args:
            model: The model or the part.
            hooks: Take the hooks.
            batch: The latest batch.
        """
        self._batch = batch
        self.events.attach_to_model(model, hooks, batch)

    # ---- an update

    def next_due(self, step: int) -> int:
        """The next update, from this one on, that has something to do."""
        is_idle = self._witnesses is not None and self.events.outputs.is_idle
        return step + -step % _RETRIED if is_idle else step

    @torch.no_grad()
    def begin(self, step: int) -> None:
        """Copy the witnesses before an update's first step."""
        started = time.perf_counter()
        if self._witnesses is None:
            self._choose()
            self._open(step)
        if self._page is None:
            return
        self._rate_before, self._has_gradient = self._rate(), False
        # a closure brings more within its step, and another optimiser may have its own
        self._arrivals, self._fresh = self.events.arrivals, self.events.fresh
        if self._witnesses is not None:
            self._witnesses.look_at_memory(step)
            row = self._page.before[len(self._rows)]
            copy_into(row, self._witnesses.weights(), self._witnesses.sizes)
            self._start = self._page.start = row.clone() if self._start is None else self._start
        self._pay(started)

    @torch.no_grad()
    def gather(self, optimiser: Optimizer | None) -> None:
        """Copy the gradients of one optimiser's witnesses."""
        witnesses = self._witnesses
        if self._page is None or witnesses is None or optimiser not in witnesses.places:
            return
        started = time.perf_counter()
        places = witnesses.places[optimiser]
        row = self._page.gradient[len(self._rows)][witnesses.span(places)]
        gradients = witnesses.gradients(places)
        self._has_gradient |= any(gradient is not None for gradient in gradients)
        copy_into(row, gradients, [witnesses.sizes[place] for place in places])
        scale = getattr(optimiser, "grad_scale", None)
        if isinstance(scale, torch.Tensor):  # a fused optimiser divides by it
            row /= scale.to(row)
        self._pay(started)

    @torch.no_grad()
    def end(self, step: int, metrics: AsyncMetrics) -> None:
        """Copy the witnesses after an update's last step; send the page if it is full."""
        started = time.perf_counter()
        page, witnesses = self._page, self._witnesses
        if page is not None and witnesses is not None:
            place = len(self._rows)
            copy_into(page.after[place], witnesses.weights(), witnesses.sizes)
            self._take_events(page, place)
            self._rows.append(self._host_row(step))
            self._last_step = step
        is_full = page is not None and len(self._rows) == len(page.before)
        if is_full:
            self.send(metrics)
        if is_full or (page is None and step % _RETRIED == 0):
            self._open(step + 1)
        self.events.clear()
        outputs = self.events.outputs
        for id, value in outputs.take_gap():
            metrics.record(id, value)
        outputs.measures_gap = step % (_GAPS * max(1, step // _GAPS // _GAP_SHARE)) == 0
        self._pay(started)

    @torch.no_grad()
    def send(self, metrics: AsyncMetrics) -> None:
        """Send the statistics of a page, also of one that is not full."""
        page, rows, witnesses = self._page, self._rows, self._witnesses
        if page is None or witnesses is None or not rows:
            return
        decay, narrow = witnesses.coupled_decay(), witnesses.narrow()
        numbers = page.statistics(len(rows), decay, narrow, self._hooked, witnesses.matrix_columns)
        metrics.record(COLUMN, numbers, ("",) * numbers.numel())
        self._pages_sent.append(rows)
        texts = page.texts[: len(rows)]
        signs = measure(page.labelled[: len(rows)]) | misfits(texts)
        signs |= dict(chain(self.events.outputs.take_signs(), self._batch_signs.take_signs()))
        # later batches have no other order; of rows with one class each, none may be meant
        if self._n_pages == 1 and bool((page.pulls[: len(rows), 0] >= 0).any()):
            signs |= measure_batches(texts)
        for id, value in signs.items():
            metrics.record(id, value)
        self._previous = page.after[len(rows) - 1]
        self._page, self._rows = None, []
        self.events.arrival_hooks.remove()

    def judge(self, numbers: Sequence[float], tracker: VerdictTracker) -> None:
        """Take the statistics of a page, and pass on the sign that has a word."""
        started = time.perf_counter()
        rows = self._pages_sent.pop(0)
        for row, table in zip(rows, rows_of(numbers), strict=True):
            self._marks.add(row, table)
            if table["left"] >= 0 and row.step % _JUDGED == 0:
                tracker.read(row.step, [(_LEFT, [table["left"]])])
        self._pay(started)

    # ---- parts of it

    def _choose(self) -> None:
        """Choose the witnesses, and one whose gradients are seen as they arrive."""
        witnesses = self._witnesses = Witnesses(self._optimisers)
        if not witnesses.parameters:
            return
        place = witnesses.first_vector
        self._hooked, self._hooked_place = witnesses.span(range(place, place + 1)), place

    def _open(self, step: int) -> None:
        """Begin a page, if the budget pays for it."""
        if self._witnesses is not None and self._witnesses.are_frozen:
            self._choose()  # others are trained now
            self._previous, self._start, self._last_step = None, None, -1
        witnesses = self._witnesses
        credited = self._schedule.credited
        is_paid = self._budget.pays(credited) and (
            not self._n_pages or self._schedule.fits(self._budget.last, credited)
        )
        outputs = self.events.outputs
        outputs.records = is_paid and witnesses is not None and bool(witnesses.parameters)
        if not outputs.records or witnesses is None:
            return
        self._budget.begin()
        place = self._hooked_place
        self.events.attach_to_parameter(witnesses.parameters[place], witnesses.sizes[place])
        kinds = [parameter.dtype for parameter in witnesses.parameters]
        dtype = torch.float64 if torch.float64 in kinds else torch.float32
        rows, hooked = _ROWS if self._n_pages else _FIRST, self._hooked.stop - self._hooked.start
        self._page = Page(rows, sum(witnesses.sizes), hooked, witnesses.device, dtype)
        self._page.previous = self._previous if step == self._last_step + 1 else None
        self._n_pages += 1
        outputs.measures_outputs = self._n_pages <= _OUTPUT_PAGES

    def _host_row(self, step: int) -> Row:
        events, witnesses = self.events, self._witnesses
        assert witnesses is not None
        return Row(
            step=step,
            rate=self._rate_before,
            age=witnesses.age(step),
            arrivals=self._arrivals or events.arrivals,
            n_rates=len(events.rates),
            is_resting=None if not events.calls else events.training_calls == 0,
            has_gradient=self._has_gradient,
            is_next=step == self._last_step + 1,
        )

    def _take_events(self, page: Page, place: int) -> None:
        events = self.events
        if events.first is not None:
            new, old = events.first
            page.new[place] = new
            if old is not None:
                page.old[place] = old
        if events.total is not None:
            page.total[place] = events.total
        outputs = events.outputs
        if outputs.sizes and self._arrivals in (0, events.arrivals):
            page.outputs[place] = torch.stack(outputs.sizes).sum()
        if outputs.pulls:
            page.pulls[place] = torch.stack(outputs.pulls).mean(0)
        if not isinstance(self._fresh, int) or self._fresh:
            page.fresh[place] = self._fresh
        page.labelled[place], classes = outputs.labelled, outputs.class_range
        if self._batch is not None:
            page.texts[place], page.targets[place] = self._batch.rows(), self._batch.targets()
            page.masks[place] = self._batch.masked_places()
            self._batch_signs.add(self._batch)
            own_classes = self._batch.class_range()
            classes = classes if own_classes is None else own_classes
        if classes is not None:
            page.classes[place] = classes

    def _rate(self) -> float | None:
        """The learning rate of the first group; None if reading it would wait for a device."""
        groups = self._optimisers[0].param_groups if self._optimisers else []
        value = groups[0].get("lr") if groups else None
        is_far = isinstance(value, torch.Tensor) and value.device.type != "cpu"
        return None if not groups or is_far else number_in(groups[0], "lr")

    def _pay(self, started: float) -> None:
        self._budget.paid(time.perf_counter() - started)
