"""Compare: another model, another checkpoint, or another sentence, held against this one."""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Bars, Chapter, Matrix, Picture, Place, Receipt, Table
from pellucid.explain.chapters.maps import MOST
from pellucid.explain.expressions import Expression
from pellucid.explain.outputs import widen
from pellucid.explain.receipts.builder import (
    WRITTEN_OUT,
    apply,
    at,
    constant,
    number,
    source_line,
    total,
)
from pellucid.explain.receipts.builder import receipt as made
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_comparison import Comparison, shares
from pellucid.explain.trace_types import Trace
from pellucid.maths.divergences import kl_divergence
from pellucid.typed import to_list

#: Rows of a table, and words whose probability moved most.
_ROWS, _WORDS = 24, 10

_chapter = partial(Chapter, id="compare", part="compare", title="Compare")


def alone(trace: Trace, place: Place) -> Chapter:
    """What to do where there is nothing to compare with."""
    select_place(trace, place)
    return _chapter(
        sentence="Nothing was chosen to compare with: in a terminal --against RUN (another run, a "
        'checkpoint, a Hugging Face directory) or --against-text "SENTENCE"; on a page the picker '
        "above, key c."
    )


def build(trace: Trace, other: Trace, place: Place) -> Chapter:
    """Both at the chosen place, at all places, and in the chosen head."""
    chosen = select_place(trace, place)
    comparison = Comparison(trace, other)
    if trace.model.classifier is not None and other.model.classifier is not None:
        return _of_classes(trace, other)
    notes = [comparison.why_not] if comparison.why_not else []
    pictures: list[Picture] = []
    receipts: tuple[Receipt, ...] = ()
    sentence = _describe_pair(trace, other)
    if comparison.why_not is None:
        token, beside = _pair(comparison, chosen.token if chosen.side == trace.side else -1, notes)
        forth, back = comparison.divergences(token, beside)
        where = trace.pieces(trace.side)[token]
        sentence += (
            f" What is expected behind {where!r} ({token}) is {forth:.4f} nats apart, KL(this | "
            f"that), and {back:.4f} the other way."
        )
        pictures += [_words(trace, other, token, beside), _places(comparison, token)]
        receipts = (kl_receipt(trace, other, token, beside),)
        if not comparison.same_ids:
            notes.append(
                f"the texts differ: {len(comparison.pairs)} places are paired, where both have the "
                "same tokens, and the ends"
            )
    elif comparison.shared_texts:
        totals = [
            math.fsum(getattr(s, name) for s in comparison.shared_texts)
            for name in ("one", "other")
        ]
        sentence += f" The whole text costs {totals[0]:.4f} nats here and {totals[1]:.4f} there."
        pictures.append(_stretches(comparison))
    apart = _maps(trace, other, chosen)
    if isinstance(apart, str):
        notes.append(apart)
    else:
        pictures.append(apart)
    return _chapter(
        sentence=sentence, notes=tuple(notes), pictures=tuple(pictures), receipts=receipts
    )


def kl_receipt(trace: Trace, other: Trace, token: int, beside: int) -> Receipt:
    """sum p (log p - log q), p of the one and q of the other; the largest terms written out."""
    p, q = shares(trace, token), shares(other, beside)
    logs = [_logs(trace, token), _logs(other, beside)]
    terms = p * (logs[0] - logs[1])
    order: list[int] = to_list(terms.abs().argsort(descending=True, stable=True))
    written: list[Expression] = []
    for word in order[:WRITTEN_OUT]:
        share = number(trace, at("probabilities", token, word), f"p{word}")
        ratio = apply("sub", apply("log", share), constant(float(logs[1][word]), f"log q{word}"))
        written.append(apply("mul", share, ratio) if share.value > 0 else constant(0.0))
    remaining_terms = [float(terms[word]) for word in order[WRITTEN_OUT:]]
    return made(
        trace,
        title=f"KL(this | that) behind token {token}, that at its token {beside}, in nats",
        formula="Σ p (log p - log q)",
        expression=total(written, remaining_terms),
        address=at("probabilities", token),
        source=source_line(kl_divergence, "times(p, _log_ratio(p, q))"),
        model=float(kl_divergence(p, q)),
    )


def _logs(trace: Trace, token: int) -> Tensor:
    return widen(trace.logits_at(token)).double().log_softmax(-1)


def _describe_pair(trace: Trace, other_trace: Trace) -> str:
    names = [_name(compared) for compared in (trace, other_trace)]
    if trace.sentence.text != other_trace.sentence.text:
        texts = [f"{compared.sentence.text!r}" for compared in (trace, other_trace)]
        where = f" in {names[0]}" if names[0] == names[1] else ""
        models = ["", ""] if where else [f" in {name}" for name in names]
        return f"This is {texts[0]}{models[0]}, that is {texts[1]}{models[1]}{where}."
    return f"This is {names[0]}, that is {names[1]}, both with the same text."


