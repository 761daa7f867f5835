"""Compare: another model, another checkpoint, or another sentence, next to this one."""

from __future__ import annotations

import math

from torch import Tensor

from pellucid.catalogue import message, messages
from pellucid.errors import PellucidError
from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Bars, Content, Matrix, Picture, Receipt, Table
from pellucid.explain.chapters.pictures import MAX_CELLS, largest, window
from pellucid.explain.expressions import Expression, constant
from pellucid.explain.losses.names import piece
from pellucid.explain.outputs import distribution_at, widen
from pellucid.explain.receipts.builder import TERMS_SHOWN, ReceiptBuilder, cell, total
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_comparison import Comparison
from pellucid.explain.trace_types import Trace
from pellucid.maths.divergences import kl_divergence
from pellucid.typed import to_list

#: Rows of a table, and words with the largest change.
_ROWS, _WORDS = 24, 10


def explain_how(trace: Trace, selection: Selection) -> Content:
    """The next step if there is nothing to compare with."""
    del trace, selection
    return Content(sentence=message("compare.choose-something-to-compare-with"))


def build(trace: Trace, other: Trace, selection: Selection) -> Content:
    """Both at the selected place, at all places, and in the selected head."""
    comparison = Comparison(trace, other)
    if trace.model.classifier is not None and other.model.classifier is not None:
        return _compare_classes(trace, other)
    notes: list[str | None] = [comparison.why_not]
    pictures: list[Picture | None] = []
    receipt = None
    sentence = _describe_pair(trace, other)
    if comparison.why_not is None:
        place = selection.token if selection.side == trace.side else len(trace.ids) - 1
        token, other_token = _pair(comparison, place, notes)
        kl, reverse_kl = comparison.divergences(token, other_token)
        sentence += message(
            "compare.after-the-predictions-are-nats",
            token=label(trace.pieces(trace.side), token),
            kl=kl,
            reverse_kl=reverse_kl,
        )
        pictures += [_words(trace, other, token, other_token), _places(comparison, token)]
        receipt = kl_receipt(trace, other, token, other_token)
        if not comparison.same_ids:
            notes.append(message("compare.the-texts-differ-places-are", n=len(comparison.pairs)))
    elif comparison.shared_texts:
        costs = (
            math.fsum(text.first for text in comparison.shared_texts),
            math.fsum(text.second for text in comparison.shared_texts),
        )
        sentence += message("compare.the-whole-text-costs-nats", costs=costs[0], costs2=costs[1])
        pictures.append(_texts(comparison))
    weight_difference = _maps(trace, other, selection)
    if isinstance(weight_difference, str):
        notes.append(weight_difference)
    else:
        pictures.append(weight_difference)
    return Content(sentence=sentence, notes=notes, pictures=pictures, receipts=(receipt,))


def kl_receipt(trace: Trace, other: Trace, token: int, other_token: int) -> Receipt:
    """sum p (log p - log q), p of this model and q of that; the largest terms written out.

    Args:
        trace: this sentence.
        other: that sentence.
        token: the place in this one.
        other_token: the place in that one.
    """
    build = ReceiptBuilder(trace)
    p, q = distribution_at(trace, token), distribution_at(other, other_token)
    log_p, log_q = _logs(trace, token), _logs(other, other_token)
    terms = p * (log_p - log_q)
    order = largest(terms.abs(), len(terms))
    terms_shown: list[Expression] = []
    for word in order[:TERMS_SHOWN]:
        share = build.number(f"p{word}", "probabilities", token, word)
        ratio = share.log() - constant(float(log_q[word]), f"log q{word}")
        terms_shown.append(share * ratio if share.value > 0 else constant(0.0))
    return build.receipt(
        cell("probabilities", token),
        title=message("compare.kl-this-that-after-token", token=token, other_token=other_token),
        formula="Σ p (log p - log q)",
        expression=total(terms_shown, [float(terms[word]) for word in order[TERMS_SHOWN:]]),
        source=(kl_divergence, "times(p, _log_ratio(p, q))"),
        model=float(kl_divergence(p, q)),
    )


def _logs(trace: Trace, token: int) -> Tensor:
    return widen(trace.logits_at(token)).double().log_softmax(-1)


def _describe_pair(trace: Trace, other_trace: Trace) -> str:
    names = [_name(compared) for compared in (trace, other_trace)]
    if trace.sentence.text == other_trace.sentence.text:
        return message("compare.this-is-that-is-both", names=names[0], names2=names[1])
    texts = [repr(compared.sentence.text) for compared in (trace, other_trace)]
    if names[0] == names[1]:
        return message(
            "compare.this-is-that-is-in", texts=texts[0], texts2=texts[1], names=names[0]
        )
    return message(
        "compare.this-is-in-that-is",
        texts=texts[0],
        names=names[0],
        texts2=texts[1],
        names2=names[1],
    )


