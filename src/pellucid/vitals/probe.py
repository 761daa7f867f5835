"""A look into the model: one forward pass over a few fixed rows, which leaves no trace.

Hooks are put on for the length of the pass, so that nothing stands in the way of training, nor of
its compilation. The pass is eager, in evaluation mode, without gradients (see `at_rest`).
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
from pellucid.vitals.taps.hooks import Hooks
from pellucid.vitals.taps.restore import at_rest
from pellucid.vitals.taps.stream import StreamTaps

#: Of how many positions predictions are looked at: logits of all would fill the memory.
_POSITIONS = 256


@dataclass(frozen=True, slots=True)
class Probe:
    """What is called for a look, and what was to be predicted.

    `call` runs the model over the fixed rows and gives (..., vocab) logits, of all places or of
    some, or None where the model predicts no tokens. `labels` (...) are the targets at those
    places, `IGNORED` where there is none; None where they are not known.
    """

    call: Callable[[], Tensor | None]
    labels: Tensor | None


class ProbeRunner:
    """Looks through one probe, again and again at the same rows."""

    def __init__(self, anatomy: Anatomy, probe: Probe) -> None:
        self._anatomy = anatomy
        self.probe = probe
        self._attention = AttentionTaps(anatomy)
        self._stream = StreamTaps(anatomy)
        self._chosen: tuple[Tensor, Tensor] | None = None
        #: names of the modules that the first look went through
        self.called: frozenset[str] = frozenset()

    @property
    def missing(self) -> dict[str, str]:
        """Signs that this model does not show, and why; known after the first look."""
        return self._attention.missing | self._stream.missing

    def look(self, tape: AsyncMetrics) -> Predicted | None:
        """Measure everything, onto the tape."""
        called: set[str] = set()
        with at_rest(self._anatomy.model), ExitStack() as taps:
            if not self.called:
                self._note_calls(taps.enter_context(Hooks(tape.guard)), called)
            taps.enter_context(self._attention.on(tape))
            taps.enter_context(self._stream.on(tape))
            logits = self.probe.call()
        self.called = self.called or frozenset(called)
        predicted = self._predicted(logits)
        if predicted is not None:
            predicted.measure(tape)
        return predicted

    def _note_calls(self, hooks: Hooks, called: set[str]) -> None:
        """Note the name of every module that is called."""
        for name, module in named_modules(self._anatomy.model).items():
            hooks.before(module, "gradient.missing", partial(_note, called, name))

    def glance(
        self, model: nn.Module | None = None, call: Callable[[], Tensor | None] | None = None
    ) -> Predicted | None:
        """What the model predicts now, and nothing else; or another model, at the same places."""
        with at_rest(model or self._anatomy.model):
            logits = (call or self.probe.call)()
        return self._predicted(logits)

    def _predicted(self, logits: Tensor | None) -> Predicted | None:
        """The predictions that are looked at; None where nothing is predicted."""
        if logits is None:
            return None
        with torch.no_grad():
            flat = logits.flatten(0, -2)
            if self._chosen is None:
                self._chosen = _chosen(self.probe.labels, flat)
            places, targets = self._chosen
            if not len(places):
                return None
            chosen = flat if len(places) == len(flat) else flat.index_select(0, places)
            wide = chosen if chosen.dtype == torch.float64 else chosen.float()
            return Predicted(wide, None if self.probe.labels is None else targets)


def _note(called: set[str], name: str, *_: object) -> None:
    called.add(name)


def _chosen(labels: Tensor | None, flat: Tensor) -> tuple[Tensor, Tensor]:
    """The places whose predictions are looked at, and the labels there, if any are known."""
    if labels is None:
        places = _spread(torch.arange(flat.shape[0], device=flat.device))
        return places, places
    labels = labels.to(flat.device).flatten()
    # what is outside of the vocabulary is somebody's own sign for no target
    outside = (labels < 0) | (labels >= flat.shape[-1])
    labels = labels.masked_fill(outside, IGNORED)
    places = places_of(labels)  # once in a run: it waits for the device
    return places, labels[places]


def places_of(labels: Int[Tensor, ...]) -> Int[Tensor, " places"]:
    """Some of the flattened places where something is predicted."""
    return _spread((labels.flatten() != IGNORED).nonzero()[:, 0])


def _spread(places: Int[Tensor, " every"]) -> Int[Tensor, " places"]:
    """At most `_POSITIONS` of the places, evenly spread."""
    if len(places) <= _POSITIONS:
        return places
    spread = torch.linspace(0, len(places) - 1, _POSITIONS, device=places.device)
    return places[spread.round().long()]
