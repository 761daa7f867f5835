"""After the step: every weight of a copy moved once, and the sentence read again."""

from __future__ import annotations

import math

from pellucid.explain import optimiser_step
from pellucid.explain.ablation import change
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Content, Table
from pellucid.explain.chapters.backward import place_with_target
from pellucid.explain.chapters.loss import name_targets
from pellucid.explain.chapters.pictures import window
from pellucid.explain.losses.names import name_class, piece
from pellucid.explain.losses.types import ClassLoss
from pellucid.explain.optimiser_settings import choose_settings
from pellucid.explain.outputs import distribution_at, token_rows
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_ROWS = 24


def build(trace: Trace, selection: Selection) -> Content:
    """p of the next word before and after; the other changes; the loss, token by token."""
    if not trace.backward().norms:
        return Content(sentence="Every weight of this model is frozen: no step moves it.")
    updated = optimiser_step.after_update(trace)
    if isinstance(trace.loss, ClassLoss):
        return _classes(trace, updated, trace.loss)
    row, token, next_id = place_with_target(trace, selection)
    name = label(trace.pieces(trace.side), token)
    p_before, p_after = (
        float(distribution_at(version, token)[next_id]) for version in (trace, updated)
    )
    changes = change(trace, updated, token)
    settings = choose_settings(trace, next(iter(trace.backward().norms)))
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
            _tokens(trace, updated, row),
        ),
        receipts=(
            receipt_or_none(trace, "after_update.probabilities", token, next_id),
            receipt_or_none(trace, "after_update.loss"),
        ),
        notes=(
            settings.origin,
            *optimiser_step.list_left_out(trace),
            f"the distribution after this token moved by KL {changes.kl:.4g} nats",
            "your model did not change: pellucid moved a copy and dropped it",
        ),
    )


def _tokens(trace: Trace, updated: Trace, row: int) -> Table:
    loss = token_rows(trace)
    before, after = (to_list(version["surprisal"].double()) for version in (trace, updated))
    rows, places = window(row, len(before), _ROWS), to_list(loss.places)
    pieces, shift = name_targets(trace, loss), 1 if trace.predicts else 0
    return Table(
        title="p of each token that counts" + ("" if len(rows) == len(before) else ": a part"),
        columns=("place", "token", "p before", "p after", "nats before", "nats after"),
        rows=tuple(
            (
                places[i] + shift,
                pieces[i],
                *(math.exp(-cost[i]) for cost in (before, after)),
                *(cost[i] for cost in (before, after)),
            )
            for i in rows
        ),
    )


def _classes(trace: Trace, updated: Trace, loss: ClassLoss) -> Content:
    before, after = (version["class_probabilities"].double() for version in (trace, updated))
    return Content(
        sentence="One step of all weights that learn, on a copy, and the text again: the loss goes "
        f"from {float(trace['loss']):.4f} to {float(updated['loss']):.4f}.",
        pictures=(
            Table(
                title="p of each class",
                columns=("class", "p before", "p after", "change"),
                rows=tuple(
                    (name_class(loss, n), float(p), float(q), float(q - p))
                    for n, (p, q) in enumerate(zip(before, after, strict=True))
                ),
            ),
        ),
        receipts=(receipt_or_none(trace, "after_update.loss"),),
        notes=(
            *optimiser_step.list_left_out(trace),
            "your model did not change: pellucid moved a copy and dropped it",
        ),
    )
