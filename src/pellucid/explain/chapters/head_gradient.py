"""The head's gradient: one number of the matrix that made the logits; both paths if it is tied."""

from __future__ import annotations

from pellucid.catalogue import message, messages
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
        return Content(sentence=message("head_gradient.the-matrix-of-the-head"))
    feature = selection.feature
    _, place, next_id = place_with_target(trace, selection)
    input_id = int(trace.ids[place])
    tied, word = trace.model.head is None, piece(trace, next_id)
    return Content(
        sentence=message("head_gradient.a-step-pulls-the-row", word=word, feature=feature),
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
            message("head_gradient.this-table-is-the-embedding")
            if tied
            else message("head_gradient.the-embedding-is-another-matrix"),
        ),
    )


def _class_matrix(trace: Trace, loss: ClassLoss) -> Content:
    """The gradient of the row of the class that moves most."""
    gradient = trace["classifier.weight.grad"]
    number = int(gradient.square().sum(-1).argmax())
    return Content(
        sentence=message("head_gradient.the-row-of-in-the", class_name=name_class(loss, number)),
        pictures=(
            feature_bars(
                message(
                    "head_gradient.gradient-of-the-row-of", class_name=name_class(loss, number)
                ),
                gradient[number],
            ),
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
        message(
            "head_gradient.what-each-place-adds-to",
            word=word,
            feature=feature,
            word2=piece(trace, word),
        ),
        parts,
        largest(parts.abs(), _PLACES),
        lambda n: label(pieces, places[n]),
        message("head_gradient.error-x-n"),
    )


def _tabulate_paths(trace: Trace, words: tuple[int, ...], feature: int) -> Table:
    name = f"{_TABLE}.grad"
    paths = (trace[f"{name}.head"], trace[f"{name}.input"], trace[name])
    return Table(
        title=message("head_gradient.the-two-paths-to-the", feature=feature),
        columns=messages("word.row", "word.as-the-head", "word.as-the-input", "word.both"),
        rows=tuple(
            (piece(trace, word), *(float(path[word, feature]) for path in paths))
            for word in dict.fromkeys(words)
        ),
    )
