"""Backward: the prediction minus the token that came. Every gradient begins here."""

from __future__ import annotations

from pellucid.explain.chapter_types import Content, Tokens
from pellucid.explain.chapters.pictures import bars, largest
from pellucid.explain.receipts.gradients import error_receipt, mean_receipt, zero_sum_receipt
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_MAX_WORDS = 11


def build(trace: Trace, selection: Selection) -> Content:
    """p - y at the selected token: it pulls the next word up, and pushes each other down."""
    token = token_with_target(trace, selection)
    next_id = int(trace.ids[token + 1])
    error = trace["error"][token].double()
    order = [word for word in largest(error.abs(), _MAX_WORDS) if word != next_id]
    words = [next_id, *order][:_MAX_WORDS]
    pieces = trace.pieces(trace.side)
    missing = -float(error[next_id])
    return Content(
        sentence=f"After {label(pieces, token)} came {piece(trace, next_id)}, with a probability "
        f"of {1 - missing:.4f}. Its logit should rise by {missing:.4f}, which is what p lacks to "
        "1; every other logit should fall by its own p. All of these p - y sum to 0.",
        pictures=(
            bars(
                f"p - y after {label(pieces, token)}, the next token first",
                error,
                words,
                lambda word: piece(trace, word),
                "p - y",
            ),
            Tokens(
                title="p - y of the token that came, at each place",
                pieces=pieces[1:],
                ids=tuple(to_list(trace.ids[1:])),
                values=tuple(to_list(trace["error"].gather(1, trace.ids[1:, None])[:, 0])),
                unit="p - y",
            ),
        ),
        receipts=(
            error_receipt(trace, token, next_id),
            error_receipt(trace, token, next(iter(order), next_id)),
            zero_sum_receipt(trace, token),
            mean_receipt(trace, token, next_id),
        ),
        notes=(
            f"the loss is a mean over {len(trace.ids) - 1} tokens, so each place counts that much "
            "less: the gradient of a logit is (p - y) / n",
            "no token is known to follow the last one: this is the one before"
            if token != selection.token
            else None,
        ),
    )


def token_with_target(trace: Trace, selection: Selection) -> int:
    """The selected token, or the last that has a next one."""
    return min(selection.token if selection.side == trace.side else 0, len(trace.ids) - 2)
