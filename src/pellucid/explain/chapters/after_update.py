"""After the step: every weight of a copy moved once, and the sentence read again."""

from __future__ import annotations

import math

from pellucid.explain import optimiser_step
from pellucid.explain.ablation import change
from pellucid.explain.chapter_types import Content, Table
from pellucid.explain.chapters.backward import token_with_target
from pellucid.explain.chapters.pictures import window
from pellucid.explain.outputs import distribution_at
from pellucid.explain.receipts.optimiser_step import prefix_addresses
from pellucid.explain.receipts.outputs import loss_receipt, piece, probability_receipt
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_ROWS = 24


def build(trace: Trace, selection: Selection) -> Content:
    """p of the next word before and after; the other changes; the loss, token by token."""
    if not trace.backward().norms:
        return Content(sentence="Every weight of this model is frozen: no step moves it.")
    token, updated = token_with_target(trace, selection), optimiser_step.after_update(trace)
    next_id, name = int(trace.ids[token + 1]), label(trace.pieces(trace.side), token)
    p_before, p_after = (
        float(distribution_at(version, token)[next_id]) for version in (trace, updated)
    )
    changes = change(trace, updated, token)
    settings = optimiser_step.choose_settings(trace, next(iter(trace.backward().norms)))
    return Content(
        sentence="One step of all weights that learn, on a copy, and the sentence again: "
        f"{piece(trace, next_id)} after {name} goes from {p_before:.4f} to {p_after:.4f}, the loss "
        f"from {float(trace['loss']):.4f} to {float(updated['loss']):.4f}.",
        pictures=(
            Table(
                title=f"the largest changes after {name}",
                columns=("token", "p before", "p after", "change"),
                rows=tuple(
                    (piece(trace, word), before, after, after - before)
                    for word, before, after in zip(
                        changes.words, changes.before, changes.after, strict=True
                    )
                ),
            ),
            _tokens(trace, updated, token),
        ),
        receipts=[
            prefix_addresses(receipt, "after_update.")
            for receipt in (probability_receipt(updated, token, next_id), loss_receipt(updated))
        ],
        notes=(
            settings.origin,
            *optimiser_step.list_left_out(trace),
            f"the distribution after this token moved by KL {changes.kl:.4g} nats",
            "your model did not change: pellucid moved a copy and dropped it",
        ),
    )


def _tokens(trace: Trace, updated: Trace, token: int) -> Table:
    before, after = (to_list(version["surprisal"].double()) for version in (trace, updated))
    places, pieces = window(token, len(before), _ROWS), trace.pieces(trace.side)
    return Table(
        title="p of each token that came" + ("" if len(places) == len(before) else ": a part"),
        columns=("place", "token", "p before", "p after", "nats before", "nats after"),
        rows=tuple(
            (i + 1, pieces[i + 1], math.exp(-before[i]), math.exp(-after[i]), before[i], after[i])
            for i in places
        ),
    )
