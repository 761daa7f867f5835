"""Compare: another model, another checkpoint, or another sentence, held against this one."""

from __future__ import annotations

import math

from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Bars, Chapter, Matrix, Picture, Place, Receipt, Table
from pellucid.explain.chapters.maps import MAX_CELLS
from pellucid.explain.expressions import Expression
from pellucid.explain.outputs import widen
from pellucid.explain.receipts.builder import (
    TERMS_SHOWN,
    apply,
    at,
    constant,
    number,
    source_line,
    total,
)
from pellucid.explain.receipts.builder import receipt as build_receipt
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_comparison import Comparison, shares
from pellucid.explain.trace_types import Trace
from pellucid.maths.divergences import kl_divergence
from pellucid.typed import to_list

#: Rows of a table, and words whose probability moved most.
_ROWS, _WORDS = 24, 10


def explain_how(trace: Trace, place: Place) -> Chapter:
    """What to do where there is nothing to compare with."""
    select_place(trace, place)
    return Chapter(
        sentence="Nothing was chosen to compare with: in a terminal --against RUN (another run, a "
        'checkpoint, a Hugging Face directory) or --against-text "SENTENCE"; on a page the picker '
        "above, key c."
    )


def build(trace: Trace, other: Trace, place: Place) -> Chapter:
    """Both at the chosen place, at all places, and in the chosen head."""
    selection = select_place(trace, place)
    comparison = Comparison(trace, other)
    if trace.model.classifier is not None and other.model.classifier is not None:
        return _of_classes(trace, other)
    notes = [comparison.why_not] if comparison.why_not else []
    pictures: list[Picture] = []
    receipts: tuple[Receipt, ...] = ()
    sentence = _describe_pair(trace, other)
    if comparison.why_not is None:
        token, other_token = _pair(
            comparison, selection.token if selection.side == trace.side else -1, notes
        )
        kl, reverse_kl = comparison.divergences(token, other_token)
        token_text = trace.pieces(trace.side)[token]
        sentence += (
            f" What is expected behind {token_text!r} ({token}) is {kl:.4f} nats apart, KL(this | "
            f"that), and {reverse_kl:.4f} the other way."
        )
        pictures += [_words(trace, other, token, other_token), _places(comparison, token)]
        receipts = (kl_receipt(trace, other, token, other_token),)
        if not comparison.same_ids:
            notes.append(
                f"the texts differ: {len(comparison.pairs)} places are paired, where both have the "
                "same tokens, and the ends"
            )
    elif comparison.shared_texts:
        totals = [
            math.fsum(getattr(s, name) for s in comparison.shared_texts)
            for name in ("first", "second")
        ]
        sentence += f" The whole text costs {totals[0]:.4f} nats here and {totals[1]:.4f} there."
        pictures.append(_stretches(comparison))
    weight_difference = _maps(trace, other, selection)
    if isinstance(weight_difference, str):
        notes.append(weight_difference)
    else:
        pictures.append(weight_difference)
    return Chapter(
        sentence=sentence, notes=tuple(notes), pictures=tuple(pictures), receipts=receipts
    )


