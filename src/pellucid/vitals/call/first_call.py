"""The probe of the first call of any loop, from what the hooks kept of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.training import Guard, silently
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.call.arguments import arguments_of, ids_of_vectors
from pellucid.vitals.call.decoder_rows import with_decoder
from pellucid.vitals.call.dependence import Repetition
from pellucid.vitals.call.first_model import (
    added_rows,
    equal_units,
    has_new_heads,
    has_new_table,
    longest_wavelength,
    trained_gains,
)
from pellucid.vitals.call.paid_targets import NAMED, PaidTargets
from pellucid.vitals.call.probe import CallProbe, FirstCall
from pellucid.vitals.call.text_rows import text_places
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.taps.outputs import logits_of, outputs_in
from pellucid.vitals.taps.recorded_call import Call

#: The most forward passes of the probe; it needs a dozen at most.
MAX_PASSES = 30
#: The share of a planned run that its passes may take; an update counts as three passes.
_SHARE_OF_RUN, _PASSES_OF_UPDATE = 0.02, 3


def allowed_passes(planned_updates: int | None, part: float = 1.0) -> int:
    """How many forward passes the probe may take in a run of so many updates.

    Args:
        planned_updates: The length of the run; None if it is not known.
        part: The share of a batch's rows that a pass of the probe reads: it costs as much less.
    """
    if planned_updates is None:
        return MAX_PASSES
    n_passes = _SHARE_OF_RUN * _PASSES_OF_UPDATE * planned_updates
    return min(MAX_PASSES, int(n_passes / max(part, 1 / MAX_PASSES)))


class FirstCallProbe:
    """Probes the first call once, before the update that it leads to.

    Args:
        guard: Switches off a test that raises, and no other.
        model: As it is before its first update, which may come before its first call is probed.
        enabled: Whether to probe at all.
    """

    def __init__(self, guard: Guard, model: nn.Module, *, enabled: bool) -> None:
        self._guard = guard
        self._gains = guard("weights.trained", trained_gains, model) if enabled else None
        #: whether trained weights have a table of tokens that is as it was drawn
        self._is_new = guard("weights.new_table", has_new_table, model) if self._gains else None
        self._has_new_heads = self._is_new and guard("weights.new_heads", has_new_heads, model)
        self._is_due = enabled
        #: whether the first update is still to come
        self.is_open = True
        #: the length of the run, if a trainer knows it
        self.planned_updates: int | None = None
        #: the cost of the probe
        self.seconds, self.passes = 0.0, 0
        #: what the first call and its gradient have shown, by the ids of the signs
        self.signs: Mapping[str, float] = {}

    def run(self, model: nn.Module, first: FirstBatch, metrics: AsyncMetrics) -> None:
        """Record the signs of the first call, once there is one.

        Args:
            model: The model that was called.
            first: The record of its first call.
            metrics: Takes the signs.
        """
        call = first.call
        if not self.is_open:
            pairs = self._guard("answers.*", first.answers.measure_later)
            if pairs is None:
                first.answers.close()
            _record(pairs or {}, metrics)
            return
        if self._is_due and call is None and not first.reason:
            return  # a closure calls the model within the step: the next update knows the call
        if not self._is_due or call is None:
            first.answers.close()
            self.is_open = self._is_due
            return
        self._is_due = self.is_open = False
        started = time.perf_counter()
        with silently():
            signs = self._guard("the first call", self._measure, model, first, call) or {}
            is_scaled = first.autocast == torch.float16
            signs |= self._guard("answers.*", first.answers.measure, is_scaled=is_scaled) or {}
        self.signs = signs
        _record(signs, metrics)
        self.seconds = time.perf_counter() - started

    @property
    def is_cross_entropy(self) -> bool:
        """Whether nothing in the first gradient speaks against a cross-entropy of tokens.

        That makes no token less likely, and pulls each place to one token, or to a smoothed one. A
        loss over answers, or against a teacher, costs a model that guesses another number.
        """
        signs, single = self.signs, self.signs.get("targets.single")
        if signs.get("answers.own") or signs.get("answers.lowered"):
            return False
        return single is None or single > NAMED or "targets.smoothing" in signs

    def _measure(self, model: nn.Module, first: FirstBatch, call: Call) -> dict[str, float]:
        arguments = arguments_of(model, call)
        if arguments is None:
            return {}
        paid, targets = first.paid, first.targets
        if paid is None and targets is not None:
            paid = PaidTargets(targets, targets)
        arguments = with_decoder(arguments, None if paid is None else paid.rows)
        repeat = Repetition(model, first.autocast, _outputs)
        inputs, ids = arguments.inputs, first.first_ids
        part = 1.0 if ids is None else len(inputs) / max(1, len(ids))
        limit = allowed_passes(self.planned_updates, part)
        is_ids = inputs.ndim == 2 and not inputs.is_floating_point()
        tokens = inputs if is_ids else ids_of_vectors(model, inputs)
        first_call = FirstCall(arguments, tokens, first.first_ids, paid)
        signs = CallProbe(first_call, repeat, self._guard, limit).measure()
        if is_ids and (length := longest_wavelength(model, inputs.shape[1])) is not None:
            signs["call.wavelength"] = length
        if is_ids:
            rows, is_text = text_places(arguments, inputs)
            n_added = added_rows(model, rows[is_text])
            signs |= {} if n_added is None else {"weights.added_rows": float(n_added)}
        if (share := equal_units(model)) is not None:
            signs["weights.alike"] = share
        if self._gains is not None:
            signs["weights.trained"] = self._gains
        if self._is_new is not None:
            signs["weights.new_table"] = float(self._is_new)
            signs["weights.new_heads"] = float(bool(self._has_new_heads))
        self.passes = repeat.passes
        return signs

    def message(self) -> str:
        """The cost as a line; empty if there was no probe."""
        if not self.passes:
            return ""
        return (
            f"the probe of the first call took {self.seconds:.2f} s, {self.passes} forward passes"
        )


def _record(signs: Mapping[str, float], metrics: AsyncMetrics) -> None:
    for id, value in signs.items():
        metrics.record(id, torch.tensor(value, dtype=torch.float64))


def _outputs(returned: Any) -> Tensor | None:
    return outputs_in(returned, logits_of(returned))
