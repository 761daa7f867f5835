"""What displays call the parts of a loss."""

from __future__ import annotations

from typing import assert_never

from pellucid.catalogue import message
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    ExampleLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
    TokensLoss,
)
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list


def describe_place(trace: Trace, place: int) -> str:
    """Where a token is predicted: after a token, or at a masked one."""
    return (
        message("names.after-token", place=place)
        if trace.predicts
        else message("names.at-token", place=place)
    )


def name_class(loss: ClassLoss, number: int) -> str:
    """The name of a class, quoted; its number if it has none."""
    return repr(loss.classes[number]) if loss.classes else message("names.class", number=number)


def describe_error(loss: ExampleLoss) -> str:
    """What the gradient of a term by a logit is called."""
    match loss:
        case TokenLoss():
            return "p - y" if loss.is_plain else message("word.the-gradient")
        case DistillationLoss():
            return message("word.the-gradient")
        case PreferenceLoss() | PolicyLoss():
            return message("names.the-weighed-p-y")
        case ClassLoss():
            return (
                message("word.the-gradient")
                if loss.multi_label or loss.label_smoothing
                else "p - y"
            )
        case _:
            assert_never(loss)


def piece(trace: Trace, word: int) -> str:
    """A word of the vocabulary, quoted; its id if there is no tokenizer."""
    return str(word) if trace.spelling is None else repr(trace.spelling.piece(word))


def name_targets(trace: Trace, loss: TokensLoss) -> tuple[str, ...]:
    """The tokens that count, as text."""
    spelling = trace.spelling
    words: list[int] = to_list(loss.targets)
    return tuple(str(word) if spelling is None else spelling.any_piece(word) for word in words)