def _name(trace: Trace) -> str:
    if trace.run is None:
        return "a model"
    folder, checkpoint = trace.run.folder, trace.run.checkpoint
    of = f", {checkpoint.name}" if checkpoint != folder else ""
    scaled = " with heads scaled" if trace.scales else ""
    return f"{folder.resolve().name}{of}{scaled}"


def _pair(comparison: Comparison, token: int, notes: list[str]) -> tuple[int, int]:
    """The chosen place and the one beside it; where there is none, the ends of both."""
    token %= len(comparison.one.ids)
    beside = comparison.beside(token)
    if beside is not None:
        return token, beside
    piece_ = comparison.one.pieces(comparison.one.side)[token]
    notes.append(f"nothing in that text stands beside {piece_!r} ({token}): the ends are compared")
    return comparison.pairs[-1]


def _words(trace: Trace, other_trace: Trace, token: int, beside: int) -> Table:
    p, q = shares(trace, token), shares(other_trace, beside)
    moved: list[int] = to_list((p - q).abs().topk(min(_WORDS, len(p))).indices)
    return Table(
        title="words whose probability differs most",
        columns=("token", "p here", "p there", "here - there"),
        rows=tuple(
            (piece(trace, word), float(p[word]), float(q[word]), float(p[word] - q[word]))
            for word in moved
        ),
    )


def _places(comparison: Comparison, token: int) -> Table:
    """KL at every pair, the pairs around the chosen one."""
    middle = [a for a, _ in comparison.pairs].index(token)
    first = max(0, min(middle - _ROWS // 2, len(comparison.pairs) - _ROWS))
    shown_pairs = comparison.pairs[first : first + _ROWS]
    first_trace, second_trace = comparison.one, comparison.other
    costs = [
        to_list(trace["surprisal"]) if "surprisal" in trace.addresses() else []
        for trace in (first_trace, second_trace)
    ]
    rows: list[tuple[str | float | int, ...]] = []
    for a, b in shown_pairs:
        kls = comparison.divergences(a, b)
        cost = [
            f"{cost[place - 1]:.4f}" if cost and place > 0 else "–"
            for cost, place in zip(costs, (a, b), strict=True)
        ]
        rows.append((a, b, repr(first_trace.pieces(first_trace.side)[a]), *kls, *cost))
    part = "" if len(shown_pairs) == len(comparison.pairs) else ": a part"
    return Table(
        title=f"behind each token, in nats; what the token itself cost{part}",
        columns=("here", "there", "token", "KL(this|that)", "KL(that|this)", "cost", "cost there"),
        rows=tuple(rows),
    )


def _stretches(comparison: Comparison) -> Table:
    shown_texts = comparison.shared_texts[:_ROWS]
    part = "" if len(shown_texts) == len(comparison.shared_texts) else f": the first {_ROWS}"
    return Table(
        title=f"what the same characters cost, in nats{part}",
        columns=("text", "here", "there", "here - there"),
        rows=tuple((repr(s.text), s.one, s.other, s.one - s.other) for s in shown_texts),
    )


def _maps(trace: Trace, other_trace: Trace, chosen: Selection) -> Matrix | str:
    """The chosen head's weights here less those there; or why there is no such map."""
    address = f"{chosen.head_name}.weights"
    try:
        weights, other_weights = (compared[address].float() for compared in (trace, other_trace))
    except PellucidError:
        return f"the other model has no {address}: attention is not compared"
    if weights.shape != other_weights.shape:
        return (
            f"the texts have {len(weights)} and {len(other_weights)} tokens: maps of attention are "
            "not compared"
        )
    rows = trace.pieces(chosen.side)
    columns = trace.pieces("encoder" if chosen.cross else chosen.side)
    mask = attention_heads.mask(chosen.attention(trace))
    apart = (weights - other_weights).masked_fill(~mask, math.nan)[:MOST, :MOST]
    values = [[None if math.isnan(x) else x for x in row] for row in to_list(apart)]
    cut = max(weights.shape) > MOST
    return Matrix(
        title=f"weights of {chosen.head_name}, here less there",
        rows=rows[:MOST],
        columns=columns[:MOST],
        values=tuple(map(tuple, values)),
        scale="diverging",
        address="",
        pooled=f"cut out: the first {MOST} queries and keys" if cut else "",
    )


def _of_classes(trace: Trace, other_trace: Trace) -> Chapter:
    """Of two models that name classes: how sure each is."""
    p = [to_list(compared["class_probabilities"]) for compared in (trace, other_trace)]
    if len(p[0]) != len(p[1]):
        return _chapter(
            sentence=f"{_describe_pair(trace, other_trace)} One knows {len(p[0])} classes, one "
            f"{len(p[1])}."
        )
    names = tuple(f"class {n}" for n in range(len(p[0])))
    moved = tuple(a - b for a, b in zip(*p, strict=True))
    bars = Bars(title="p of each class, here less there", names=names, values=moved)
    return _chapter(
        sentence=f"{_describe_pair(trace, other_trace)} The bars are p of each class.",
        pictures=(bars,),
    )
