"""After the step: every weight of a copy moved once, and the sentence read again."""

from __future__ import annotations

import math

from pellucid.explain import optimiser_step
from pellucid.explain.ablation import change
from pellucid.explain.chapter_types import Chapter, Place, Table
from pellucid.explain.chapters.backward import (
    chapter_without_loss,
    token_with_target,
)
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.chapters.target_token import probabilities_at
from pellucid.explain.receipts.optimiser_step import prefix_addresses
from pellucid.explain.receipts.outputs import loss_receipt, piece, probability_receipt
from pellucid.explain.selection import select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_ROWS = 24


def build(trace: Trace, place: Place) -> Chapter:
    """p of the word that came, before and after; what else changed; the loss, token by token."""
    selection = select_place(trace, place)
    reason = no_loss(trace)
    if reason is not None:
        return chapter_without_loss(reason)
    if not trace.backward().norms:
        return Chapter(sentence="Every weight of this model is frozen: no step moves it.")
    token = token_with_target(trace, selection)
    updated = optimiser_step.after_update(trace)
    next_id = int(trace.ids[token + 1])
    p_before, p_after = (
        float(probabilities_at(version, token)[next_id]) for version in (trace, updated)
    )
    probability_change = change(trace, updated, token)
    rows = tuple(
        (piece(trace, word), old_p, new_p, new_p - old_p)
        for word, old_p, new_p in zip(
            probability_change.words,
            probability_change.before,
            probability_change.after,
            strict=True,
        )
    )
    pieces = trace.pieces(trace.side)
    loss, new_loss = float(trace["loss"]), float(updated["loss"])
    step_settings = optimiser_step.choose_settings(trace, next(iter(trace.backward().norms)))
    return Chapter(
        sentence="One step of all weights that learn, on a copy, and the sentence again: "
        f"{piece(trace, next_id)} after {pieces[token]!r} ({token}) goes from {p_before:.4f} to "
        f"{p_after:.4f}, the loss from {loss:.4f} to {new_loss:.4f}.",
        pictures=(
            Table(
                title=f"what changed most after {pieces[token]!r} ({token})",
                columns=("token", "p before", "p after", "change"),
                rows=rows,
            ),
            _tokens(trace, updated, token),
        ),
        receipts=tuple(
            prefix_addresses(receipt, "after_update.")
            for receipt in (probability_receipt(updated, token, next_id), loss_receipt(updated))
        ),
        notes=(
            step_settings.origin,
            *optimiser_step.list_left_out(trace),
            f"the distribution after this token moved by KL {probability_change.kl:.4g} nats",
            "the model that is looked at was not touched: a copy was moved, and is forgotten",
        ),
    )


def _tokens(trace: Trace, updated: Trace, token: int) -> Table:
    costs = [to_list(version["surprisal"].double()) for version in (trace, updated)]
    count = len(costs[0])
    first = max(0, min(token - _ROWS // 2, count - _ROWS))
    places = range(first, min(first + _ROWS, count))
    pieces = trace.pieces(trace.side)
    return Table(
        title="p of each token that came" + ("" if len(places) == count else ": a part"),
        columns=("place", "token", "p before", "p after", "nats before", "nats after"),
        rows=tuple(
            (
                i + 1,
                pieces[i + 1],
                math.exp(-costs[0][i]),
                math.exp(-costs[1][i]),
                costs[0][i],
                costs[1][i],
            )
            for i in places
        ),
    )
