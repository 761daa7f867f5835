"""The head's gradient: one number of the matrix that made the logits; with both ways where tied."""

from __future__ import annotations

from pellucid.explain.chapter_types import Bars, Chapter, Picture, Place, Receipt, Table
from pellucid.explain.chapters.backward import (
    chapter_without_loss,
    token_with_target,
)
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.receipts.gradients import both_receipt, head_receipt, input_receipt
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.selection import select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_PLACES = 16


def build(trace: Trace, place: Place) -> Chapter:
    """dW = (p - y) x^T / n, for the word that came and the chosen feature."""
    selection = select_place(trace, place)
    reason = no_loss(trace)
    if reason is not None:
        return chapter_without_loss(reason)
    token, feature = token_with_target(trace, selection), selection.feature
    next_id, input_id = int(trace.ids[token + 1]), int(trace.ids[token])
    tied = trace.model.head is None
    weight = trace.model.head_weight
    if not weight.requires_grad:
        return Chapter(sentence="The matrix of the head is frozen: nothing moves it.")
    receipts: list[Receipt] = [head_receipt(trace, next_id, feature)]
    pictures: list[Picture] = [_terms(trace, next_id, feature)]
    if tied:
        receipts += [
            input_receipt(trace, input_id, feature),
            both_receipt(trace, input_id, feature),
        ]
        pictures.append(_tabulate_paths(trace, (next_id, input_id), feature))
    return Chapter(
        sentence=f"The row of {piece(trace, next_id)} in the head is pulled towards what the model "
        f"had in mind where {piece(trace, next_id)} came, and pushed away wherever it was expected "
        f"in vain: feature {feature} of the row by the sum of p - y times feature {feature}, over "
        f"all places.",
        pictures=tuple(pictures),
        receipts=tuple(receipts),
        notes=(
            (
                "this table is the embedding too (tied): its gradient is the sum of both ways, so "
                "(p - y) x / n alone is not what .grad holds; they differ in the rows of the "
                "tokens that were read, and in no other",
            )
            if tied
            else ("the embedding is another matrix here: nothing else reaches the head",)
        ),
    )


def _terms(trace: Trace, word: int, feature: int) -> Bars:
    """What each place adds to the sum, the largest first."""
    error = trace["error"][:, word].double()
    read = trace["hidden"][:-1, feature].double()
    slope = 1.0
    if trace.model.soft_cap is not None:
        slope = 1 - (trace["logits"][:-1, word].double() / trace.model.soft_cap) ** 2
    parts = error * slope * read / len(error)
    order = parts.abs().argsort(descending=True, stable=True)[:_PLACES]
    pieces = trace.pieces(trace.side)
    return Bars(
        title=f"what each place adds to dW[{word}, {feature}], the row of {piece(trace, word)}",
        names=tuple(f"{pieces[place]!r} ({place})" for place in to_list(order)),
        values=tuple(to_list(parts[order])),
        unit="(p - y) x / n",
        rest=float(parts.sum() - parts[order].sum()) if len(parts) > _PLACES else None,
    )


def _tabulate_paths(trace: Trace, words: tuple[int, ...], feature: int) -> Table:
    name = "token_embedding.weight.grad"
    total, head, from_input = trace[name], trace[f"{name}.head"], trace[f"{name}.input"]
    return Table(
        title=f"the two ways to the tied table, feature {feature}",
        columns=("row", "as the head", "as the input", "both"),
        rows=tuple(
            (
                piece(trace, word),
                *(float(part[word, feature]) for part in (head, from_input, total)),
            )
            for word in dict.fromkeys(words)
        ),
    )
