"""Receipts of the gradient of the loss by the logits: p - y, or its kin for every objective."""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, constant, evaluate
from pellucid.explain.losses import compute
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    ExampleLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
)
from pellucid.explain.outputs import require_loss
from pellucid.explain.receipts.builder import (
    ReceiptBuilder,
    Source,
    cell,
)
from pellucid.explain.receipts.losses import (
    LOSS_SOURCE,
    class_share,
    class_terms,
    describe_place,
    margin_of,
    name_class,
)
from pellucid.explain.receipts.outputs import piece, probability_of
from pellucid.explain.trace_types import Trace
from pellucid.maths.divergences import entropy_of_logits

_ENTROPY_FORMULA = " + entropy_bonus p (log p + H)"
_ERROR_SOURCE: Source = (compute.errors, "torch.autograd.grad(loss_value")


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
    match loss:
        case TokenLoss():
            return _token_error(trace, loss, place_row, word)
        case DistillationLoss():
            return _distillation_error(trace, loss, place_row, word)
        case PreferenceLoss():
            weight = constant(preference_weight(trace, loss), "w")
            p = probability_of(trace, int(loss.places[place_row]), word)
            is_target = constant(word == int(loss.targets[place_row]), "y")
            return "w (p - y), w = ±β σ(-z)", weight * (p - is_target)
        case PolicyLoss():
            return _policy_error(trace, loss, place_row, word)
        case _:
            assert_never(loss)


def preference_weight(trace: Trace, loss: PreferenceLoss) -> float:
    """By how much the loss falls if log P of this answer rises; below 0 for the rejected one."""
    z = evaluate(margin_of(trace, loss))
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
        expression = expression + _entropy_term(loss.entropy_bonus, z, word, p)
        formula += _ENTROPY_FORMULA
    return formula, expression


def _entropy_term(weight: float, z: Tensor, word: int, p: Expression) -> Expression:
    """What the bonus of the entropy adds, with p the probability of a word under the logits z."""
    entropy = constant(float(entropy_of_logits(z)), "H")
    log_p = constant(float(z.log_softmax(-1)[word]), "log p")
    return constant(weight, "entropy_bonus") * p * (log_p + entropy)


def _distillation_error(
    trace: Trace, loss: DistillationLoss, place_row: int, word: int
) -> tuple[str, Expression]:
    """(1 - h) T times the divergence's gradient by z / T, and h (p - y)."""
    temperature, hard_weight = constant(loss.temperature, "T"), constant(loss.hard_weight, "h")
    z, teacher = compute.both_at_temperature(loss, trace["logits"], place_row)
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
    p_now = probability_of(trace, int(loss.places[place_row]), word)
    hard = p_now - constant(word == int(loss.targets[place_row]), "y")
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
        expression = expression + _entropy_term(loss.entropy_bonus, z, word, p)
        formula += _ENTROPY_FORMULA
    return f"({formula}) / T", expression / constant(loss.temperature, "T")


def _class_error(trace: Trace, loss: ClassLoss, word: int) -> tuple[str, Expression]:
    if loss.multi_label:
        z = class_terms(trace)[word]
        return "1 / (1 + exp(-z)) - y", 1.0 / (1.0 + (-z).exp()) - constant(
            float(loss.labels[word]), "y"
        )
    y: Expression = constant(word == int(loss.labels), "y")
    formula = "p - y"
    if loss.label_smoothing:
        share, classes = constant(loss.label_smoothing, "s"), constant(len(loss.classes), "classes")
        y, formula = (1.0 - share) * y + share / classes, "p - ((1 - s) y + s / classes)"
    return formula, class_share(trace, word) - y


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
        formula=f"Σ over the {'classes' if isinstance(loss, ClassLoss) else 'vocabulary'}",
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
        source=LOSS_SOURCE,
    )
