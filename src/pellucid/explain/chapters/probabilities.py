"""Probabilities: logits over the whole vocabulary, and how a token is sampled from them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pellucid.catalogue import message
from pellucid.explain.chapter_types import Bars, Content, Receipt, Table
from pellucid.explain.losses.names import piece
from pellucid.explain.outputs import distribution_at, mask_or
from pellucid.explain.receipts import logit_receipt, probability_receipt
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.maths.sampling import keep_top_k, keep_top_p
from pellucid.typed import to_list

_MAX_WORDS = 10
#: Settings of sampling in one table: temperature, top-k, top-p.
_SETTINGS: tuple[tuple[float, int | None, float | None], ...] = (
    (1.0, None, None),
    (0.7, None, None),
    (1.5, None, None),
    (1.0, 10, None),
    (1.0, None, 0.9),
    (0.8, 50, 0.95),
)


def build(trace: Trace, selection: Selection) -> Content:
    """The distribution at one place, whole and as it is cut for sampling."""
    if trace.model.classifier is not None:
        return _classes(trace)
    _ = trace.model.head_weight  # for its refusal
    is_own_side = selection.side == trace.side
    token = mask_or(trace, selection.token) if is_own_side else len(trace.ids) - 1
    p = distribution_at(trace, token)
    values, words = p.topk(min(_MAX_WORDS, len(p)))
    best: list[int] = to_list(words)
    has_next = trace.predicts and token + 1 < len(trace.ids)
    next_ids = (int(trace.ids[token + 1]),) if has_next else ()
    receipts: list[Receipt | None] = []
    for word in dict.fromkeys((best[0], *next_ids)):
        receipts += [logit_receipt(trace, token, word), probability_receipt(trace, token, word)]
    notes = [message("probabilities.top-k-and-top-p")]
    for word in next_ids:
        rank = int((p > p[word]).sum()) + 1
        notes.append(
            message(
                "probabilities.came-next-p-rank",
                word=piece(trace, word),
                p=float(p[word]),
                rank=rank,
            )
        )
    return Content(
        sentence=message(
            "probabilities.at" if trace.model.decoder is None else "probabilities.after",
            token=label(trace.pieces(trace.side), token),
            words=len(p),
            word=piece(trace, best[0]),
            p=float(p[best[0]]),
        ),
        pictures=(
            Bars(
                title=message("probabilities.the-likeliest-of", n_best=len(best), n_p=len(p)),
                names=tuple(piece(trace, word) for word in best),
                values=tuple(to_list(values)),
                unit=message("word.probability"),
                rest=float(1 - values.sum()),
            ),
            _sampling(trace, trace.logits_at(token), best[0]),
        ),
        receipts=receipts,
        notes=notes,
    )


def sampling_distribution(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> tuple[Tensor, float]:
    """The distribution that a token is sampled from, in float64, and the mass that was cut off.

    Args:
        logits: (vocabulary,).
        temperature: divides the logits.
        top_k: how many words stay; None for all.
        top_p: the likeliest words with this mass together stay; None for all.
    """
    wide = (logits.double() - logits.double().max()) / temperature
    filtered = wide if top_k is None else keep_top_k(wide, top_k)
    filtered = filtered if top_p is None else keep_top_p(filtered, top_p)
    cut = torch.softmax(wide, dim=-1)[torch.isinf(filtered)].sum()
    return torch.softmax(filtered, dim=-1), float(cut)


def _sampling(trace: Trace, logits: Tensor, best: int) -> Table:
    rows: list[tuple[str | float | int, ...]] = []
    for temperature, top_k, top_p in _SETTINGS:
        if top_k is not None and top_k >= len(logits):
            continue
        p, cut = sampling_distribution(logits, temperature, top_k, top_p)
        bits = float(-torch.xlogy(p, p).sum()) / math.log(2)
        cutoffs = ("-" if top_k is None else top_k, "-" if top_p is None else top_p)
        rows.append((temperature, *cutoffs, int((p > 0).sum()), cut, float(p[best]), bits))
    best_p = message("probabilities.p-of", word=piece(trace, best))
    return Table(
        title=message("probabilities.sampled-with-a-temperature-top"),
        columns=(
            message("word.temperature"),
            message("word.top-k"),
            message("word.top-p"),
            message("word.words-left"),
            message("word.mass-cut-off"),
            best_p,
            message("word.bits"),
        ),
        rows=tuple(rows),
    )


def _classes(trace: Trace) -> Content:
    p = trace["class_probabilities"]
    head = None if trace.run is None else trace.run.config.model.head
    names = tuple(getattr(head, "names", ())) or tuple(map(str, range(len(p))))
    best = int(p.argmax())
    return Content(
        sentence=message(
            "probabilities.this-model-names-the-class", names=names[best], p=float(p[best])
        ),
        pictures=(
            Bars(
                title=message("word.classes"),
                names=names,
                values=tuple(to_list(p)),
                unit=message("word.probability"),
            ),
        ),
        notes=(message("probabilities.softmax-over-the-classes-a"),),
    )
