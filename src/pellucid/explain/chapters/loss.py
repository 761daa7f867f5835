"""Loss: what each token cost, given those before it, and their mean."""

from __future__ import annotations

import math

from pellucid.explain.chapter_types import Chapter, Picture, Place, Receipt, Table, Tokens
from pellucid.explain.receipts import loss_receipt, surprisal_receipt
from pellucid.explain.selection import select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_ROWS = 24


def build(trace: Trace, place: Place) -> Chapter:
    """Surprisal under each word, the loss, and what guessing would cost."""
    selection = select_place(trace, place)
    reason = no_loss(trace)
    if reason is not None:
        return Chapter(sentence=reason)
    costs: list[float] = to_list(trace["surprisal"].double())
    pieces = trace.pieces(trace.side)
    loss, vocab = float(trace["loss"]), trace.model.head_weight.shape[0]
    # what came after the chosen token, or the last that came
    token = min(selection.token if selection.side == trace.side else 0, len(costs) - 1)
    first = max(0, min(token - _ROWS // 2, len(costs) - _ROWS))
    places = range(first, min(first + _ROWS, len(costs)))
    pictures: tuple[Picture, ...] = (
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
    )
    receipts: tuple[Receipt, ...] = (surprisal_receipt(trace, token), loss_receipt(trace))
    return Chapter(
        sentence=f"Each token costs -log of the probability that it was given; the mean is the "
        f"loss, {loss:.4f} nats: as if guessing evenly among {_perplexity(loss)} words. Guessing "
        f"among all {vocab:,} would cost {math.log(vocab):.4f}.",
        pictures=pictures,
        receipts=receipts,
        notes=("the first token is given, and costs nothing",),
    )


def _perplexity(loss: float) -> str:
    return f"{math.exp(loss):,.1f}" if loss < 700 else "more than can be counted"


def no_loss(trace: Trace) -> str | None:
    """Why no token of a trace has a cost; None where they have."""
    if "loss" in trace.addresses():
        return None
    if trace.model.classifier is not None:
        return "This model names the class of a text: no token of it is predicted."
    if not trace.model.has_head:
        return "This model has no head: it gives no token a probability, so none has a cost."
    if trace.model.decoder is None:
        return (
            "An encoder sees every token at once and predicts none from those before it: it is "
            "asked for masked words alone, and what the sentence hides there is not known."
        )
    return "One token alone predicts nothing that came: write another."