def kl_receipt(trace: Trace, other: Trace, token: int, other_token: int) -> Receipt:
    """sum p (log p - log q), p of the one and q of the other; the largest terms written out."""
    p, q = shares(trace, token), shares(other, other_token)
    logs = [_logs(trace, token), _logs(other, other_token)]
    terms = p * (logs[0] - logs[1])
    order: list[int] = to_list(terms.abs().argsort(descending=True, stable=True))
    terms_shown: list[Expression] = []
    for word in order[:TERMS_SHOWN]:
        share = number(trace, at("probabilities", token, word), f"p{word}")
        ratio = apply("sub", apply("log", share), constant(float(logs[1][word]), f"log q{word}"))
        terms_shown.append(apply("mul", share, ratio) if share.value > 0 else constant(0.0))
    remaining_terms = [float(terms[word]) for word in order[TERMS_SHOWN:]]
    return build_receipt(
        trace,
        title=f"KL(this | that) behind token {token}, that at its token {other_token}, in nats",
        formula="Σ p (log p - log q)",
        expression=total(terms_shown, remaining_terms),
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
        token_text = f" in {names[0]}" if names[0] == names[1] else ""
        models = ["", ""] if token_text else [f" in {name}" for name in names]
        return f"This is {texts[0]}{models[0]}, that is {texts[1]}{models[1]}{token_text}."
    return f"This is {names[0]}, that is {names[1]}, both with the same text."


def _name(trace: Trace) -> str:
    if trace.run is None:
        return "a model"
    folder, checkpoint = trace.run.folder, trace.run.checkpoint
    checkpoint_name = f", {checkpoint.name}" if checkpoint != folder else ""
    scaled = " with heads scaled" if trace.scales else ""
    return f"{folder.resolve().name}{checkpoint_name}{scaled}"


def _pair(comparison: Comparison, token: int, notes: list[str]) -> tuple[int, int]:
    """The chosen place and the one beside it; where there is none, the ends of both."""
    token %= len(comparison.first.ids)
    other_token = comparison.paired_token(token)
    if other_token is not None:
        return token, other_token
    piece_ = comparison.first.pieces(comparison.first.side)[token]
    notes.append(f"nothing in that text stands beside {piece_!r} ({token}): the ends are compared")
    return comparison.pairs[-1]


def _words(trace: Trace, other_trace: Trace, token: int, other_token: int) -> Table:
    p, q = shares(trace, token), shares(other_trace, other_token)
    word_ids: list[int] = to_list((p - q).abs().topk(min(_WORDS, len(p))).indices)
    return Table(
        title="words whose probability differs most",
        columns=("token", "p here", "p there", "here - there"),
        rows=tuple(
            (piece(trace, word), float(p[word]), float(q[word]), float(p[word] - q[word]))
            for word in word_ids
        ),
    )


def _places(comparison: Comparison, token: int) -> Table:
    """KL at every pair, the pairs around the chosen one."""
    middle = [a for a, _ in comparison.pairs].index(token)
    first = max(0, min(middle - _ROWS // 2, len(comparison.pairs) - _ROWS))
    shown_pairs = comparison.pairs[first : first + _ROWS]
    first_trace, second_trace = comparison.first, comparison.second
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
        rows=tuple((repr(s.text), s.first, s.second, s.first - s.second) for s in shown_texts),
    )


def _maps(trace: Trace, other_trace: Trace, selection: Selection) -> Matrix | str:
    """The chosen head's weights here less those there; or why there is no such map."""
    address = f"{selection.head_name}.weights"
    try:
        weights, other_weights = (compared[address].float() for compared in (trace, other_trace))
    except PellucidError:
        return f"the other model has no {address}: attention is not compared"
    if weights.shape != other_weights.shape:
        return (
            f"the texts have {len(weights)} and {len(other_weights)} tokens: maps of attention are "
            "not compared"
        )
    rows = trace.pieces(selection.side)
    columns = trace.pieces("encoder" if selection.cross else selection.side)
    mask = attention_heads.mask(selection.attention(trace))
    weight_difference = (weights - other_weights).masked_fill(~mask, math.nan)[
        :MAX_CELLS, :MAX_CELLS
    ]
    values = [[None if math.isnan(x) else x for x in row] for row in to_list(weight_difference)]
    cut = max(weights.shape) > MAX_CELLS
    return Matrix(
        title=f"weights of {selection.head_name}, here less there",
        rows=rows[:MAX_CELLS],
        columns=columns[:MAX_CELLS],
        values=tuple(map(tuple, values)),
        scale="diverging",
        address="",
        pooled=f"cut out: the first {MAX_CELLS} queries and keys" if cut else "",
    )


def _of_classes(trace: Trace, other_trace: Trace) -> Chapter:
    """Of two models that name classes: how sure each is."""
    p = [to_list(compared["class_probabilities"]) for compared in (trace, other_trace)]
    if len(p[0]) != len(p[1]):
        return Chapter(
            sentence=f"{_describe_pair(trace, other_trace)} One knows {len(p[0])} classes, one "
            f"{len(p[1])}."
        )
    names = tuple(f"class {n}" for n in range(len(p[0])))
    word_ids = tuple(a - b for a, b in zip(*p, strict=True))
    bars = Bars(title="p of each class, here less there", names=names, values=word_ids)
    return Chapter(
        sentence=f"{_describe_pair(trace, other_trace)} The bars are p of each class.",
        pictures=(bars,),
    )
