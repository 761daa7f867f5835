"""Loss: the surprisal of each token, given those before it, and their mean."""

from __future__ import annotations

import math

from pellucid.explain.chapter_types import Content, Table, Tokens
from pellucid.explain.chapters.backward import token_with_target
from pellucid.explain.chapters.pictures import window
from pellucid.explain.receipts import loss_receipt, surprisal_receipt
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_ROWS = 24


def build(trace: Trace, selection: Selection) -> Content:
    """Surprisal under each word, the loss, and the loss of guessing."""
    costs: list[float] = to_list(trace["surprisal"].double())
    pieces = trace.pieces(trace.side)
    loss, vocab = float(trace["loss"]), trace.model.head_weight.shape[0]
    token = token_with_target(trace, selection)
    places = window(token, len(costs), _ROWS)
    perplexity = f"{math.exp(loss):,.1f}" if loss < 700 else "more than can be counted"
    return Content(
        sentence="The loss of a token is -log of the probability that the model gave it; the mean "
        f"is {loss:.4f} nats: as if guessing evenly among {perplexity} words. Guessing among all "
        f"{vocab:,} would cost {math.log(vocab):.4f}.",
        pictures=(
            Tokens(
                title="surprisal of each token",
                pieces=pieces[1:],
                ids=tuple(to_list(trace.ids[1:])),
                values=tuple(costs),
                unit="nats",
            ),
            Table(
                title="token by token" + ("" if len(places) == len(costs) else ": a part"),
                columns=("place", "token", "p", "nats", "bits"),
                rows=tuple(
                    (i + 1, pieces[i + 1], math.exp(-costs[i]), costs[i], costs[i] / math.log(2))
                    for i in places
                ),
            ),
        ),
        receipts=(surprisal_receipt(trace, token), loss_receipt(trace)),
        notes=("the first token is given, and has no loss",),
    )
