"""The answers of a watch at any time: signs, rows, missing signs, and its cost."""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import Any, NamedTuple

import torch

from pellucid.training import Guard, guarded
from pellucid.vitals.call.first_call import FirstCallProbe
from pellucid.vitals.call.prompt_answers import PromptAnswers
from pellucid.vitals.ledger.ledger import Ledger
from pellucid.vitals.ledger.marks import Mark, MarkName
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.overhead_budget import Cost
from pellucid.vitals.part_losses import Losses
from pellucid.vitals.predictions import Predicted
from pellucid.vitals.probe import Probe, ProbeRunner
from pellucid.vitals.ranks.ranks import RankReport, Ranks
from pellucid.vitals.schedule import LookSchedule
from pellucid.vitals.signs import Row, Sign, format_row, rows
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.taps.row_starts import RowStarts
from pellucid.vitals.unheld import UnheldWeights
from pellucid.vitals.update_sizes import Updates
from pellucid.vitals.verdicts import VerdictTracker

_SHARDED = (
    "the weights are sharded over processes, which do not take readings at the same time; call "
    "watch on every rank (not FSDP1). Only gradients of this process's part are watched"
)
_CALLS = (
    "the weights are sharded over processes: the loop's first call is not repeated, because each "
    "process would have to repeat it as often"
)
_NO_BATCH = (
    "no training batch has been seen yet, and none will be if the model is compiled with "
    "fullgraph=True: pass probe=Probe(...)"
)
_NO_READING = "no reading inside the model has been taken yet"
_NO_LOSS = "no loss was passed: call w.step(loss)"
_NO_GUESSING = (
    "nothing to compare the losses with: they are not known to be of tokens, of which guessing "
    "costs ln V"
)
_OTHER_STEPS = "the matrices' optimiser has no step size like Adam's"
_NO_MATRICES = "no matrix of the model's blocks is trained"
_GAPS = (
    "the ledger has {n} of {of} updates, as many as the budget pays for: raise max_overhead to see "
    "the updates between them too"
)
_SILENT = "rank {ranks} has shown nothing: call watch on every rank, so that they can be compared"
#: Gaps are worth a word if the ledger has a smaller share of the updates.
_SHARE = 0.5
#: The part that reads saved windows, as the guard names it.
EARLIER_READINGS = "earlier readings"


class WatchState(NamedTuple):
    """All that causes are found from.

    Attributes:
        judge: The latest signs; `judge.record` has all of them in order.
        anatomy: The model's parts.
        optimisers: Those that step.
        probe: The fixed rows; None for other threads than the one that trains.
        n_losses: How many losses the loop has passed to `w.step`.
        marks: What the ledger saw in every update, by name.
        calls: The calls of the model since the last update, and the most before one.
        ranks: What the comparison with other processes has shown; None if there are none.
        prompt_answers: The first rows whose labels leave out a prompt; None without hooks.
        row_starts: The first tokens of rows, in training and in evaluation; None without hooks.
        moved_by_others: Names of trained weights that no watched optimiser holds, and that moved.
        unlisted: Names of weights that outputs depend on, that are not among the model's own, that
            no watched optimiser holds, and that did not move.
        has_trained: Whether the model was called in training mode; None without hooks.
        n_trained_at_first: How many numbers were trained when the watch was made.
    """

    judge: VerdictTracker
    anatomy: Anatomy
    optimisers: tuple[torch.optim.Optimizer, ...]
    probe: Probe | None
    n_losses: int
    marks: Mapping[MarkName, Mark]
    calls: tuple[int, int]
    ranks: RankReport | None = None
    prompt_answers: PromptAnswers | None = None
    row_starts: RowStarts | None = None
    moved_by_others: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    has_trained: bool | None = None
    n_trained_at_first: int | None = None


