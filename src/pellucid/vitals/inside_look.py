"""The half of a watch that looks inside the model, alone or together with other ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor, nn

from pellucid.parallel.collect import Collect, collect, is_share, whole_tensor
from pellucid.training import Guard
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import bare, called_module, part_ids, study
from pellucid.vitals.predictions import Other, Predicted
from pellucid.vitals.probe import Probe, ProbeRunner
from pellucid.vitals.ranks.ranks import Ranks
from pellucid.vitals.schedule import KINDS, Kind
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.taps.gradients import Gradients
from pellucid.vitals.taps.hooks import Hooks
from pellucid.vitals.taps.trained_parts import called_part, parts_beside
from pellucid.vitals.unheld import UnheldWeights
from pellucid.vitals.update_sizes import Updates
from pellucid.vitals.watch_report import WatchReport

#: How long a rank waits for the others before a look; they have just shared their gradients.
_LOOK_SECONDS = 20.0
#: From this share on, the places of a loss of tokens pay for one token each.
_SINGLE = 0.5


class SharedLooks:
    """The agreement of all ranks on their looks; rank 0 decides.

    Args:
        collect: the ranks.
        guard: what it has switched off has to be the same on all ranks.
    """

    def __init__(self, collect: Collect, guard: Guard) -> None:
        self._collect = collect
        self._guard = guard

    def agree(self, step: int, due: set[Kind]) -> set[Kind] | None:
        """The looks of all ranks at an update.

        Args:
            step: the update.
            due: what this rank would look at.

        Returns:
            None if a rank did not come, or has switched off other measurements than this one.
        """
        request = {"due": sorted(due), "off": sorted(self._guard.off)}
        replies = self._collect.meet(f"look-{step}", request, seconds=_LOOK_SECONDS)
        if replies is None or any(reply["off"] != replies[0]["off"] for reply in replies):
            return None
        return {kind for kind in KINDS if kind in replies[0]["due"]}


class InsideLook(WatchReport):
    """Runs the model over fixed rows, and meets the other ranks of a training."""

    _model: nn.Module
    _metrics: AsyncMetrics
    _hooks: Hooks
    _gradients: Gradients
    #: the probe, or a function that makes one later
    _probe: Probe | Callable[[], Probe | None] | None
    _reference: nn.Module | None
    #: the model that predictions are compared with, and the call for its logits
    other: tuple[Other, Callable[[], Tensor | None]] | None
    #: whether a look reads whole tensors of sharded weights: all ranks take it together
    _reads_whole = False

    def _study_model(self) -> None:
        """Learn the parts of the model; also later, if it has new ones."""
        parts = self.guard("the parts of the model", study, self._model)
        self._anatomy = parts or bare(self._model)
        if self._reads_whole and self._anatomy.is_sharded:
            self._anatomy = replace(self._anatomy, read=whole_tensor)
        self._parts = self.guard("the parts of the model", part_ids, self._anatomy.model)
        if self._unheld is None and not self._anatomy.is_sharded:
            weights = self._anatomy.parameters
            self._n_trained_at_first = sum(weight.numel() for weight in weights.values())
            self._unheld = self.guard("unheld weights", UnheldWeights, weights, self._optimisers)
        self._updates = Updates(self._anatomy, self._optimisers)
        self._gradients = Gradients(self._anatomy, self._optimisers)
        self._predicted: Predicted | None = None
        self._probe_runner: ProbeRunner | None = None
        if isinstance(self._probe, Probe) and not self._is_partial:
            self._probe_runner = ProbeRunner(self._anatomy, self._probe)

    @property
    def _is_partial(self) -> bool:
        """Whether this process sees a part of the weights only."""
        return self._anatomy.is_sharded and not self._anatomy.gathers_tensors

    # ---- other ranks

    def _meet_ranks(self) -> None:
        """Meet the other processes that train this model, if there are any."""
        model, others = self._model, collect(type(self._anatomy.model).__name__)
        is_cut = any(map(is_share, self._anatomy.parameters.values()))
        if self._anatomy.is_sharded and is_cut:
            self._reads_whole = True
            self._study_model()
            self._schedule.agree = (
                None if others is None else partial(self._agree, SharedLooks(others, self.guard))
            )
        if others is not None and self._probe is None and self._optimisers:
            self._ranks = Ranks(others, model, self._anatomy, self._optimisers, self.guard)
            self._ranks.attach(called_module(model), self._hooks)

    def _agree(self, shared: SharedLooks, step: int, due: set[Kind]) -> set[Kind]:
        """The looks that all ranks take now; if one is missing, each goes on alone."""
        with self._schedule.clock.stopped():  # a slow rank is no cost of watching
            agreed = self.guard("looks of all ranks", shared.agree, step, due)
        if agreed is None:
            self._schedule.agree, self._reads_whole = None, False
            self._study_model()
        return due - {"inside"} if agreed is None else agreed

    def _judge_losses(self, losses: list[tuple[int, float]]) -> None:
        """Judge the losses of updates, or the means of all ranks, once these have shown theirs."""
        if self._ranks is not None and "ranks" not in self.guard.off:
            for step, loss in losses:
                self._ranks.add_loss(step, loss)
            losses = self.guard("ranks", self._ranks.whole_losses) or []
        self._judge.losses(losses)

    # ---- the look

    def _keep_up(self) -> None:
        """Study the model again if a part was replaced, or other weights are trained now."""
        parts = self.guard("the parts of the model", part_ids, self._anatomy.model)
        if parts != self._parts:
            self._study_model()

    def _look_at_first_batch(self) -> None:
        """Probe the first call, before the update that it leads to."""
        first = self._first_batch
        if first is not None and first.call is None:
            if self.updates == 1 and not first.reason:
                first = self._watch_part(first)
            self.guard("the first batch", first.watch_table, self._hooks)
        # sharded weights are gathered into others for a call
        is_whole = not self._anatomy.is_sharded
        if first is not None and first.unlisted and is_whole and self._unlisted is None:
            unlisted = first.unlisted, self._optimisers
            self._unlisted = self.guard("unlisted weights", UnheldWeights, *unlisted)
        answers = None if first is None else first.answers
        is_open = answers is not None and (answers.is_open or answers.rewards.is_waiting)
        if first is not None and (is_open or self.first_call.is_open) and is_whole:
            with self._schedule.clock.stopped():
                self.first_call.run(first.model, first, self._metrics)
            self._judge.is_cross_entropy = self.first_call.is_cross_entropy

    def _watch_part(self, first: FirstBatch) -> FirstBatch:
        """Take the calls of a part, if a whole update came without a call of the model itself."""
        part = called_part(first.model)
        if part is None:
            return first
        self._first_batch = FirstBatch(part)
        self._first_batch.attach(part, self._hooks)
        latest = self._first_batch.latest
        self.guard("the ledger", self._ledger.watch_calls, part, self._hooks, latest)
        for head in parts_beside(first.model, part):
            self.guard("the ledger", self._ledger.events.attach_to_head, head, self._hooks)
        return self._first_batch

    def _prepare_step(self) -> None:
        """Keep what a step is measured against."""
        self.guard("updates of weights", self._keep_up)
        self.guard("updates of weights", self._updates.begin)
        self._gradients.clear()

    def _look_at_step(self) -> None:
        """Take the readings of gradients, of the batch, and of the step that was made."""
        self.guard("gradients", self._gradients.record, self._metrics)
        if self._first_batch is not None:
            self.guard("batch.*", self._first_batch.latest.record, self._metrics)
        samples = self._gradients.samples
        self.guard("updates of weights", self._updates.measure, samples, self._metrics)

    def _look_at_change(self) -> None:
        """Measure how far a step has moved the predictions that were made before it."""
        runner, predicted = self._probe_runner, self._predicted
        if runner is not None and predicted is not None and self._optimisers:
            self.guard("update.kl_*", runner.record_change, predicted, self._metrics)

    def _look_inside(self) -> None:
        self._predicted = None
        self._keep_up()
        if self._probe_runner is None and not self._find_probe():
            return
        assert self._probe_runner is not None
        self._predicted = self._probe_runner.measure(self._metrics)
        self._gradients.called_modules = self._probe_runner.called_modules
        if self._judge.guessing is None and self._judge.counts_tokens:
            size = _vocabulary_size(self._predicted, self._first_batch)
            self._judge.guessing = None if size is None else math.log(size)
        if self._predicted is not None:
            self.guard("reference.*", self._compare, self._predicted)

    def _find_probe(self) -> bool:
        """Whether there are rows for a reading by now."""
        if self._is_partial:
            return False
        first_batch = self._first_batch
        probe = (
            self._probe() if callable(self._probe) else first_batch.probe() if first_batch else None
        )
        if probe is None:
            return False
        self._probe_runner = ProbeRunner(self._anatomy, probe)
        if first_batch is not None:
            self._judge.baselines = first_batch.baselines() or self._judge.baselines
        return True

    def _compare(self, predicted: Predicted) -> None:
        """Compare with another model, run each time: a reference that learns is a fault."""
        name, call = self.other or ("reference", None)
        if call is None and self._reference is not None and self._first_batch is not None:
            call = self._first_batch.calling(self._reference)
        if call is None or self._probe_runner is None:
            return
        other_predicted = self._probe_runner.predict(self._reference, call)
        if other_predicted is not None:
            first = self.updates == 0
            predicted.record_comparison(name, other_predicted, self._metrics, first=first)


def _vocabulary_size(predicted: Predicted | None, first_batch: FirstBatch | None) -> int | None:
    """How many tokens the model chooses among; None if its loss is not known to be of tokens.

    Args:
        predicted: What the model predicted, if its call gives logits.
        first_batch: The first batch, if there is one.
    """
    if predicted is not None:
        has_tokens = predicted.targets is not None or _pays_tokens(first_batch)
        return predicted.logits.shape[-1] if has_tokens else None
    return None if first_batch is None else first_batch.head_size()


def _pays_tokens(first_batch: FirstBatch | None) -> bool:
    """Whether most places of the first batch are paid for one token, as the gradient shows."""
    single = None if first_batch is None or not first_batch.paid else first_batch.paid.single
    return single is not None and single > _SINGLE
