"""Loss: what the run's objective counts, term by term, and how the terms make the loss."""

from __future__ import annotations

import math
from typing import assert_never

from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Bars, Content, Picture, Table, Tokens
from pellucid.explain.chapters.pictures import largest, window
from pellucid.explain.losses import compute
from pellucid.explain.losses.names import describe_place, name_class, piece
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
                f"The student learns to predict what the teacher predicts: (1 - h) T² D + h CE = "
                f"(1 - {loss.hard_weight:g}) × {loss.temperature:g}² × {parts['divergence']:.4f} + "
                f"{loss.hard_weight:g} × {parts['cross_entropy']:.4f} = {value:.4f}.",
                (_teacher(trace, loss, row),),
            )
        case PreferenceLoss():
            parts = compute.parts_of(loss, trace["logits"], read_companion(trace))
            return (
                f"The chosen answer should gain more on the reference than the rejected one. The "
                f"margin z is {parts['margin']:.4f}, σ(z) is {parts['sigmoid']:.4f}, and the loss "
                f"{value:.4f}; without any change from the reference it is "
                f"{math.log(2) if loss.kind == 'sigmoid' else 1:.4f}.",
                (_log_ps(parts), *_moves(trace)),
            )
        case PolicyLoss():
            parts = compute.parts_of(loss, trace["logits"])
            return (
                f"This answer got a reward of {parts['reward']:.4f}; compared with the other "
                f"answers to the prompt that is an advantage of {loss.advantage:+.4f}. The loss "
                f"makes it {'likelier' if loss.advantage > 0 else 'less likely'}"
                f"{' or does not move it' if loss.advantage == 0 else ''}. Its value, {value:.4f}, "
                "has no meaning of its own: only its gradient has.",
                (_rewards(loss), _policy_parts(parts)),
            )
        case _:
            assert_never(loss)


def _describe_tokens(trace: Trace, loss: TokenLoss, value: float, vocabulary: int) -> str:
    parts = compute.parts_of(loss, trace["logits"])
    plain = parts["cross_entropy"]
    perplexity = f"{math.exp(plain):,.1f}" if plain < 700 else "more than can be counted"
    sentence = (
        "The loss of a token is -log of the probability that the model gave it; the mean is "
        f"{plain:.4f} nats: as if guessing evenly among {perplexity} words. Guessing among all "
        f"{vocabulary:,} would cost {math.log(vocabulary):.4f}."
    )
    if loss.is_plain:
        return sentence
    additions = [
        f"{name} {weight:g}"
        for name, weight in (
            ("label smoothing", loss.label_smoothing),
            ("z-loss", loss.z_loss),
            ("entropy bonus", loss.entropy_bonus),
        )
        if weight
    ]
    return f"{sentence} With {', '.join(additions)} the training counts {value:.4f}."


def name_targets(trace: Trace, loss: TokensLoss) -> tuple[str, ...]:
    """The tokens that count, as text."""
    spelling = trace.spelling
    words: list[int] = to_list(loss.targets)
    return tuple(str(word) if spelling is None else spelling.any_piece(word) for word in words)


def _tokens(trace: Trace, loss: TokensLoss) -> Tokens:
    return Tokens(
        title="surprisal of each token that counts",
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
        title="token by token" + ("" if len(rows) == len(costs) else ": a part"),
        columns=("place", "token", "p", "nats", "bits"),
        rows=tuple(
            (places[i] + shift, pieces[i], math.exp(-costs[i]), costs[i], costs[i] / math.log(2))
            for i in rows
        ),
    )


def _describe_rest(trace: Trace, loss: TokensLoss) -> str:
    """What the places that do not count are."""
    n_read = len(trace.ids) - len(loss.places)
    if not trace.predicts:
        return f"only masked tokens count: the other {n_read} are read, and have no loss"
    if len(loss.places) == len(trace.ids) - 1 and int(loss.places[0]) == 0:
        return "the first token is numbers, and has no loss"
    first = int(loss.places[0])
    return (
        f"{len(loss.places)} of the {len(trace.ids)} tokens count: those up to token {first} are "
        "the prompt, which the model reads and is not trained to write"
    )


