"""Backward: the gradient of the loss by the logits. Every other gradient begins here."""

from __future__ import annotations

from typing import assert_never

from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Content, Picture, Tokens
from pellucid.explain.chapters.loss import name_targets, row_near
from pellucid.explain.chapters.pictures import bars, largest
from pellucid.explain.losses.compute import n_terms, preference_weight
from pellucid.explain.losses.names import describe_error, name_class, piece
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
    TokensLoss,
)
from pellucid.explain.outputs import require_loss, token_rows
from pellucid.explain.receipts.gradients import zero_sum_receipt
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_MAX_WORDS = 11


def build(trace: Trace, selection: Selection) -> Content:
    """The error at the selected token: it pulls the target up, and pushes each other word down."""
    loss = require_loss(trace)
    if isinstance(loss, ClassLoss):
        return _classes(trace, loss)
    row = row_near(trace, loss, selection)
    place, target = int(loss.places[row]), int(loss.targets[row])
    error, name = trace["error"][row].double(), describe_error(loss)
    order = [word for word in largest(error.abs(), _MAX_WORDS) if word != target]
    words = [target, *order][:_MAX_WORDS]
    place_name = f"{'after' if trace.predicts else 'at'} {label(trace.pieces(trace.side), place)}"
    return Content(
        sentence=_describe(trace, loss, row, place_name),
        pictures=(
            bars(
                f"{name} {place_name}, the target first",
                error,
                words,
                lambda word: piece(trace, word),
                name,
            ),
            _targets(trace, loss, name),
        ),
        receipts=(
            receipt_or_none(trace, "error", row, target),
            receipt_or_none(trace, "error", row, next(iter(order), target)),
            zero_sum_receipt(trace, row),
            receipt_or_none(trace, "logits.grad", place, target),
        ),
        notes=(
            f"the loss is a mean over {n_terms(loss)} tokens, so each place counts that much less: "
            f"the gradient of a logit is {'(p - y)' if name == 'p - y' else 'this'} / n"
            if n_terms(loss) > 1
            else None,
            "the selected token has no target: this is the nearest one that has"
            if place != selection.token or selection.side != trace.side
            else None,
        ),
    )


def _describe(trace: Trace, loss: TokensLoss, row: int, place_name: str) -> str:
    target = int(loss.targets[row])
    error = float(trace["error"][row, target])
    word = piece(trace, target)
    match loss:
        case TokenLoss() if loss.is_plain:
            verb = "came" if trace.predicts else "belongs"
            return (
                f"{place_name[0].upper()}{place_name[1:]} {verb} {word}, with a probability of "
                f"{1 + error:.4f}. Its logit should rise by {-error:.4f}, which is what p lacks to "
                "1; every other logit should fall by its own p. All of these p - y sum to 0."
            )
        case TokenLoss():
            return (
                f"The target {place_name} is {word}; its logit should rise by {-error:.4f}. "
                "Smoothing and penalties change p - y: each receipt shows by how much."
            )
        case DistillationLoss():
            return (
                f"The logits {place_name} should move towards the teacher's probabilities, and "
                f"{loss.hard_weight:.0%} of the way towards the token that came, {word}. By the "
                f"logit of {word} the gradient is {error:+.4f}."
            )
        case PreferenceLoss():
            side = "chosen" if loss.is_chosen else "rejected"
            weight = preference_weight(loss, float(trace["margin"]))
            return (
                f"Every token of the {side} answer has the same weight, {weight:+.4f}: β times the "
                f"share by which the pair is still wrong. The gradient by the logit of {word} "
                f"{place_name} is that weight times p - y: {error:+.4f}."
            )
        case PolicyLoss():
            return (
                f"Every token of the answer has the weight of the answer's advantage, "
                f"{loss.advantage:+.4f}, and of its KL if that is a loss. The gradient by the "
                f"logit of {word} {place_name} is {error:+.4f}."
            )
        case _:
            assert_never(loss)


def _targets(trace: Trace, loss: TokensLoss, name: str) -> Tokens:
    return Tokens(
        title=f"{name} of the target, at each place that counts",
        pieces=name_targets(trace, loss),
        ids=tuple(to_list(loss.targets)),
        values=tuple(to_list(trace["error"].gather(1, loss.targets[:, None])[:, 0])),
        unit=name,
    )


def _classes(trace: Trace, loss: ClassLoss) -> Content:
    error = trace["error"][0].double()
    best = int(error.abs().argmax()) if loss.multi_label else int(loss.labels)
    others = [number for number in largest(error.abs(), 2) if number != best]
    pictures: tuple[Picture, ...] = (
        bars(
            f"{describe_error(loss)} of each class",
            error,
            range(len(error)),
            lambda number: name_class(loss, number),
            describe_error(loss),
        ),
    )
    sentence = (
        "Each class has its own yes or no: its logit moves by σ(z) - y, whatever the others do."
        if loss.multi_label
        else f"The logit of {name_class(loss, best)} should rise by {-float(error[best]):.4f}; "
        "every other logit should fall by its own p."
    )
    return Content(
        sentence=sentence,
        pictures=pictures,
        receipts=(
            *(receipt_or_none(trace, "error", 0, number) for number in (best, *others)),
            zero_sum_receipt(trace, 0),
            receipt_or_none(trace, "class_logits.grad", best),
        ),
    )


def place_with_target(trace: Trace, selection: Selection) -> tuple[int, int, int]:
    """The row, the place and the target that are nearest to the selected token.

    Raises:
        PellucidError: the loss is not of tokens.
    """
    loss = token_rows(trace)
    row = row_near(trace, loss, selection)
    return row, int(loss.places[row]), int(loss.targets[row])
