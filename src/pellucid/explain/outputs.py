"""What follows the last state: logits, probabilities, surprisal and loss, or those of classes.

`surprisal` is in nats, of the token that came: row t is of token t + 1, so there is one less than
there are tokens. `loss` is their mean.
"""

from __future__ import annotations

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
    with ONE_AT_A_TIME, evaluating(model), scaled(model, trace.scales):
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
    """In float32 at least: what is exponentiated and summed."""
    return x if x.dtype == torch.float64 else x.float()


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
