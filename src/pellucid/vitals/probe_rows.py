"""The fixed rows for the readings of a job, of its model and of the one it is compared with."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from pellucid.batches import (
    Batch,
    LabelBatch,
    PairBatch,
    PreferenceBatch,
    RolloutBatch,
    TokenBatch,
)
from pellucid.model import Transformer
from pellucid.objectives import (
    DPO,
    Distillation,
    PolicyGradient,
    Reference,
    frozen_reference,
    open_reference,
)
from pellucid.training import Job, to_device
from pellucid.vitals.predictions import Other
from pellucid.vitals.probe import Probe, places_of

_TOKENS, _ROWS = 512, 4


class Rows:
    """The rows of one job."""

    def __init__(self, job: Job, first: Batch | None) -> None:
        self._job = job
        self._rows = None if first is None else _first_rows(first)

    def probe(self) -> Probe | None:
        """A probe of the first batch, or of the latest one if batches are sampled."""
        if self._rows is None:
            # a look makes no batch of its own: a reward judges each answer once, for all ranks
            if (latest := self._job.latest_batch) is None:
                return None
            self._rows = _first_rows(latest)
        return probe_of(self._job.model, self._rows)

    def other(self) -> tuple[Other, Callable[[], Tensor | None]] | None:
        """The model to compare with: the reference of its objective, or its teacher."""
        objective = self._job.objective
        if isinstance(objective, Distillation):
            return "teacher", lambda: self._call_reference(frozen_reference(objective.teacher))
        if isinstance(objective, DPO | PolicyGradient) and objective.reference:
            reference = objective.reference
            return "reference", lambda: self._call_reference(reference)
        return None

    def _call_reference(self, reference: Reference) -> Tensor | None:
        if self._rows is None:
            return None
        with open_reference(reference, self._job.model) as other_model:
            return probe_of(other_model, self._rows).call()


def probe_of(model: Transformer, batch: Batch) -> Probe:
    """A probe of the rows of a batch of any kind.

    It computes logits only at the measured places: all logits would fill the memory.
    """
    if isinstance(batch, PreferenceBatch):
        return probe_of(model, batch.chosen)
    places = labels = None
    predicts_tokens = model.output_head.no_token_logits is None
    if isinstance(batch, TokenBatch | PairBatch | RolloutBatch) and predicts_tokens:
        places = places_of(batch.targets)  # before the move to the device: this waits for nothing
        labels = batch.targets.flatten()[places].to(model.device)
        places = places.to(model.device)
    batch = to_device(batch, model.device)

    def call() -> Tensor | None:
        match batch:
            case PairBatch():
                encoded = model.encode(batch.source, padding=batch.source_padding)
                states = model.hidden_states(batch.ids, encoded=encoded)
            case TokenBatch():
                states = model.hidden_states(
                    batch.ids, documents=batch.documents, padding=batch.padding
                )
            case RolloutBatch():
                states = model.hidden_states(batch.ids)
            case LabelBatch() if batch.labels.ndim == 1:
                return model.class_logits(batch.ids, padding=batch.padding)[:, None]
            case LabelBatch():
                states = model.hidden_states(batch.ids, padding=batch.padding)
            case _:
                return None
        return None if places is None else model.logits(states.flatten(0, 1)[places])

    return Probe(call, labels)


def _first_rows(batch: Batch) -> Batch:
    length = max(t.shape[1] for t in batch.named_tensors().values() if t.ndim > 1)
    return batch.part(slice(0, min(batch.rows, _ROWS, max(1, _TOKENS // length))))
