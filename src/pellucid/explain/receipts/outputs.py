"""Receipts of the end: a logit, a probability, a surprisal, the loss.

Of a large vocabulary the largest logits are written out, and the others stand as one number.
"""

from __future__ import annotations

from pellucid.explain import outputs
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, Number
from pellucid.explain.receipts.builder import (
    added,
    apply,
    at,
    constant,
    number,
    product,
    receipt,
    row,
    shares,
    source_line,
    vector,
)
from pellucid.explain.trace_types import Trace
from pellucid.model import LanguageHead


def logit_receipt(trace: Trace, token: int, word: int) -> Receipt:
    """A row of the head times what it reads, with a bias and a cap where there are any."""
    model = trace.model
    name = "token_embedding.weight" if model.head is None else "head.weight"
    w = vector(trace, at(name, word), f"W[{word}]")
    expression: Expression = product(w, vector(trace, at("hidden", token), "h"))
    formula = f"W[{word}] · h"
    if model.head_bias is not None:
        expression, formula = (
            added(expression, number(trace, at("head_bias", word), "b")),
            f"{formula} + b",
        )
    if model.soft_cap is not None:
        cap = constant(model.soft_cap, "cap")
        expression = apply("mul", cap, apply("tanh", apply("div", expression, cap)))
        formula = f"cap × tanh(({formula}) / cap)"
    return receipt(
        trace,
        title=f"logit of {piece(trace, word)} after token {token}",
        formula=formula,
        expression=expression,
        address=at("logits", token, word),
        source=source_line(LanguageHead.logits, "F.linear(hidden"),
    )


def probability_receipt(trace: Trace, token: int, word: int) -> Receipt:
    """exp(z - max) over the sum of them over the whole vocabulary."""
    return receipt(
        trace,
        title=f"probability of {piece(trace, word)} after token {token}",
        formula="exp(z - max) / Σ exp(z - max)",
        expression=_share(trace, token, word),
        address=at("probabilities", token, word),
        source=source_line(outputs.read_probabilities, 'torch.softmax(widen(trace["logits"])'),
    )


def surprisal_receipt(trace: Trace, token: int) -> Receipt:
    """-log of the probability of the token that came after `token`, in nats."""
    word = int(trace.ids[token + 1])
    return receipt(
        trace,
        title=f"surprisal of {piece(trace, word)} after token {token}",
        formula="-log p",
        expression=apply("neg", apply("log", _share(trace, token, word))),
        address=at("surprisal", token),
        source=source_line(outputs.read_surprisal, 'reduction="none"'),
    )


def loss_receipt(trace: Trace) -> Receipt:
    """The mean of all surprisals."""
    all_of_them = vector(trace, "surprisal", "surprisals")
    n = constant(len(all_of_them.values), "n")
    return receipt(
        trace,
        title="loss of the sentence",
        formula="Σ surprisals / n",
        expression=apply("div", apply("sum", all_of_them), n),
        address="loss",
        source=source_line(outputs.next_token_loss, "return F.cross_entropy("),
    )


def piece(trace: Trace, word: int) -> str:
    """A word of the vocabulary, quoted; its number where there is no tokenizer."""
    return str(word) if trace.spelling is None else repr(trace.spelling.piece(word))


def _share(trace: Trace, token: int, word: int) -> Expression:
    values = row(trace.logits_at(token), "z").values

    def term(place: int) -> Number:
        return Number(values[place], f"z{place}", at("logits", token, place))

    return shares(term(word), trace.logits_at(token), term)
