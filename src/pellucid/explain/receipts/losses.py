"""Receipts of the loss and its terms, for every objective."""

from __future__ import annotations

from typing import assert_never

import torch

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, Number, constant, evaluate
from pellucid.explain.losses import compute
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    ExampleLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
)
from pellucid.explain.outputs import read_companion, require_loss, token_rows
from pellucid.explain.receipts.builder import (
    ReceiptBuilder,
    Source,
    cell,
    row,
    softmax_share,
    total,
)
from pellucid.explain.receipts.outputs import piece, probability_of
from pellucid.explain.trace_types import Trace
from pellucid.maths.distillation import forward_kl
from pellucid.maths.divergences import entropy_of_logits
from pellucid.typed import to_list

#: Terms of a sum over the vocabulary that are written out.
_WORDS = 24
#: Where the loss is computed.
LOSS_SOURCE: Source = (compute.loss_value, "def loss_value(")
_SURPRISAL_SOURCE: Source = (compute.log_ps, "torch.log_softmax(scaled")


def surprisal_receipt(trace: Trace, token: int) -> Receipt:
    """-log of the probability of a token that counts, in nats; `token` is its row."""
    loss = token_rows(trace)
    place, word = int(loss.places[token]), int(loss.targets[token])
    return ReceiptBuilder(trace).receipt(
        cell("surprisal", token),
        title=f"surprisal of {piece(trace, word)} {describe_place(trace, place)}",
        formula="-log p",
        expression=-probability_of(trace, place, word).log(),
        source=_SURPRISAL_SOURCE,
    )


def describe_place(trace: Trace, place: int) -> str:
    """Where a token is predicted: after a token, or at a masked one."""
    return f"after token {place}" if trace.predicts else f"at token {place}"


def loss_receipt(trace: Trace) -> Receipt:
    """The loss, from its parts."""
    loss = require_loss(trace)
    formula, expression = _loss(trace, loss)
    return ReceiptBuilder(trace).receipt(
        "loss",
        title="loss of the example" if trace.sentence.is_example else "loss of the sentence",
        formula=formula,
        expression=expression,
        source=LOSS_SOURCE,
    )


def _loss(trace: Trace, loss: ExampleLoss) -> tuple[str, Expression]:
    match loss:
        case TokenLoss():
            return _token_loss(trace, loss)
        case DistillationLoss():
            return _distillation_loss(trace, loss)
        case PreferenceLoss():
            return _preference_loss(trace, loss)
        case PolicyLoss():
            return _policy_loss(trace, loss)
        case ClassLoss():
            return _class_loss(trace, loss)
        case _:
            assert_never(loss)


def _mean_surprisal(trace: Trace) -> Expression:
    surprisals = ReceiptBuilder(trace).vector("surprisals", "surprisal")
    return surprisals.sum() / constant(len(surprisals.values), "n")


def _token_loss(trace: Trace, loss: TokenLoss) -> tuple[str, Expression]:
    formula, expression = "Σ surprisals / n", _mean_surprisal(trace)
    z = compute.at_places(loss, trace["logits"]).double()
    n = constant(len(loss.places), "n")
    if loss.label_smoothing:
        even = row(z.logsumexp(-1) - z.mean(-1), "mean -log p of all words")
        share = constant(loss.label_smoothing, "s")
        expression = (1.0 - share) * expression + share * (even.sum() / n)
        formula = "(1 - s) Σ surprisals / n + s Σ (mean -log p of all words) / n"
    if loss.z_loss:
        log_z = row(z.logsumexp(-1), "log Z")
        expression = expression + constant(loss.z_loss, "z_loss") * ((log_z @ log_z) / n)
        formula += " + z_loss Σ (log Z)² / n"
    if loss.entropy_bonus:
        entropies = row(entropy_of_logits(z), "H")
        bonus = constant(loss.entropy_bonus, "entropy_bonus")
        expression = expression - bonus * (entropies.sum() / n)
        formula += " - entropy_bonus Σ H / n"
    return formula, expression


def _distillation_loss(trace: Trace, loss: DistillationLoss) -> tuple[str, Expression]:
    divergences = row(compute.divergences(loss, trace["logits"]), "D(teacher, student)")
    temperature = constant(loss.temperature, "T")
    soft = temperature * temperature * (divergences.sum() / constant(len(loss.places), "n"))
    hard = constant(loss.hard_weight, "h")
    return (
        "(1 - h) T² Σ D(teacher, student) / n + h Σ surprisals / n",
        (1.0 - hard) * soft + hard * _mean_surprisal(trace),
    )


def divergence_receipt(trace: Trace, place_row: int) -> Receipt | None:
    """KL(teacher || student) at one place, word by word; None for another divergence."""
    loss = token_rows(trace)
    if not isinstance(loss, DistillationLoss) or loss.divergence != "forward":
        return None
    student, teacher = compute.both_at_temperature(loss, trace["logits"], place_row)
    q, log_p = teacher.softmax(-1), student.log_softmax(-1)
    terms = q * (q.log() - log_p)
    order: list[int] = to_list(q.argsort(descending=True))
    terms_shown = [
        constant(float(q[word]), f"q of {piece(trace, word)}")
        * (
            constant(float(q[word]), "q").log()
            - constant(float(log_p[word]), f"log p of {piece(trace, word)}")
        )
        for word in order[:_WORDS]
    ]
    others = [float(terms[word]) for word in order[_WORDS:]]
    return ReceiptBuilder(trace).receipt(
        "",
        title=f"KL(teacher || student) {describe_place(trace, int(loss.places[place_row]))}, both "
        f"at temperature {loss.temperature:g}",
        formula="Σ q (log q - log p)",
        expression=total(terms_shown, others),
        source=(forward_kl, "return _kl("),
        model=float(compute.divergences(loss, trace["logits"])[place_row]),
    )