def _name(trace: Trace) -> str:
    if trace.run is None:
        return message("word.a-model")
    folder, checkpoint = trace.run.folder, trace.run.checkpoint
    checkpoint_name = f", {checkpoint.name}" if checkpoint != folder else ""
    scaled = message("compare.with-heads-scaled") if trace.scales else ""
    return f"{folder.resolve().name}{checkpoint_name}" + scaled


def _pair(comparison: Comparison, token: int, notes: list[str | None]) -> tuple[int, int]:
    """The selected place and its partner; the ends of both if it has none."""
    other_token = comparison.paired_token(token)
    if other_token is not None:
        return token, other_token
    name = label(comparison.first.pieces(comparison.first.side), token)
    notes.append(message("compare.has-no-partner-in-that", name=name))
    return comparison.pairs[-1]


def _words(trace: Trace, other_trace: Trace, token: int, other_token: int) -> Table:
    p, q = distribution_at(trace, token), distribution_at(other_trace, other_token)
    word_ids: list[int] = to_list((p - q).abs().topk(min(_WORDS, len(p))).indices)
    return Table(
        title=message("compare.words-whose-probability-differs-most"),
        columns=messages("word.token", "word.p-here", "word.p-there", "word.here-there"),
        rows=tuple(
            (piece(trace, word), float(p[word]), float(q[word]), float(p[word] - q[word]))
            for word in word_ids
        ),
    )


def _places(comparison: Comparison, token: int) -> Table:
    """KL at every pair, the pairs around the selected one."""
    first, second = comparison.first, comparison.second
    middle = [a for a, _ in comparison.pairs].index(token)
    places = window(middle, len(comparison.pairs), _ROWS)
    costs = [
        to_list(trace["surprisal"]) if "surprisal" in trace.addresses() else []
        for trace in (first, second)
    ]
    rows: list[tuple[str | float | int, ...]] = []
    for a, b in comparison.pairs[places.start : places.stop]:
        cost = [
            f"{cost[place - 1]:.4f}" if cost and place > 0 else "–"
            for cost, place in zip(costs, (a, b), strict=True)
        ]
        text = repr(first.pieces(first.side)[a])
        rows.append((a, b, text, *comparison.divergences(a, b), *cost))
    part = "" if len(places) == len(comparison.pairs) else message("compare.a-part")
    return Table(
        title=message("compare.after-each-token-in-nats", part=part),
        columns=(
            message("word.here"),
            message("word.there"),
            message("word.token"),
            "KL(this|that)",
            "KL(that|this)",
            message("word.cost"),
            message("word.cost-there"),
        ),
        rows=tuple(rows),
    )


def _texts(comparison: Comparison) -> Table:
    texts = comparison.shared_texts[:_ROWS]
    part = (
        ""
        if len(texts) == len(comparison.shared_texts)
        else message("compare.the-first", rows=_ROWS)
    )
    return Table(
        title=message("compare.the-cost-of-the-same", part=part),
        columns=messages("word.text", "word.here", "word.there", "word.here-there"),
        rows=tuple((repr(s.text), s.first, s.second, s.first - s.second) for s in texts),
    )


def _maps(trace: Trace, other_trace: Trace, selection: Selection) -> Matrix | str:
    """The selected head's weights here minus the weights there; or why there is no such map."""
    address = f"{selection.head_name}.weights"
    try:
        weights, other_weights = (compared[address].float() for compared in (trace, other_trace))
    except PellucidError:
        return message("compare.the-other-model-has-no", address=address)
    if weights.shape != other_weights.shape:
        return message(
            "compare.the-texts-have-and-tokens",
            n_weights=len(weights),
            n_other_weights=len(other_weights),
        )
    mask = attention_heads.mask(selection.attention(trace))
    weight_difference = (weights - other_weights).masked_fill(~mask, math.nan)[
        :MAX_CELLS, :MAX_CELLS
    ]
    values = [[None if math.isnan(x) else x for x in row] for row in to_list(weight_difference)]
    cut = max(weights.shape) > MAX_CELLS
    return Matrix(
        title=message("compare.weights-of-here-minus-there", head_name=selection.head_name),
        rows=trace.pieces(selection.side)[:MAX_CELLS],
        columns=selection.key_pieces(trace)[:MAX_CELLS],
        values=tuple(map(tuple, values)),
        scale="diverging",
        address="",
        pooled=message("compare.cut-out-the-first-queries", max_cells=MAX_CELLS) if cut else "",
    )


def _compare_classes(trace: Trace, other_trace: Trace) -> Content:
    """The class probabilities of two classifiers."""
    pair = _describe_pair(trace, other_trace)
    p, q = (to_list(compared["class_probabilities"]) for compared in (trace, other_trace))
    if len(p) != len(q):
        return Content(
            sentence=message("compare.one-knows-classes-one", pair=pair, n_p=len(p), n_q=len(q))
        )
    bars = Bars(
        title=message("compare.p-of-each-class-here"),
        names=tuple(message("compare.class", number=n) for n in range(len(p))),
        values=tuple(a - b for a, b in zip(p, q, strict=True)),
    )
    return Content(sentence=message("compare.the-bars-are-p-of", pair=pair), pictures=(bars,))
