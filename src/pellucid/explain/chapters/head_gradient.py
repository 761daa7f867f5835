"""The head's gradient: one number of the matrix that made the logits; both paths if it is tied."""

from __future__ import annotations

from pellucid.explain.chapter_types import Bars, Content, Table
from pellucid.explain.chapters.backward import token_with_target
from pellucid.explain.chapters.pictures import bars, largest
from pellucid.explain.receipts.gradients import both_receipt, head_receipt, input_receipt
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace

_PLACES = 16


def build(trace: Trace, selection: Selection) -> Content:
    """dW = (p - y) x^T / n, for the next word and the selected feature."""
    if not trace.model.head_weight.requires_grad:
        return Content(sentence="The matrix of the head is frozen: nothing moves it.")
    token, feature = token_with_target(trace, selection), selection.feature
    next_id, input_id = int(trace.ids[token + 1]), int(trace.ids[token])
    tied, word = trace.model.head is None, piece(trace, next_id)
    return Content(
        sentence=f"A step pulls the row of {word} in the head towards the states before {word}, "
        f"and pushes it away from the states where the model expected {word} in vain. The gradient "
        f"of its feature {feature} sums p - y times feature {feature} of the state over all "
        "places.",
        pictures=(
            _terms(trace, next_id, feature),
            _tabulate_paths(trace, (next_id, input_id), feature) if tied else None,
        ),
        receipts=(
            head_receipt(trace, next_id, feature),
            input_receipt(trace, input_id, feature) if tied else None,
            both_receipt(trace, input_id, feature) if tied else None,
        ),
        notes=(
            "this table is the embedding too (tied): its gradient is the sum along both paths. So "
            "(p - y) x / n alone is not .grad; they differ in the rows of the tokens of the text, "
            "and in no other"
            if tied
            else "the embedding is another matrix here: nothing else reaches the head",
        ),
    )


def _terms(trace: Trace, word: int, feature: int) -> Bars:
    """The term of each place in the sum, the largest first."""
    error = trace["error"][:, word].double()
    state = trace["hidden"][:-1, feature].double()
    slope = 1.0
    if trace.model.soft_cap is not None:
        slope = 1 - (trace["logits"][:-1, word].double() / trace.model.soft_cap) ** 2
    parts = error * slope * state / len(error)
    pieces = trace.pieces(trace.side)
    return bars(
        f"what each place adds to dW[{word}, {feature}], the row of {piece(trace, word)}",
        parts,
        largest(parts.abs(), _PLACES),
        lambda place: label(pieces, place),
        "(p - y) x / n",
    )


def _tabulate_paths(trace: Trace, words: tuple[int, ...], feature: int) -> Table:
    name = "token_embedding.weight.grad"
    paths = (trace[f"{name}.head"], trace[f"{name}.input"], trace[name])
    return Table(
        title=f"the two paths to the tied table, feature {feature}",
        columns=("row", "as the head", "as the input", "both"),
        rows=tuple(
            (piece(trace, word), *(float(path[word, feature]) for path in paths))
            for word in dict.fromkeys(words)
        ),
    )
