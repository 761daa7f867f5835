"""After the step: every weight of a copy moved once, and the sentence read again."""

from __future__ import annotations

import math

from pellucid.catalogue import message, messages
from pellucid.explain import optimiser_step
from pellucid.explain.ablation import change
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Content, Table
from pellucid.explain.chapters.backward import place_with_target
from pellucid.explain.chapters.pictures import window
from pellucid.explain.losses.names import name_class, name_targets, piece
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
        return Content(sentence=message("after_update.every-weight-of-this-model"))
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
        sentence=message(
            "after_update.one-step-of-all-weights-2",
            word=piece(trace, next_id),
            name=name,
            p_before=p_before,
            p_after=p_after,
            loss=float(trace["loss"]),
            loss2=float(updated["loss"]),
        ),
        pictures=(
            Table(
                title=message("after_update.the-largest-changes-after", name=name),
                columns=messages("word.token", "word.p-before", "word.p-after", "word.change"),
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
            message("after_update.the-distribution-after-this-token", kl=changes.kl),
            message("after_update.your-model-did-not-change"),
        ),
    )


def _tokens(trace: Trace, updated: Trace, row: int) -> Table:
    loss = token_rows(trace)
    before, after = (to_list(version["surprisal"].double()) for version in (trace, updated))
    rows, places = window(row, len(before), _ROWS), to_list(loss.places)
    pieces, shift = name_targets(trace, loss), 1 if trace.predicts else 0
    return Table(
        title=message("after_update.p-of-each-token-that")
        + ("" if len(rows) == len(before) else message("after_update.a-part")),
        columns=messages(
            "word.place",
            "word.token",
            "word.p-before",
            "word.p-after",
            "word.nats-before",
            "word.nats-after",
        ),
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
        sentence=message(
            "after_update.one-step-of-all-weights",
            loss=float(trace["loss"]),
            loss2=float(updated["loss"]),
        ),
        pictures=(
            Table(
                title=message("after_update.p-of-each-class"),
                columns=messages("word.class", "word.p-before", "word.p-after", "word.change"),
                rows=tuple(
                    (name_class(loss, n), float(p), float(q), float(q - p))
                    for n, (p, q) in enumerate(zip(before, after, strict=True))
                ),
            ),
        ),
        receipts=(receipt_or_none(trace, "after_update.loss"),),
        notes=(
            *optimiser_step.list_left_out(trace),
            message("after_update.your-model-did-not-change"),
        ),
    )
