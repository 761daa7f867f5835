"""A reading of the model's inside: one forward pass over a few fixed rows, which leaves no trace.

Hooks exist only during the pass, so they slow neither training nor compiled code. The pass is
eager, in evaluation mode, without gradients (see `reading_mode`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor, nn

from pellucid.batches import IGNORED
from pellucid.typed import named_modules
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.predictions import Predicted
from pellucid.vitals.taps.attention import AttentionTaps
from pellucid.vitals.taps.experts import ExpertTaps
from pellucid.vitals.taps.hooks import Hooks
from pellucid.vitals.taps.restore import reading_mode
from pellucid.vitals.taps.stream import StreamTaps

#: Most positions whose logits are measured: all logits would fill the memory.
_POSITIONS = 256


@dataclass(frozen=True, slots=True)
class Probe:
    """The forward pass of a reading, and the targets of its predictions.

    Attributes:
        call: Runs the model over the fixed rows. Returns logits (..., vocab) of all positions or of
            some; None if the model predicts no tokens.
        labels: The targets (...) at those positions, `IGNORED` if a position has none; None if
            they are not known.
    """

    call: Callable[[], Tensor | None]
    labels: Tensor | None


class ProbeRunner:
    """Takes all readings of one probe, each on the same rows."""

    def __init__(self, anatomy: Anatomy, probe: Probe) -> None:
        self._anatomy = anatomy
        self.probe = probe
        self._attention = AttentionTaps(anatomy)
        self._stream = StreamTaps(anatomy)
        self._experts = ExpertTaps(anatomy)
        self._places: tuple[Tensor, Tensor] | None = None
        #: names of the modules that the first reading ran
        self.called_modules: frozenset[str] = frozenset()

    @property
    def missing(self) -> dict[str, str]:
        """Signs that this model does not show, and why; known after the first reading."""
        return self._attention.missing | self._stream.missing

    def measure(self, metrics: AsyncMetrics) -> Predicted | None:
        """Run the model, and record all signs of its inside."""
        called_modules: set[str] = set()
        with reading_mode(self._anatomy.model), ExitStack() as taps:
            if not self.called_modules:
                self._collect_calls(taps.enter_context(Hooks(metrics.guard)), called_modules)
            taps.enter_context(self._attention.measuring(metrics))
            taps.enter_context(self._stream.measuring(metrics))
            taps.enter_context(self._experts.measuring(metrics))
            logits = self.probe.call()
        self.called_modules = self.called_modules or frozenset(called_modules)
        predicted = self._predicted(logits)
        if predicted is not None:
            predicted.measure(metrics)
        return predicted

    def _collect_calls(self, hooks: Hooks, called_modules: set[str]) -> None:
        """Collect the name of every module that is called."""
        for name, module in named_modules(self._anatomy.model).items():
            hooks.before(module, "gradient.missing", partial(_add_name, called_modules, name))

    def predict(
        self, model: nn.Module | None = None, call: Callable[[], Tensor | None] | None = None
    ) -> Predicted | None:
        """The predictions of the model, or of another one at the same places, and no other sign."""
        with reading_mode(model or self._anatomy.model):
            logits = (call or self.probe.call)()
        return self._predicted(logits)

    def record_change(self, earlier: Predicted, metrics: AsyncMetrics) -> None:
        """Record the distance from earlier predictions to those of now."""
        predicted = self.predict()
        if predicted is not None:
            earlier.record_change(predicted, metrics)

    def _predicted(self, logits: Tensor | None) -> Predicted | None:
        """The predictions at the chosen places; None if there are none."""
        if logits is None:
            return None
        with torch.no_grad():
            flat = logits.flatten(0, -2)
            if self._places is None:
                self._places = _choose_places(self.probe.labels, flat)
            places, targets = self._places
            if not len(places):
                return None
            logits_at_places = flat if len(places) == len(flat) else flat.index_select(0, places)
            wide = (
                logits_at_places
                if logits_at_places.dtype == torch.float64
                else logits_at_places.float()
            )
            return Predicted(wide, None if self.probe.labels is None else targets)


def _add_name(called_modules: set[str], name: str, *_: object) -> None:
    called_modules.add(name)


def _choose_places(labels: Tensor | None, flat: Tensor) -> tuple[Tensor, Tensor]:
    """The places whose predictions are measured, and the labels there, if known."""
    if labels is None:
        places = _spread(torch.arange(flat.shape[0], device=flat.device))
        return places, places
    labels = labels.to(flat.device).flatten()
    # a label outside the vocabulary is the loop's own mark for "no target"
    is_outside = (labels < 0) | (labels >= flat.shape[-1])
    labels = labels.masked_fill(is_outside, IGNORED)
    places = places_of(labels)  # once in a run: this waits for the device
    return places, labels[places]


def places_of(labels: Int[Tensor, ...]) -> Int[Tensor, " places"]:
    """Some of the flattened places that have a target."""
    return _spread((labels.flatten() != IGNORED).nonzero()[:, 0])


def _spread(places: Int[Tensor, " all_places"]) -> Int[Tensor, " places"]:
    """At most `_POSITIONS` of the places, evenly spread."""
    if len(places) <= _POSITIONS:
        return places
    spread = torch.linspace(0, len(places) - 1, _POSITIONS, device=places.device)
    return places[spread.round().long()]
