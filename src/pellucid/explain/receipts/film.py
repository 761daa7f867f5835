"""The receipt of a film: a number that was kept while the model trained, beside its weights."""

from __future__ import annotations

from pellucid.explain import outputs
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.films.capture import Snapshot
from pellucid.explain.receipts.builder import apply, at, constant, receipt, source_line
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.trace_types import Trace


def film_receipt(trace: Trace, shot: Snapshot, token: int) -> Receipt:
    """exp of the surprisal that was filmed, beside the probability that the weights give now."""
    word = int(trace.ids[token + 1])
    filmed = constant(float(shot.tensors["surprisal"][token]), "filmed surprisal")
    return receipt(
        trace,
        title=f"p of {piece(trace, word)} at update {shot.step:,}, filmed and from the weights",
        formula="exp(-filmed surprisal)",
        expression=apply("exp", apply("neg", filmed)),
        address=at("probabilities", token, word),
        source=source_line(outputs.read_probabilities, 'torch.softmax(widen(trace["logits"])'),
    )
