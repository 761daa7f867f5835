"""After the step: every weight of a copy moved once, and the sentence read again.

Comes in: a trace, a token. Goes out: a chapter.
"""

from __future__ import annotations

import math

from pellucid.explain import updating
from pellucid.explain.ablation import change
from pellucid.explain.chapter import Chapter, Place, Table
from pellucid.explain.chapters.backward import nothing, priced, without_numbers
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.chapters.words import shares_at
from pellucid.explain.places import settled
from pellucid.explain.receipts.ends import loss_receipt, piece, probability_receipt
from pellucid.explain.receipts.updates import moved_to
from pellucid.explain.tracing import Trace
from pellucid.typed import to_list

_ROWS = 24


def build(trace: Trace, place: Place) -> Chapter:
    """p of the word that came, before and after; what else changed; the loss, token by token."""
    chosen = settled(trace, place)
    why = no_loss(trace)
    if why is not None:
        return nothing("after-update", why)
    if not trace.backward().norms:
        return without_numbers(
            "after-update", "Every weight of this model is frozen: no step moves it."
        )
    token = priced(trace, chosen)
    after = updating.after_update(trace)
    came = int(trace.ids[token + 1])
    one, other = (float(shares_at(each, token)[came]) for each in (trace, after))
    found = change(trace, after, token)
    rows = tuple(
        (piece(trace, word), before, now, now - before)
        for word, before, now in zip(found.words, found.before, found.after, strict=True)
    )
    pieces = trace.pieces(trace.side)
    loss, now = float(trace["loss"]), float(after["loss"])
    how = updating.settings(trace, next(iter(trace.backward().norms)))
    return Chapter(
        id="after-update",
        number=20,
        part="update",
        title="After the step",
        sentence="One step of all weights that learn, on a copy, and the sentence again: "
        f"{piece(trace, came)} after {pieces[token]!r} ({token}) goes from {one:.4f} to "
        f"{other:.4f}, the loss from {loss:.4f} to {now:.4f}.",
        pictures=(
            Table(
                title=f"what changed most after {pieces[token]!r} ({token})",
                columns=("token", "p before", "p after", "change"),
                rows=rows,
            ),
            _tokens(trace, after, token),
        ),
        receipts=tuple(
            moved_to(each, "after_update.")
            for each in (probability_receipt(after, token, came), loss_receipt(after))
        ),
        notes=(
            how.told,
            *updating.left_out(trace),
            f"the distribution after this token moved by KL {found.kl:.4g} nats",
            "the model that is looked at was not touched: a copy was moved, and is forgotten",
        ),
    )


def _tokens(trace: Trace, after: Trace, token: int) -> Table:
    costs = [to_list(each["surprisal"].double()) for each in (trace, after)]
    count = len(costs[0])
    first = max(0, min(token - _ROWS // 2, count - _ROWS))
    shown = range(first, min(first + _ROWS, count))
    pieces = trace.pieces(trace.side)
    return Table(
        title="p of each token that came" + ("" if len(shown) == count else ": a part"),
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
            for i in shown
        ),
    )