def margin_of(trace: Trace, loss: PreferenceLoss) -> Expression:
    """beta [(log pi_c - log ref_c) - (log pi_r - log ref_r)]."""
    own_name, other_name = ("chosen", "rejected")[:: 1 if loss.is_chosen else -1]
    companion = read_companion(trace)
    assert companion is not None
    log_p = -ReceiptBuilder(trace).vector(f"surprisals of the {own_name} answer", "surprisal").sum()
    own_ratio = log_p - row(loss.reference_log_ps, f"log p under the reference ({own_name})").sum()
    log_ps = row(compute.log_ps(companion.loss, companion.logits), f"log p ({other_name})")
    references = row(companion.loss.reference_log_ps, f"log p under the reference ({other_name})")
    difference = own_ratio - (log_ps.sum() - references.sum())
    return constant(loss.beta, "β") * (difference if loss.is_chosen else -difference)


def _softplus(z: Expression) -> Expression:
    """log(1 + exp(z)), without an overflow."""
    if evaluate(z) > 0:
        return z + (1.0 + (-z).exp()).log()
    return (1.0 + z.exp()).log()


def _preference_loss(trace: Trace, loss: PreferenceLoss) -> tuple[str, Expression]:
    z = margin_of(trace, loss)
    text = "z = β ((log π_c - log ref_c) - (log π_r - log ref_r))"
    match loss.kind:
        case "hinge":
            expression = 1.0 - z if evaluate(z) < 1 else constant(0.0, "no loss from z = 1 on")
            return f"max(0, 1 - z), {text}", expression
        case "sigmoid":
            share = constant(loss.label_smoothing, "s")
            if not loss.label_smoothing:
                return f"-log σ(z), {text}", _softplus(-z)
            return (
                f"-(1 - s) log σ(z) - s log σ(-z), {text}",
                (1.0 - share) * _softplus(-z) + share * _softplus(z),
            )
        case _:
            assert_never(loss.kind)


def _policy_loss(trace: Trace, loss: PolicyLoss) -> tuple[str, Expression]:
    z = trace["logits"]
    log_p = row(compute.log_ps(loss, z, temperature=loss.temperature), "log π")
    ratios = row(
        loss.reference_log_ps.double() - torch.tensor(log_p.values, device=z.device), "log(ref/π)"
    )
    formula = "-A Σ log π"
    expression: Expression = -(constant(loss.advantage, "A") * log_p.sum())
    beta = constant(loss.beta, "β")
    match loss.kl:
        case "in_reward":
            pass
        case "k2":
            total_ratio = ratios.sum()
            formula += " + β (Σ log(ref/π))² / 2"
            expression = expression + beta * (total_ratio * total_ratio / 2.0)
        case "k3":
            formula += " + β Σ (ref/π - 1 - log(ref/π))"
            terms = [
                Number(r, f"r{i}").exp() - 1.0 - Number(r, f"r{i}")
                for i, r in enumerate(ratios.values)
            ]
            expression = expression + beta * total(terms)
        case _:
            assert_never(loss.kl)
    if loss.entropy_bonus:
        scaled = compute.at_places(loss, z).double() / loss.temperature
        entropies = row(entropy_of_logits(scaled), "H")
        formula += " - entropy_bonus Σ H"
        expression = expression - constant(loss.entropy_bonus, "entropy_bonus") * entropies.sum()
    return formula, expression


def class_terms(trace: Trace) -> list[Number]:
    """The logits of all classes as operands."""
    values: list[float] = to_list(trace["class_logits"].double())
    return [Number(value, f"z{i}", cell("class_logits", i)) for i, value in enumerate(values)]


def class_share(trace: Trace, number: int) -> Expression:
    """The probability of a class, from all logits."""
    terms = class_terms(trace)
    return softmax_share(terms[number], trace["class_logits"], lambda place: terms[place])


def _class_loss(trace: Trace, loss: ClassLoss) -> tuple[str, Expression]:
    terms = class_terms(trace)
    if loss.multi_label:
        labels: list[float] = to_list(loss.labels.double())
        parts = [_softplus(-z if y else z) for z, y in zip(terms, labels, strict=True)]
        formula = "Σ over classes of -log σ(z) if the text has it, else -log σ(-z), / classes"
        return formula, total(parts) / constant(len(parts), "classes")
    plain = -class_share(trace, int(loss.labels)).log()
    if not loss.label_smoothing:
        return "-log p of the class", plain
    share = constant(loss.label_smoothing, "s")
    costs = [-class_share(trace, number).log() for number in range(len(terms))]
    even = total(costs) / constant(len(terms), "classes")
    return "(1 - s) (-log p of the class) + s (mean -log p)", (1.0 - share) * plain + share * even


def name_class(loss: ClassLoss, number: int) -> str:
    """The name of a class, quoted; its number if it has none."""
    return repr(loss.classes[number]) if loss.classes else f"class {number}"
