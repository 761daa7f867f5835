"""The outputs after the last state: logits, probabilities, surprisal and loss; or classes.

Row t of `surprisal` is -log p of token t + 1, in nats: it has one row less than there are tokens.
`loss` is their mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.explain.forward_pass import ONE_AT_A_TIME, evaluating, scaled
from pellucid.explain.trace_types import Trace


def read_hidden(trace: Trace) -> Tensor:
    """(time, d_model): the state as the output head reads it."""
    _check_head(trace)
    return trace.model.readable(trace.last)


def read_logits(trace: Trace) -> Tensor:
    """(time, vocabulary): the model's own logits."""
    _check_head(trace)
    return trace.model.logits(trace.model.readable(trace.last))


def read_probabilities(trace: Trace) -> Tensor:
    """(time, vocabulary): their softmax."""
    _check_head(trace)
    return torch.softmax(widen(trace["logits"]), dim=-1)


def read_surprisal(trace: Trace) -> Tensor:
    """(time - 1,): -log p of each token that came, in nats."""
    _check_next_token(trace)
    return F.cross_entropy(widen(trace["logits"][:-1]), trace.ids[1:], reduction="none")


def read_loss(trace: Trace) -> Tensor:
    """(): the mean of all surprisals."""
    _check_next_token(trace)
    return next_token_loss(trace["logits"], trace.ids)


def read_class_logits(trace: Trace) -> Tensor | None:
    """(classes,): the logits of a classifier."""
    model = trace.model
    if model.classifier is None:
        return None
    with ONE_AT_A_TIME, evaluating(model), scaled(model, trace.scales, trace.edits):
        return model.class_logits(trace.ids[None])[0]


def read_class_probabilities(trace: Trace) -> Tensor | None:
    """(classes,): their softmax."""
    logits = read_class_logits(trace)
    return None if logits is None else torch.softmax(widen(logits), dim=-1)


def next_token_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """The mean of -log p of each token that came, in nats; `logits` (time, vocab), `ids` (time,).

    Source:
        Bengio et al. 2003, "A Neural Probabilistic Language Model", section 2.
    """
    return F.cross_entropy(widen(logits[:-1]), ids[1:])


def widen(x: Tensor) -> Tensor:
    """The tensor in float32 at least, for exponentials and sums."""
    return x if x.dtype == torch.float64 else x.float()


@torch.no_grad()
def distribution_at(trace: Trace, token: int) -> Tensor:
    """(vocabulary,): the probabilities at one token, in float64."""
    return torch.softmax(widen(trace.logits_at(token)).double(), dim=-1)


@torch.no_grad()
def read_lens(trace: Trace, state: Tensor, places: Sequence[int]) -> Tensor:
    """(places, vocabulary): the probabilities if the model ended with a state.

    Args:
        trace: the sentence.
        state: (1, time, d_model). The final norm gets all of it, as some norms mix tokens.
        places: the tokens to read.
    """
    hidden = trace.model.readable(trace.stack_pass(trace.side).stack.final_norm(state))
    return torch.softmax(widen(trace.model.logits(hidden[0, list(places)])), dim=-1)


def target_word(trace: Trace, token: int) -> tuple[int, str]:
    """The token after `token`, or the likeliest if none follows or the model is an encoder."""
    if trace.predicts and token + 1 < len(trace.ids):
        return int(trace.ids[token + 1]), "which came next"
    return int(trace.logits_at(token).argmax()), "the likeliest"


def mask_or(trace: Trace, token: int) -> int:
    """The first mask if the last token was selected and there is a mask; else the token itself."""
    masks = trace.sentence.masks
    return masks[0] if masks and token == len(trace.ids) - 1 else token


def explain_no_loss(trace: Trace) -> str | None:
    """Why no token of a trace has a loss; None if they have."""
    if "loss" in trace.addresses():
        return None
    if trace.model.classifier is not None:
        return "This model names the class of a text: it predicts no token of it."
    if not trace.model.has_head:
        return "This model has no head: it gives no token a probability, so none has a loss."
    if trace.model.decoder is None:
        return (
            "An encoder sees every token at once and predicts none from those before it: it "
            "predicts masked words only, and the sentence does not tell the word behind a mask."
        )
    return "One token alone has no next token to predict: write another."


def _check_head(trace: Trace) -> None:
    _ = trace.model.head_weight  # refuses a model without one


def _check_next_token(trace: Trace) -> None:
    _check_head(trace)
    if not trace.predicts or len(trace.ids) < 2:
        raise PellucidError(
            "this trace has no surprisal: an encoder sees every token and predicts none from "
            "those before it, and a text of one token has no next one. Read `probabilities` "
            "at a masked token instead"
        )
