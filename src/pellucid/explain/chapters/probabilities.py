"""Probabilities: logits over the whole vocabulary, and how a token is drawn from them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pellucid.explain.chapter_types import Bars, Chapter, Place, Receipt, Table
from pellucid.explain.chapters.target_token import mask_or, probabilities_at
from pellucid.explain.receipts import logit_receipt, probability_receipt
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.selection import select_place
from pellucid.explain.trace_types import Trace
from pellucid.maths.sampling import keep_top_k, keep_top_p
from pellucid.typed import to_list

_MAX_WORDS = 10
#: Ways of drawing that are shown beside each other: temperature, top-k, top-p.
_SETTINGS: tuple[tuple[float, int | None, float | None], ...] = (
    (1.0, None, None),
    (0.7, None, None),
    (1.5, None, None),
    (1.0, 10, None),
    (1.0, None, 0.9),
    (0.8, 50, 0.95),
)


def build(trace: Trace, place: Place) -> Chapter:
    """The distribution at one place, whole and as it is cut for drawing."""
    selection = select_place(trace, place)
    if trace.model.classifier is not None:
        return _classes(trace)
    _ = trace.model.head_weight  # for its refusal
    token = mask_or(trace, selection.token) if selection.side == trace.side else len(trace.ids) - 1
    logits = trace.logits_at(token)
    shares = probabilities_at(trace, token)
    values, words = shares.topk(min(_MAX_WORDS, len(shares)))
    best: list[int] = to_list(words)
    token_text = trace.pieces(trace.side)[token]
    next_ids = _next_ids(trace, token)
    receipts: list[Receipt] = []
    for word in dict.fromkeys((best[0], *next_ids)):
        receipts += [logit_receipt(trace, token, word), probability_receipt(trace, token, word)]
    preposition = "at" if trace.model.decoder is None else "after"
    return Chapter(
        sentence=f"{preposition.capitalize()} {token_text!r} ({token}) each of the {len(shares):,} "
        f"words of the vocabulary has a logit; softmax turns the logits into probabilities. The "
        f"likeliest is {piece(trace, best[0])} with {float(shares[best[0]]):.3f}.",
        pictures=(
            Bars(
                title=f"the likeliest {len(best)} of {len(shares):,}",
                names=tuple(piece(trace, word) for word in best),
                values=tuple(to_list(values)),
                unit="probability",
                rest=float(1 - values.sum()),
            ),
            _drawing(trace, logits, best[0]),
        ),
        receipts=tuple(receipts),
        notes=(
            "top-k and top-p cut words off and scale up the probabilities of the others; the table "
            "shows the mass that was cut",
            *(
                (
                    f"{piece(trace, next_ids[0])} came next: p {float(shares[next_ids[0]]):.4f}, "
                    f"rank {int((shares > shares[next_ids[0]]).sum()) + 1:,}",
                )
                if next_ids
                else ()
            ),
        ),
    )


def sampling_distribution(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> tuple[Tensor, float]:
    """The distribution a token is drawn from, in float64, and the mass that was cut off."""
    wide = (logits.double() - logits.double().max()) / temperature
    filtered = wide if top_k is None else keep_top_k(wide, top_k)
    filtered = filtered if top_p is None else keep_top_p(filtered, top_p)
    cut = torch.softmax(wide, dim=-1)[torch.isinf(filtered)].sum()
    return torch.softmax(filtered, dim=-1), float(cut)


def _drawing(trace: Trace, logits: Tensor, best: int) -> Table:
    rows: list[tuple[str | float | int, ...]] = []
    for temperature, top_k, top_p in _SETTINGS:
        if top_k is not None and top_k >= len(logits):
            continue
        shares, cut = sampling_distribution(logits, temperature, top_k, top_p)
        entropy = float(-torch.xlogy(shares, shares).sum())
        cutoffs = ("-" if top_k is None else top_k, "-" if top_p is None else top_p)
        n_words = int((shares > 0).sum())
        rows.append(
            (temperature, *cutoffs, n_words, cut, float(shares[best]), entropy / math.log(2))
        )
    return Table(
        title="drawn with a temperature, top-k and top-p",
        columns=(
            "temperature",
            "top-k",
            "top-p",
            "words left",
            "mass cut off",
            f"p of {piece(trace, best)}",
            "bits",
        ),
        rows=tuple(rows),
    )


def _next_ids(trace: Trace, token: int) -> tuple[int, ...]:
    has_next = trace.predicts and token + 1 < len(trace.ids)
    return (int(trace.ids[token + 1]),) if has_next else ()


def _classes(trace: Trace) -> Chapter:
    shares = trace["class_probabilities"]
    head = None if trace.run is None else trace.run.config.model.head
    names = tuple(getattr(head, "names", ())) or tuple(map(str, range(len(shares))))
    best = int(shares.argmax())
    return Chapter(
        sentence=f"This model names the class of the whole text: {names[best]} with "
        f"{float(shares[best]):.3f}.",
        pictures=(
            Bars(title="classes", names=names, values=tuple(to_list(shares)), unit="probability"),
        ),
        notes=("softmax over the classes; a model of several labels reads a sigmoid for each",),
    )
