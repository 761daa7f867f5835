"""Loss: what the run's objective counts, term by term, and how the terms make the loss."""

from __future__ import annotations

import math
from typing import assert_never

from pellucid.catalogue import join, message, messages
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Content, Picture, Table, Tokens
from pellucid.explain.chapters.pictures import largest, window
from pellucid.explain.losses import compute
from pellucid.explain.losses.names import describe_place, name_class, name_targets, piece
from pellucid.explain.losses.pictures import (
    reward_bars,
    show_moves,
    tabulate_log_ps,
    tabulate_policy,
)
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
    TokensLoss,
)
from pellucid.explain.outputs import read_companion, require_loss
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_ROWS = 24
_WORDS = 10


def build(trace: Trace, selection: Selection) -> Content:
    """The terms of the loss, the loss, and what guessing would cost."""
    loss = require_loss(trace)
    if isinstance(loss, ClassLoss):
        return _classes(trace, loss)
    row, value = row_near(trace, loss, selection), float(trace["loss"])
    sentence, pictures = _describe(trace, loss, row, value)
    return Content(
        sentence=sentence,
        pictures=(_tokens(trace, loss), *pictures, _tabulate(trace, loss, row)),
        receipts=(
            receipt_or_none(trace, "surprisal", row),
            receipt_or_none(trace, "divergence", row)
            if isinstance(loss, DistillationLoss)
            else None,
            receipt_or_none(trace, "margin") if isinstance(loss, PreferenceLoss) else None,
            receipt_or_none(trace, "loss"),
        ),
        notes=(_describe_rest(trace, loss), trace.sentence.loss_note or None),
    )


def row_near(trace: Trace, loss: TokensLoss, selection: Selection) -> int:
    """The row of the last place that counts up to the selected token; else the first one."""
    token = selection.token if selection.side == trace.side else 0
    return max(0, int((loss.places <= token).sum()) - 1)


def _describe(
    trace: Trace, loss: TokensLoss, row: int, value: float
) -> tuple[str, tuple[Picture, ...]]:
    """What the loss is in one sentence, and the pictures that only this objective has."""
    vocabulary = trace.model.head_weight.shape[0]
    match loss:
        case TokenLoss():
            return _describe_tokens(trace, loss, value, vocabulary), ()
        case DistillationLoss():
            parts = compute.parts_of(loss, trace["logits"])
            return (
                message(
                    "loss.the-student-learns-to-predict",
                    hard_weight=loss.hard_weight,
                    temperature=loss.temperature,
                    divergence=parts["divergence"],
                    cross_entropy=parts["cross_entropy"],
                    value=value,
                ),
                (_teacher(trace, loss, row),),
            )
        case PreferenceLoss():
            parts = compute.parts_of(loss, trace["logits"], read_companion(trace))
            return (
                message(
                    "loss.the-chosen-answer-should-gain",
                    margin=parts["margin"],
                    sigmoid=parts["sigmoid"],
                    value=value,
                    log=math.log(2) if loss.kind == "sigmoid" else 1,
                ),
                (tabulate_log_ps(parts), *show_moves(trace)),
            )
        case PolicyLoss():
            parts = compute.parts_of(loss, trace["logits"])
            return (
                message(
                    "loss.policy",
                    reward=parts["reward"],
                    advantage=loss.advantage,
                    effect=_effect(loss.advantage),
                    value=value,
                ),
                (reward_bars(loss), tabulate_policy(parts)),
            )
        case _:
            assert_never(loss)


def _effect(advantage: float) -> str:
    """What the loss does to an answer."""
    if advantage == 0:
        return message("loss.not-moved")
    return message("loss.likelier" if advantage > 0 else "loss.less-likely")


def _describe_tokens(trace: Trace, loss: TokenLoss, value: float, vocabulary: int) -> str:
    parts = compute.parts_of(loss, trace["logits"])
    plain = parts["cross_entropy"]
    perplexity = message("loss.uncountable")
    if plain < 700:
        perplexity = message("loss.perplexity", number=math.exp(plain))
    sentence = message(
        "loss.the-loss-of-a-token",
        plain=plain,
        perplexity=perplexity,
        vocabulary=vocabulary,
        log=math.log(vocabulary),
    )
    if loss.is_plain:
        return sentence
    additions = [
        message(f"loss.{name}", weight=weight)
        for name, weight in (
            ("label-smoothing", loss.label_smoothing),
            ("z-loss", loss.z_loss),
            ("entropy-bonus", loss.entropy_bonus),
        )
        if weight
    ]
    return message(
        "loss.with-additions", sentence=sentence, additions=join(", ", additions), value=value
    )