def _teacher(trace: Trace, loss: DistillationLoss, row: int) -> Table:
    """Teacher and student at one place, and each word's share of the KL."""
    log_p, log_q = (trace[f"{model}_log_ps"][row].double() for model in ("student", "teacher"))
    p, q = log_p.exp(), log_q.exp()
    terms = q * (log_q - log_p)
    order = dict.fromkeys((*largest(q, _WORDS), *largest(terms.abs(), 3)))
    return Table(
        title=f"teacher and student {describe_place(trace, int(loss.places[row]))}, at temperature "
        f"{loss.temperature:g}",
        columns=("token", "q of the teacher", "p of the student", "q log(q/p)"),
        rows=tuple(
            (piece(trace, word), float(q[word]), float(p[word]), float(terms[word]))
            for word in order
        ),
    )


def _log_ps(parts: compute.Parts) -> Table:
    rows = (
        ("chosen", parts["log_p_chosen"], parts["log_p_reference_chosen"]),
        ("rejected", parts["log_p_rejected"], parts["log_p_reference_rejected"]),
    )
    return Table(
        title="log P of the two answers",
        columns=("answer", "model", "reference", "gain"),
        rows=tuple(
            (name, policy, reference, policy - reference) for name, policy, reference in rows
        ),
    )


def _moves(trace: Trace) -> tuple[Picture, ...]:
    """How far each token of both answers moved from the reference."""
    pictures: list[Picture] = []
    for text in (trace, trace.companion):
        if text is None or not isinstance(text.loss, PreferenceLoss):
            continue
        loss = text.loss
        gains = -text["surprisal"].double() - loss.reference_log_ps.double()
        name = "chosen" if loss.is_chosen else "rejected"
        pictures.append(
            Tokens(
                title=f"log π - log ref of each token of the {name} answer",
                pieces=name_targets(text, loss),
                ids=tuple(to_list(loss.targets)),
                values=tuple(to_list(gains)),
                unit="nats",
            )
        )
    return tuple(pictures)


def _rewards(loss: PolicyLoss) -> Bars:
    names = ("this answer", *(f"answer {n + 2}" for n in range(len(loss.rewards) - 1)))
    return Bars(title="rewards of the answers to the prompt", names=names, values=loss.rewards)


def _policy_parts(parts: compute.Parts) -> Table:
    names = {
        "reward": "reward",
        "baseline": "mean reward of the others",
        "advantage": "advantage A",
        "log_p": "log π of the answer",
        "log_ratio": "log π/ref of the answer",
        "kl_k3": "KL from the reference (k3)",
    }
    return Table(
        title="what the loss is made of",
        columns=("part", "value"),
        rows=tuple((title, parts[name]) for name, title in names.items()),
    )


def _classes(trace: Trace, loss: ClassLoss) -> Content:
    p, value = trace["class_probabilities"].double(), float(trace["loss"])
    n_classes = len(p)
    if loss.multi_label:
        numbers = [number for number in range(n_classes) if loss.labels[number]]
        names = ", ".join(name_class(loss, number) for number in numbers) or "no class"
        sentence = (
            f"The text has {names}. Each class costs -log of the probability of its right answer, "
            f"yes or no; the mean is {value:.4f} nats. Guessing would cost {math.log(2):.4f}."
        )
    else:
        label = int(loss.labels)
        sentence = (
            f"The text is {name_class(loss, label)}, to which the model gave a probability of "
            f"{float(p[label]):.4f}. The loss is {value:.4f} nats; guessing among {n_classes} "
            f"classes would cost {math.log(n_classes):.4f}."
        )
    logits, labels = trace["class_logits"].double(), loss.labels
    return Content(
        sentence=sentence,
        pictures=(
            Table(
                title="class by class",
                columns=("class", "logit", "p", "y"),
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
            f"y is spread by a label smoothing of {loss.label_smoothing:g}"
            if loss.label_smoothing
            else None,
        ),
    )
