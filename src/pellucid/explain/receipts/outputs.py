"""Receipts of the outputs: a logit, a probability, a filmed probability.

Of a large vocabulary they write out the largest logits; one number holds the sum of the others.
"""

from __future__ import annotations

from pellucid.explain import outputs
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, Number, constant
from pellucid.explain.films.capture import Snapshot
from pellucid.explain.receipts.builder import ReceiptBuilder, Source, cell, row, softmax_share
from pellucid.explain.trace_types import Trace
from pellucid.model import LanguageHead

_SOFTMAX_SOURCE: Source = (outputs.read_probabilities, 'torch.softmax(widen(trace["logits"])')


def logit_receipt(trace: Trace, token: int, word: int) -> Receipt:
    """A row of the head times its input, with its bias and cap if it has them."""
    build, model = ReceiptBuilder(trace), trace.model
    table = "token_embedding.weight" if model.head is None else "head.weight"
    expression: Expression = build.vector(f"W[{word}]", table, word) @ build.vector(
        "h", "hidden", token
    )
    formula = f"W[{word}] · h"
    if model.head_bias is not None:
        expression, formula = expression + build.number("b", "head_bias", word), f"{formula} + b"
    if model.soft_cap is not None:
        cap = constant(model.soft_cap, "cap")
        expression, formula = cap * (expression / cap).tanh(), f"cap × tanh(({formula}) / cap)"
    return build.receipt(
        cell("logits", token, word),
        title=f"logit of {piece(trace, word)} after token {token}",
        formula=formula,
        expression=expression,
        source=(LanguageHead.logits, "F.linear(hidden"),
    )


def probability_receipt(trace: Trace, token: int, word: int) -> Receipt:
    """exp(z - max) over its sum over the whole vocabulary."""
    return ReceiptBuilder(trace).receipt(
        cell("probabilities", token, word),
        title=f"probability of {piece(trace, word)} after token {token}",
        formula="exp(z - max) / Σ exp(z - max)",
        expression=probability_of(trace, token, word),
        source=_SOFTMAX_SOURCE,
    )


def film_receipt(trace: Trace, snapshot: Snapshot, token: int) -> Receipt:
    """exp of the filmed surprisal, and the probability that the weights give now."""
    word = int(trace.ids[token + 1])
    surprisal = constant(float(snapshot.tensors["surprisal"][token]), "filmed surprisal")
    return ReceiptBuilder(trace).receipt(
        cell("probabilities", token, word),
        title=f"p of {piece(trace, word)} at update {snapshot.step:,}, filmed and from the weights",
        formula="exp(-filmed surprisal)",
        expression=(-surprisal).exp(),
        source=_SOFTMAX_SOURCE,
    )


def piece(trace: Trace, word: int) -> str:
    """A word of the vocabulary, quoted; its id if there is no tokenizer."""
    return str(word) if trace.spelling is None else repr(trace.spelling.piece(word))


def probability_of(trace: Trace, token: int, word: int) -> Expression:
    """exp(z - max) over its sum, for one word at one token."""
    values = row(trace.logits_at(token), "z").values

    def term(place: int) -> Number:
        return Number(values[place], f"z{place}", cell("logits", token, place))

    return softmax_share(term(word), trace.logits_at(token), term)