def _tokens(trace: Trace, loss: TokensLoss) -> Tokens:
    return Tokens(
        title=message("loss.surprisal-of-each-token-that"),
        pieces=name_targets(trace, loss),
        ids=tuple(to_list(loss.targets)),
        values=tuple(to_list(trace["surprisal"].double())),
        unit="nats",
    )


def _tabulate(trace: Trace, loss: TokensLoss, row: int) -> Table:
    costs: list[float] = to_list(trace["surprisal"].double())
    places, pieces = to_list(loss.places), name_targets(trace, loss)
    rows = window(row, len(costs), _ROWS)
    shift = 1 if trace.predicts else 0
    return Table(
        title=message("loss.token-by-token")
        + ("" if len(rows) == len(costs) else message("loss.a-part")),
        columns=(message("word.place"), message("word.token"), "p", "nats", message("word.bits")),
        rows=tuple(
            (places[i] + shift, pieces[i], math.exp(-costs[i]), costs[i], costs[i] / math.log(2))
            for i in rows
        ),
    )


def _describe_rest(trace: Trace, loss: TokensLoss) -> str:
    """What the places that do not count are."""
    n_read = len(trace.ids) - len(loss.places)
    if not trace.predicts:
        return message("loss.only-masked-tokens-count-the", n=n_read)
    if len(loss.places) == len(trace.ids) - 1 and int(loss.places[0]) == 0:
        return message("loss.the-first-token-is-numbers")
    first = int(loss.places[0])
    return message(
        "loss.of-the-tokens-count-those",
        n=len(loss.places),
        n_ids=len(trace.ids),
        first=first,
    )


def _teacher(trace: Trace, loss: DistillationLoss, row: int) -> Table:
    """Teacher and student at one place, and each word's share of the KL."""
    log_p, log_q = (trace[f"{model}_log_ps"][row].double() for model in ("student", "teacher"))
    p, q = log_p.exp(), log_q.exp()
    terms = q * (log_q - log_p)
    order = dict.fromkeys((*largest(q, _WORDS), *largest(terms.abs(), 3)))
    return Table(
        title=message(
            "loss.teacher-and-student-at-temperature",
            place=describe_place(trace, int(loss.places[row])),
            temperature=loss.temperature,
        ),
        columns=messages(
            "word.token", "loss.q-of-the-teacher", "loss.p-of-the-student", "loss.q-log-q-p"
        ),
        rows=tuple(
            (piece(trace, word), float(q[word]), float(p[word]), float(terms[word]))
            for word in order
        ),
    )


def _classes(trace: Trace, loss: ClassLoss) -> Content:
    p, value = trace["class_probabilities"].double(), float(trace["loss"])
    n_classes = len(p)
    if loss.multi_label:
        numbers = [number for number in range(n_classes) if loss.labels[number]]
        names = join(", ", [name_class(loss, number) for number in numbers]) or message(
            "word.no-class"
        )
        sentence = message(
            "loss.the-text-has-each-class", names=names, value=value, log=math.log(2)
        )
    else:
        label = int(loss.labels)
        sentence = message(
            "loss.the-text-is-to-which",
            class_name=name_class(loss, label),
            p=float(p[label]),
            value=value,
            n_classes=n_classes,
            log=math.log(n_classes),
        )
    logits, labels = trace["class_logits"].double(), loss.labels
    return Content(
        sentence=sentence,
        pictures=(
            Table(
                title=message("loss.class-by-class"),
                columns=(message("word.class"), message("word.logit"), "p", "y"),
                rows=tuple(
                    (
                        name_class(loss, n),
                        float(logits[n]),
                        float(p[n]),
                        int(labels[n]) if loss.multi_label else int(n == int(labels)),
                    )
                    for n in range(n_classes)
                ),
            ),
        ),
        receipts=(receipt_or_none(trace, "loss"),),
        notes=(
            message("loss.y-is-spread-by-a", label_smoothing=loss.label_smoothing)
            if loss.label_smoothing
            else None,
        ),
    )
