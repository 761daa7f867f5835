"""The head's gradient: one number of the matrix that made the logits; both paths if it is tied."""

from __future__ import annotations

from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Bars, Content, Table
from pellucid.explain.chapters.backward import place_with_target
from pellucid.explain.chapters.pictures import bars, feature_bars, largest
from pellucid.explain.losses.compute import n_terms
from pellucid.explain.losses.names import name_class, piece
from pellucid.explain.losses.types import ClassLoss
from pellucid.explain.outputs import token_rows
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_PLACES = 16
_TABLE = "token_embedding.weight"


def build(trace: Trace, selection: Selection) -> Content:
    """dW = (p - y) x^T / n, for the next word and the selected feature."""
    if isinstance(trace.loss, ClassLoss):
        return _class_matrix(trace, trace.loss)
    if not trace.model.head_weight.requires_grad:
        return Content(sentence="The matrix of the head is frozen: nothing moves it.")
    feature = selection.feature
    _, place, next_id = place_with_target(trace, selection)
    input_id = int(trace.ids[place])
    tied, word = trace.model.head is None, piece(trace, next_id)
    return Content(
        sentence=f"A step pulls the row of {word} in the head towards the states before {word}, "
        f"and pushes it away from the states where the model expected {word} in vain. The gradient "
        f"of its feature {feature} sums the error of its logit times feature {feature} of the "
        "state, over all places that count.",
        pictures=(
            _terms(trace, next_id, feature),
            _tabulate_paths(trace, (next_id, input_id), feature) if tied else None,
        ),
        receipts=(
            receipt_or_none(
                trace, f"{_TABLE}.grad.head" if tied else "head.weight.grad", next_id, feature
            ),
            receipt_or_none(trace, f"{_TABLE}.grad.input", input_id, feature) if tied else None,
            receipt_or_none(trace, f"{_TABLE}.grad", input_id, feature) if tied else None,
        ),
        notes=(
            "this table is the embedding too (tied): its gradient is the sum along both paths. So "
            "the sum of the head alone is not .grad; they differ in the rows of the tokens of the "
            "text, and in no other"
            if tied
            else "the embedding is another matrix here: nothing else reaches the head",
        ),
    )


def _class_matrix(trace: Trace, loss: ClassLoss) -> Content:
    """The gradient of the row of the class that moves most."""
    gradient = trace["classifier.weight.grad"]
    number = int(gradient.square().sum(-1).argmax())
    return Content(
        sentence=f"The row of {name_class(loss, number)} in the matrix of the classes moves most: "
        "along the state of the text, by the error of its logit.",
        pictures=(
            feature_bars(f"gradient of the row of {name_class(loss, number)}", gradient[number]),
        ),
    )


def _terms(trace: Trace, word: int, feature: int) -> Bars:
    """The term of each place in the sum, the largest first."""
    loss = token_rows(trace)
    error = trace["error"][:, word].double()
    state = trace["hidden"][loss.places, feature].double()
    slope = 1.0
    if trace.model.soft_cap is not None:
        slope = 1 - (trace["logits"][loss.places, word].double() / trace.model.soft_cap) ** 2
    parts = error * slope * state / n_terms(loss)
    pieces, places = trace.pieces(trace.side), to_list(loss.places)
    return bars(
        f"what each place adds to dW[{word}, {feature}], the row of {piece(trace, word)}",
        parts,
        largest(parts.abs(), _PLACES),
        lambda n: label(pieces, places[n]),
        "error x / n",
    )


def _tabulate_paths(trace: Trace, words: tuple[int, ...], feature: int) -> Table:
    name = f"{_TABLE}.grad"
    paths = (trace[f"{name}.head"], trace[f"{name}.input"], trace[name])
    return Table(
        title=f"the two paths to the tied table, feature {feature}",
        columns=("row", "as the head", "as the input", "both"),
        rows=tuple(
            (piece(trace, word), *(float(path[word, feature]) for path in paths))
            for word in dict.fromkeys(words)
        ),
    )
