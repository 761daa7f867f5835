"""Receipts of the loss and of its gradient by the logits, for every objective."""

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
from pellucid.explain.outputs import read_other, require_loss, token_rows
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
from pellucid.typed import to_list

#: Terms of a sum over the vocabulary that are written out.
_WORDS = 24
_LOSS_SOURCE: Source = (compute.loss_value, "def loss_value(")
_ERROR_SOURCE: Source = (compute.errors, "torch.autograd.grad(loss_value")
_SURPRISAL_SOURCE: Source = (compute.log_ps, "torch.log_softmax(scaled")


def surprisal_receipt(trace: Trace, place_row: int) -> Receipt:
    """-log of the probability of a token that counts, in nats."""
    loss = token_rows(trace)
    place, word = int(loss.places[place_row]), int(loss.targets[place_row])
    return ReceiptBuilder(trace).receipt(
        cell("surprisal", place_row),
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
        source=_LOSS_SOURCE,
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
        entropies = row(torch.distributions.Categorical(logits=z).entropy(), "H")
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
    z = compute.at_places(loss, trace["logits"])[place_row].double() / loss.temperature
    teacher = loss.teacher_logits[place_row].double() / loss.temperature
    q, log_p = teacher.softmax(-1), z.log_softmax(-1)
    terms = q * (q.log() - log_p)
    order: list[int] = to_list(q.argsort(descending=True))
    shown = [
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
        expression=total(shown, others),
        source=(forward_kl, "return _kl("),
        model=float(compute.divergences(loss, trace["logits"])[place_row]),
    )


def _margin(trace: Trace, loss: PreferenceLoss) -> Expression:
    """beta [(log pi_c - log ref_c) - (log pi_r - log ref_r)]."""
    own_name, other_name = ("chosen", "rejected")[:: 1 if loss.is_chosen else -1]
    other = read_other(trace)
    assert other is not None
    own = -ReceiptBuilder(trace).vector(f"surprisals of the {own_name} answer", "surprisal").sum()
    own_ratio = own - row(loss.reference_log_ps, f"log p under the reference ({own_name})").sum()
    log_ps = row(compute.log_ps(other[1], other[0]), f"log p ({other_name})")
    references = row(other[1].reference_log_ps, f"log p under the reference ({other_name})")
    difference = own_ratio - (log_ps.sum() - references.sum())
    return constant(loss.beta, "β") * (difference if loss.is_chosen else -difference)


def _softplus(z: Expression) -> Expression:
    """log(1 + exp(z)), without an overflow."""
    if evaluate(z) > 0:
        return z + (1.0 + (-z).exp()).log()
    return (1.0 + z.exp()).log()


def _preference_loss(trace: Trace, loss: PreferenceLoss) -> tuple[str, Expression]:
    z = _margin(trace, loss)
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
        entropies = row(torch.distributions.Categorical(logits=scaled).entropy(), "H")
        formula += " - entropy_bonus Σ H"
        expression = expression - constant(loss.entropy_bonus, "entropy_bonus") * entropies.sum()
    return formula, expression


def _class_terms(trace: Trace) -> list[Number]:
    values: list[float] = to_list(trace["class_logits"].double())
    return [Number(value, f"z{i}", cell("class_logits", i)) for i, value in enumerate(values)]


def _class_share(trace: Trace, number: int) -> Expression:
    terms = _class_terms(trace)
    return softmax_share(terms[number], trace["class_logits"], lambda place: terms[place])


def _class_loss(trace: Trace, loss: ClassLoss) -> tuple[str, Expression]:
    terms = _class_terms(trace)
    if loss.multi_label:
        labels: list[float] = to_list(loss.labels.double())
        parts = [_softplus(-z if y else z) for z, y in zip(terms, labels, strict=True)]
        formula = "Σ over classes of -log σ(z) if the text has it, else -log σ(-z), / classes"
        return formula, total(parts) / constant(len(parts), "classes")
    plain = -_class_share(trace, int(loss.labels)).log()
    if not loss.label_smoothing:
        return "-log p of the class", plain
    share = constant(loss.label_smoothing, "s")
    costs = [-_class_share(trace, number).log() for number in range(len(terms))]
    even = total(costs) / constant(len(terms), "classes")
    return "(1 - s) (-log p of the class) + s (mean -log p)", (1.0 - share) * plain + share * even


def error_receipt(trace: Trace, place_row: int, word: int) -> Receipt:
    """The gradient of a term of the loss by one logit: p - y, or what the objective has for it."""
    loss = require_loss(trace)
    formula, expression = error_of(trace, loss, place_row, word)
    if isinstance(loss, ClassLoss):
        title = f"gradient by the logit of {name_class(loss, word)}"
    else:
        place = describe_place(trace, int(loss.places[place_row]))
        title = f"{describe_error(loss)} of {piece(trace, word)} {place}"
    return ReceiptBuilder(trace).receipt(
        cell("error", place_row, word),
        title=title,
        formula=formula,
        expression=expression,
        source=_ERROR_SOURCE,
    )


def name_class(loss: ClassLoss, number: int) -> str:
    """The name of a class, quoted; its number if it has none."""
    return repr(loss.classes[number]) if loss.classes else f"class {number}"


def describe_error(loss: ExampleLoss) -> str:
    """What the gradient of a term by a logit is called."""
    match loss:
        case TokenLoss():
            return "p - y" if loss.is_plain else "the gradient"
        case DistillationLoss():
            return "the gradient"
        case PreferenceLoss() | PolicyLoss():
            return "the weighed p - y"
        case ClassLoss():
            return "the gradient" if loss.multi_label or loss.label_smoothing else "p - y"
        case _:
            assert_never(loss)


def error_of(trace: Trace, loss: ExampleLoss, place_row: int, word: int) -> tuple[str, Expression]:
    """The formula of an error, and its tree.

    Args:
        trace: the example.
        loss: its loss.
        place_row: the row of `error`.
        word: its column.
    """
    if isinstance(loss, ClassLoss):
        return _class_error(trace, loss, word)
    place, target = int(loss.places[place_row]), int(loss.targets[place_row])
    is_target = constant(word == target, "y")
    match loss:
        case TokenLoss():
            return _token_error(trace, loss, place_row, word)
        case DistillationLoss():
            return _distillation_error(trace, loss, place_row, word)
        case PreferenceLoss():
            weight = constant(preference_weight(trace, loss), "w")
            p = probability_of(trace, place, word)
            return "w (p - y), w = ±β σ(-z)", weight * (p - is_target)
        case PolicyLoss():
            return _policy_error(trace, loss, place_row, word)
        case _:
            assert_never(loss)


def preference_weight(trace: Trace, loss: PreferenceLoss) -> float:
    """By how much the loss falls if log P of this answer rises; below 0 for the rejected one."""
    z = evaluate(_margin(trace, loss))
    match loss.kind:
        case "hinge":
            slope = 1.0 if z < 1 else 0.0
        case "sigmoid":
            s, sigmoid = loss.label_smoothing, float(torch.sigmoid(torch.tensor(z).double()))
            slope = (1 - s) * (1 - sigmoid) - s * sigmoid
        case _:
            assert_never(loss.kind)
    return loss.beta * slope * (1 if loss.is_chosen else -1)


def _token_error(
    trace: Trace, loss: TokenLoss, place_row: int, word: int
) -> tuple[str, Expression]:
    place, is_target = int(loss.places[place_row]), word == int(loss.targets[place_row])
    p = probability_of(trace, place, word)
    if loss.is_plain:
        # the target of a plain loss is certain
        return f"exp(z - max) / Σ exp(z - max) - {int(is_target)}", p - constant(is_target, "y")
    z = trace.logits_at(place).double()
    formula, s = "p - y", loss.label_smoothing
    y: Expression = constant(is_target, "1 if it is the target")
    if s:
        share, words = constant(s, "s"), constant(len(z), "words")
        y, formula = (1.0 - share) * y + share / words, "p - ((1 - s) y + s / words)"
    expression: Expression = p - y
    if loss.z_loss:
        log_z = constant(float(z.logsumexp(-1)), "log Z")
        expression = expression + 2.0 * constant(loss.z_loss, "z_loss") * log_z * p
        formula += " + 2 z_loss log Z p"
    if loss.entropy_bonus:
        entropy = constant(float(torch.distributions.Categorical(logits=z).entropy()), "H")
        log_p = constant(float(z.log_softmax(-1)[word]), "log p")
        expression = expression + constant(loss.entropy_bonus, "entropy_bonus") * p * (
            log_p + entropy
        )
        formula += " + entropy_bonus p (log p + H)"
    return formula, expression


def _distillation_error(
    trace: Trace, loss: DistillationLoss, place_row: int, word: int
) -> tuple[str, Expression]:
    """(1 - h) T times the divergence's gradient by z / T, and h (p - y)."""
    temperature, hard_weight = constant(loss.temperature, "T"), constant(loss.hard_weight, "h")
    z = compute.at_places(loss, trace["logits"])[place_row].double() / loss.temperature
    teacher = loss.teacher_logits[place_row].double() / loss.temperature
    p, q = z.softmax(-1), teacher.softmax(-1)
    p_word = constant(float(p[word]), "p at T")
    match loss.divergence:
        case "forward":
            formula, soft = "p - q", p_word - constant(float(q[word]), "q of the teacher at T")
        case "reverse":
            log_ratio = z.log_softmax(-1) - teacher.log_softmax(-1)
            divergence = constant(float((p * log_ratio).sum()), "D")
            formula = "p (log p/q - D)"
            soft = p_word * (constant(float(log_ratio[word]), "log p/q") - divergence)
        case "jensen_shannon":
            middle = (p + q) / 2
            log_ratio = p.log() - middle.log()
            divergence = constant(float((p * log_ratio).sum()), "KL(p || m)")
            formula = "p (log p/m - KL(p || m)) / 2, m = (p + q) / 2"
            soft = p_word * (constant(float(log_ratio[word]), "log p/m") - divergence) / 2.0
        case _:
            assert_never(loss.divergence)
    own = probability_of(trace, int(loss.places[place_row]), word)
    hard = own - constant(word == int(loss.targets[place_row]), "y")
    expression = (1.0 - hard_weight) * temperature * soft + hard_weight * hard
    return f"(1 - h) T ({formula}) + h (p - y)", expression


def _policy_error(
    trace: Trace, loss: PolicyLoss, place_row: int, word: int
) -> tuple[str, Expression]:
    z = compute.at_places(loss, trace["logits"])[place_row].double() / loss.temperature
    log_p = compute.log_ps(loss, trace["logits"], temperature=loss.temperature).double()
    ratios = loss.reference_log_ps.double() - log_p
    weight: Expression = constant(loss.advantage, "A")
    formula = "A"
    match loss.kl:
        case "in_reward":
            pass
        case "k2":
            ratio = constant(float(ratios.sum()), "Σ log(ref/π)")
            weight, formula = weight + constant(loss.beta, "β") * ratio, "(A + β Σ log(ref/π))"
        case "k3":
            ratio = constant(float(ratios[place_row]), "log(ref/π)")
            weight = weight + constant(loss.beta, "β") * (ratio.exp() - 1.0)
            formula = "(A + β (ref/π - 1))"
        case _:
            assert_never(loss.kl)
    p = constant(float(z.softmax(-1)[word]), "p at T")
    is_target = constant(word == int(loss.targets[place_row]), "y")
    expression, formula = weight * (p - is_target), f"{formula} (p - y)"
    if loss.entropy_bonus:
        entropy = constant(float(torch.distributions.Categorical(logits=z).entropy()), "H")
        log_word = constant(float(z.log_softmax(-1)[word]), "log p")
        bonus = constant(loss.entropy_bonus, "entropy_bonus")
        expression = expression + bonus * p * (log_word + entropy)
        formula += " + entropy_bonus p (log p + H)"
    return f"({formula}) / T", expression / constant(loss.temperature, "T")


def _class_error(trace: Trace, loss: ClassLoss, word: int) -> tuple[str, Expression]:
    if loss.multi_label:
        z = _class_terms(trace)[word]
        return "1 / (1 + exp(-z)) - y", 1.0 / (1.0 + (-z).exp()) - constant(
            float(loss.labels[word]), "y"
        )
    y: Expression = constant(word == int(loss.labels), "y")
    formula = "p - y"
    if loss.label_smoothing:
        share, classes = constant(loss.label_smoothing, "s"), constant(len(loss.classes), "classes")
        y, formula = (1.0 - share) * y + share / classes, "p - ((1 - s) y + s / classes)"
    return formula, _class_share(trace, word) - y


def zero_sum_receipt(trace: Trace, place_row: int) -> Receipt | None:
    """The sum of all p - y of a place is 0, as p and y sum to 1; None if it need not be."""
    loss = require_loss(trace)
    match loss:
        case TokenLoss(z_loss=weight) if weight:
            return None
        case ClassLoss() if loss.multi_label:
            return None
        case TokenLoss() | DistillationLoss() | PreferenceLoss() | PolicyLoss() | ClassLoss():
            pass
        case _:
            assert_never(loss)
    build = ReceiptBuilder(trace)
    return build.receipt(
        cell("error", place_row),
        title="all of them together",
        formula="Σ over the vocabulary"
        if not isinstance(loss, ClassLoss)
        else "Σ over the classes",
        expression=build.vector("errors", "error", place_row).sum(),
        source=_ERROR_SOURCE,
        model=float(trace["error"][place_row].double().sum()),
    )


def mean_receipt(trace: Trace, place_row: int, word: int) -> Receipt:
    """dL/dlogit: the error over the number of terms in the mean of the loss."""
    loss = require_loss(trace)
    build = ReceiptBuilder(trace)
    n = constant(compute.n_terms(loss), "n")
    if isinstance(loss, ClassLoss):
        address, name = cell("class_logits.grad", word), name_class(loss, word)
        place = ""
    else:
        address = cell("logits.grad", int(loss.places[place_row]), word)
        name, place = piece(trace, word), f" {describe_place(trace, int(loss.places[place_row]))}"
    return build.gradient(
        address,
        title=f"gradient of the logit of {name}{place}",
        formula="error / n",
        expression=build.number("error", "error", place_row, word) / n,
        source=_LOSS_SOURCE,
    )
