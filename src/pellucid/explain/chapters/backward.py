"""Backward: the gradient of the loss by the logits. Every other gradient begins here."""

from __future__ import annotations

from typing import assert_never

from pellucid.catalogue import message
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Content, Picture, Tokens
from pellucid.explain.chapters.loss import row_near
from pellucid.explain.chapters.pictures import bars, largest
from pellucid.explain.losses.compute import n_terms, preference_weight
from pellucid.explain.losses.names import describe_error, name_class, name_targets, piece
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
    place_name = message(
        "place.after" if trace.predicts else "place.at",
        token=label(trace.pieces(trace.side), place),
    )
    return Content(
        sentence=_describe(trace, loss, row, place_name),
        pictures=(
            bars(
                message("backward.the-target-first", name=name, place_name=place_name),
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
            message(
                "backward.mean-of-p-y" if name == "p - y" else "backward.mean", tokens=n_terms(loss)
            )
            if n_terms(loss) > 1
            else None,
            message("backward.the-selected-token-has-no")
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
            return message(
                "backward.next-token" if trace.predicts else "backward.masked-token",
                token=label(trace.pieces(trace.side), int(loss.places[row])),
                word=word,
                p=1 + error,
                rise=-error,
            )
        case TokenLoss():
            return message(
                "backward.the-target-is-its-logit", place_name=place_name, word=word, error=-error
            )
        case DistillationLoss():
            return message(
                "backward.the-logits-should-move-towards",
                place_name=place_name,
                hard_weight=loss.hard_weight,
                word=word,
                error=error,
            )
        case PreferenceLoss():
            side = message("word.chosen" if loss.is_chosen else "word.rejected")
            weight = preference_weight(loss, float(trace["margin"]))
            return message(
                "backward.every-token-of-the-answer-2",
                side=side,
                weight=weight,
                word=word,
                place_name=place_name,
                error=error,
            )
        case PolicyLoss():
            return message(
                "backward.every-token-of-the-answer",
                advantage=loss.advantage,
                word=word,
                place_name=place_name,
                error=error,
            )
        case _:
            assert_never(loss)


def _targets(trace: Trace, loss: TokensLoss, name: str) -> Tokens:
    return Tokens(
        title=message("backward.of-the-target-at-each", name=name),
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
            message("backward.of-each-class", error=describe_error(loss)),
            error,
            range(len(error)),
            lambda number: name_class(loss, number),
            describe_error(loss),
        ),
    )
    sentence = (
        message("backward.each-class-has-its-own")
        if loss.multi_label
        else message(
            "backward.the-logit-of-should-rise",
            class_name=name_class(loss, best),
            error=-float(error[best]),
        )
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
