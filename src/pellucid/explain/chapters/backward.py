"""Backward: what was said minus what came. Where every gradient begins."""

from __future__ import annotations

from pellucid.explain.chapter_types import Bars, Chapter, Place, Tokens
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.receipts.gradients import error_receipt, mean_receipt, zero_sum_receipt
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_MAX_WORDS = 11


def build(trace: Trace, place: Place) -> Chapter:
    """p - y at the chosen token: the word that came is pulled up, each other pushed down."""
    selection = select_place(trace, place)
    reason = no_loss(trace)
    if reason is not None:
        return chapter_without_loss(reason)
    token = token_with_target(trace, selection)
    next_id = int(trace.ids[token + 1])
    error = trace["error"][token].double()
    order: list[int] = to_list(error.abs().argsort(descending=True, stable=True)[:_MAX_WORDS])
    words = [next_id, *(word for word in order if word != next_id)][:_MAX_WORDS]
    likeliest = next((word for word in words if word != next_id), next_id)
    remaining_error = float(error.sum() - error[words].sum()) if len(words) < len(error) else None
    pieces = trace.pieces(trace.side)
    return Chapter(
        sentence=f"After {pieces[token]!r} ({token}) came {piece(trace, next_id)}, with a "
        f"probability of {1 + float(error[next_id]):.4f}. Its logit should rise by "
        f"{-float(error[next_id]):.4f}, which is what p lacks to 1; every other logit should fall "
        f"by its own p. All of these p - y sum to 0.",
        pictures=(
            Bars(
                title=f"p - y after {pieces[token]!r} ({token}), what came first",
                names=tuple(piece(trace, word) for word in words),
                values=tuple(to_list(error[words])),
                unit="p - y",
                rest=remaining_error,
            ),
            Tokens(
                title="p - y of the word that came, at each place",
                pieces=pieces[1:],
                ids=tuple(to_list(trace.ids[1:])),
                values=tuple(
                    float(row[int(word)])
                    for row, word in zip(trace["error"], trace.ids[1:], strict=True)
                ),
                unit="p - y",
            ),
        ),
        receipts=(
            error_receipt(trace, token, next_id),
            error_receipt(trace, token, likeliest),
            zero_sum_receipt(trace, token),
            mean_receipt(trace, token, next_id),
        ),
        notes=(
            f"the loss is a mean over {len(trace.ids) - 1} tokens, so each place counts that much "
            "less: the gradient of a logit is (p - y) / n",
            *(
                ("behind the last token nothing is known to have come: this is the one before",)
                if token != selection.token
                else ()
            ),
        ),
    )


def token_with_target(trace: Trace, selection: Selection) -> int:
    """The chosen token, or the last whose next one came."""
    return min(selection.token if selection.side == trace.side else 0, len(trace.ids) - 2)


def chapter_without_loss(reason: str) -> Chapter:
    """A chapter of the way back, for a trace without a loss."""
    return Chapter(sentence=f"There is no loss to go back from. {reason}")
