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
    chosen = select_place(trace, place)
    if trace.model.classifier is not None:
        return _classes(trace)
    _ = trace.model.head_weight  # for its refusal
    token = mask_or(trace, chosen.token) if chosen.side == trace.side else len(trace.ids) - 1
    logits = trace.logits_at(token)
    shares = probabilities_at(trace, token)
    values, words = shares.topk(min(_MAX_WORDS, len(shares)))
    best: list[int] = to_list(words)
    token_text = trace.pieces(trace.side)[token]
    came = _came(trace, token)
    receipts: list[Receipt] = []
    for word in dict.fromkeys((best[0], *came)):
        receipts += [logit_receipt(trace, token, word), probability_receipt(trace, token, word)]
    where = "at" if trace.model.decoder is None else "after"
    return Chapter(
        id="probabilities",
        number=12,
        part="forward",
        title="Probabilities",
        sentence=f"{where.capitalize()} {token_text!r} ({token}) each of {len(shares):,} words of "
        f"the vocabulary has a logit; softmax makes shares of them. The likeliest is "
        f"{piece(trace, best[0])} with {float(shares[best[0]]):.3f}.",
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
            "top-k and top-p cut words off: the probabilities of the others are then scaled up, "
            "and the mass that was cut is said",
            *(
                (
                    f"{piece(trace, came[0])} came next: p {float(shares[came[0]]):.4f}, rank "
                    f"{int((shares > shares[came[0]]).sum()) + 1:,}",
                )
                if came
                else ()
            ),
        ),
    )


def drawn_from(
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
        shares, cut = drawn_from(logits, temperature, top_k, top_p)
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


def _came(trace: Trace, token: int) -> tuple[int, ...]:
    has_next = trace.predicts and token + 1 < len(trace.ids)
    return (int(trace.ids[token + 1]),) if has_next else ()


def _classes(trace: Trace) -> Chapter:
    shares = trace["class_probabilities"]
    head = None if trace.run is None else trace.run.config.model.head
    names = tuple(getattr(head, "names", ())) or tuple(map(str, range(len(shares))))
    best = int(shares.argmax())
    return Chapter(
        id="probabilities",
        number=12,
        part="forward",
        title="Probabilities",
        sentence=f"This model names the class of the whole text: {names[best]} with "
        f"{float(shares[best]):.3f}.",
        pictures=(
            Bars(title="classes", names=names, values=tuple(to_list(shares)), unit="probability"),
        ),
        notes=("softmax over the classes; a model of several labels reads a sigmoid for each",),
    )