class WatchReport:
    """The half of a watch that you read from."""

    guard: Guard
    #: finished updates
    updates: int
    #: whether the training under watch came to its end
    has_ended: bool
    _anatomy: Anatomy
    _optimisers: tuple[torch.optim.Optimizer, ...]
    _judge: VerdictTracker
    _schedule: LookSchedule
    _ledger: Ledger
    _losses: Losses
    _updates: Updates
    #: how many numbers were trained when the watch was made
    _n_trained_at_first: int | None = None
    #: the weights that no optimiser holds, as they were at first
    _unheld: UnheldWeights | None = None
    #: the same of weights that outputs depend on, and that the model does not list as its own
    _unlisted: UnheldWeights | None = None
    first_call: FirstCallProbe
    _first_batch: FirstBatch | None
    _probe_runner: ProbeRunner | None
    _ranks: Ranks | None
    _predicted: Predicted | None
    #: the thread that trains, once it is known: only that one may run the model
    _thread: int | None

    @property
    def signs(self) -> tuple[Sign, ...]:
        """The latest of each sign."""
        return tuple(self._judge.signs.values())

    @property
    def judge(self) -> VerdictTracker:
        """The tracker that finds the words; pass it numbers that you measure yourself."""
        return self._judge

    @property
    def state(self) -> WatchState:
        """All that causes are found from; a probe only for the thread that trains."""
        # a model whose weights are shared runs only while all ranks take a look
        may_run = self._thread in (None, get_ident()) and not self._anatomy.is_sharded
        runner = self._probe_runner if may_run else None
        probe = None if runner is None else runner.probe
        count = self._losses.n_added
        ledger, calls = self._ledger, self._ledger.events.open_calls
        ranks = self._ranks
        marks: Mapping[MarkName, Mark] = ledger.marks
        marks = marks if ranks is None else {**marks, **ranks.marks}
        report = None if ranks is None else ranks.report
        unheld = self._unheld
        moved_names = (
            None if unheld is None else self.guard("unheld weights", unheld.names_of_moved)
        )
        unlisted = self._unlisted
        unlisted_names = (
            None if unlisted is None else self.guard("unlisted weights", unlisted.names_of_unmoved)
        )
        return WatchState(
            self._judge,
            self._anatomy,
            self._optimisers,
            probe,
            count,
            marks,
            calls,
            ranks=report,
            prompt_answers=None if self._first_batch is None else self._first_batch.prompt_answers,
            row_starts=None if self._first_batch is None else self._first_batch.row_starts,
            moved_by_others=moved_names or (),
            unlisted=unlisted_names or (),
            has_trained=None if self._first_batch is None else self._first_batch.has_trained,
            n_trained_at_first=self._n_trained_at_first,
        )

    @property
    def missing(self) -> dict[str, str]:
        """The signs that cannot be watched, and why; also the parts that are switched off."""
        reasons = self.guard("missing", self._list_missing) or {}
        return reasons | {part: f"switched off: {error}" for part, error in self.guard.off.items()}

    def _list_missing(self) -> dict[str, str]:
        runner, predicted = self._probe_runner, self._predicted
        reasons = {} if runner is None else dict(runner.missing)
        if self._anatomy.is_sharded:
            reasons["call.*"] = _CALLS
        if self._anatomy.is_sharded and not self._anatomy.gathers_tensors:
            reasons["probe"] = _SHARDED
        elif runner is None:
            first = self._first_batch
            is_seen = first is not None and first.call is not None
            reason = "" if first is None else first.reason
            reasons["probe"] = reason or (_NO_READING if is_seen else _NO_BATCH)
        elif predicted is not None and predicted.targets is None:
            reasons["predictions.certain"] = (
                "pellucid does not know the targets of its fixed rows: pass probe=Probe(...)"
            )
        if self._ranks is not None and (silent := self._ranks.silent):
            reasons["ranks"] = _SILENT.format(ranks=", ".join(map(str, silent)))
        if "loss.value" not in self._judge.signs:
            record = self._judge.record
            is_logged = "loss" in record.logged
            has_losses = bool(self._losses.n_added or record.losses.points or is_logged)
            reasons["loss.value"] = _NO_GUESSING if has_losses else _NO_LOSS
        if not self._optimisers:
            no_optimiser = "no optimiser was passed: call watch(model, optimizer)"
            reasons |= dict.fromkeys(("gradient.norm", "update.ratio", "update.kl_*"), no_optimiser)
        else:
            bare = self._ledger.marks.get("bare")
            n = 0 if bare is None else bare.n_seeable
            if n < _SHARE * self.updates:
                reasons["updates"] = _GAPS.format(n=n, of=self.updates)
        if self._optimisers and not self._updates.adaptive:
            has_matrices = bool(self._anatomy.matrices)
            reasons["update.effective_step"] = _OTHER_STEPS if has_matrices else _NO_MATRICES
        return reasons

    @property
    def cost(self) -> Cost:
        """The cost of watching so far."""
        return self._schedule.cost

    def summary(self) -> tuple[Row, ...]:
        """The five rows, with a word each."""
        return rows(self.signs)

    def report(self) -> str:
        """The five rows, the parts that are switched off, and the cost, as text."""
        lines = self.guard("the report", lambda: [format_row(row) for row in self.summary()]) or []
        lines += [f"switched off: {part}: {error}" for part, error in self.guard.off.items()]
        lines += filter(None, [self.first_call.message()])
        return "\n".join((*lines, self.cost.message(self._schedule.max_share)))

    def state_dict(self) -> dict[str, Any]:
        """The windows that words depend on, as plain values, to resume a training."""
        windows = self.guard("saving readings", self._judge.state_dict)
        return {"updates": self.updates} | ({} if windows is None else {"judge": windows})

    @guarded(EARLIER_READINGS)
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        updates = int(state["updates"])
        if "judge" in state:
            self._judge.load_state_dict(state["judge"])
        self.updates = updates
        self._schedule.resume_after(updates)
