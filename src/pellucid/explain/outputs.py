"""The outputs after the last state: logits, probabilities, surprisal and loss; or classes.

Row i of `surprisal` and of `error` is of the i-th place that counts in the loss. For a plain text
these are all tokens but the last, which predict the token after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.addresses.block_parts import find_part
from pellucid.explain.forward_pass import ONE_AT_A_TIME, evaluating, scaled
from pellucid.explain.losses import compute
from pellucid.explain.losses.compute import Companion, widen
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    ExampleLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
    TokensLoss,
)
from pellucid.explain.trace_types import LastResults, Trace

#: Most receipts behind the last state read all logits, and a text may have a companion.
_last_logits = LastResults[Tensor](2)


def read_hidden(trace: Trace) -> Tensor:
    """(time, d_model): the state as the output head reads it."""
    _check_head(trace)
    return trace.model.readable(trace.last)


def read_head_dense(trace: Trace) -> Tensor | None:
    """(time, width): the dense layer of the head's own transform."""
    dense = find_part(trace.model, "head_transform.dense")
    if dense is None or not trace.model.has_head:
        return None
    return _output_of(dense, lambda: trace.model.readable(trace.last))


def read_logits(trace: Trace) -> Tensor:
    """(time, vocabulary): the model's own logits, kept for the last two texts."""
    _check_head(trace)
    return _last_logits.get(trace, None, lambda: trace.model.output_head(trace.last[None])[0])


def read_probabilities(trace: Trace) -> Tensor:
    """(time, vocabulary): their softmax."""
    _check_head(trace)
    return torch.softmax(widen(trace["logits"]), dim=-1)


def read_surprisal(trace: Trace) -> Tensor:
    """(n,): -log p of each token that counts, in nats."""
    loss = require_loss(trace)
    if isinstance(loss, ClassLoss):
        raise PellucidError(message("outputs.the-loss-of-a-classifier-2"))
    return -compute.log_ps(loss, trace["logits"])


def read_log_p(trace: Trace) -> Tensor:
    """(n,): log π of each token of a sampled answer, at its temperature."""
    loss = token_rows(trace)
    assert isinstance(loss, PolicyLoss)
    return compute.log_ps(loss, trace["logits"], temperature=loss.temperature)


def read_log_z(trace: Trace) -> Tensor:
    """(n,): log of the sum of exp(z), at the temperature of the loss."""
    loss = token_rows(trace)
    assert isinstance(loss, TokenLoss | PolicyLoss)
    return compute.log_z(loss, trace["logits"])


def read_entropy(trace: Trace) -> Tensor:
    """(n,): the entropy of each prediction that counts, at the temperature of the loss."""
    loss = token_rows(trace)
    assert isinstance(loss, TokenLoss | PolicyLoss)
    return compute.entropies(loss, trace["logits"])


def read_teacher_logits(trace: Trace) -> Tensor:
    """(n, vocabulary): the teacher's logits at the places that count."""
    loss = token_rows(trace)
    assert isinstance(loss, DistillationLoss)
    return loss.teacher_logits


def read_teacher_log_ps(trace: Trace) -> Tensor:
    """(n, vocabulary): the teacher's log p of every word, at the temperature."""
    loss = token_rows(trace)
    assert isinstance(loss, DistillationLoss)
    return compute.tempered_log_ps(loss, loss.teacher_logits)


def read_student_log_ps(trace: Trace) -> Tensor:
    """(n, vocabulary): the student's log p of every word, at the temperature."""
    loss = token_rows(trace)
    assert isinstance(loss, DistillationLoss)
    return compute.tempered_log_ps(loss, compute.at_places(loss, trace["logits"]))


def read_divergence(trace: Trace) -> Tensor:
    """(n,): how far the student is from its teacher, in nats."""
    loss = token_rows(trace)
    assert isinstance(loss, DistillationLoss)
    return compute.divergences(loss, trace["logits"])


def read_reference_log_ps(trace: Trace) -> Tensor:
    """(n,): log p of each token of the answer under the reference."""
    loss = token_rows(trace)
    assert isinstance(loss, PreferenceLoss | PolicyLoss)
    return loss.reference_log_ps


def read_margin(trace: Trace) -> Tensor:
    """(): beta times what the chosen answer gained on the reference more than the rejected one."""
    loss, companion = token_rows(trace), read_companion(trace)
    assert isinstance(loss, PreferenceLoss)
    assert companion is not None
    return compute.preference_margin(loss, trace["logits"], companion)


def read_loss(trace: Trace) -> Tensor:
    """(): the loss, as the objective counts it."""
    loss = require_loss(trace)
    return compute.loss_value(loss, read_loss_logits(trace, loss), read_companion(trace))


def read_error(trace: Trace) -> Tensor:
    """(n, vocabulary): the gradient of each term of the loss by its logits."""
    loss = require_loss(trace)
    return compute.errors(loss, read_loss_logits(trace, loss), read_companion(trace))


def read_loss_logits(trace: Trace, loss: ExampleLoss) -> Tensor:
    """The logits that a loss reads: of all tokens, or of the classes."""
    return trace["class_logits" if isinstance(loss, ClassLoss) else "logits"]


def read_companion(trace: Trace) -> Companion | None:
    """The other answer of a preference."""
    companion = trace.companion
    if companion is None:
        return None
    assert isinstance(companion.loss, PreferenceLoss)
    return Companion(companion["logits"], companion.loss)


def require_loss(trace: Trace) -> ExampleLoss:
    """The loss of a trace.

    Raises:
        PellucidError: it has none; says why.
    """
    reason = explain_no_loss(trace)
    if trace.loss is None or reason is not None:
        raise PellucidError(message("outputs.this-trace-has-no-loss", reason=reason))
    return trace.loss


def token_rows(trace: Trace) -> TokensLoss:
    """The loss of a trace whose terms belong to tokens.

    Raises:
        PellucidError: it has another loss, or none.
    """
    loss = require_loss(trace)
    if isinstance(loss, ClassLoss):
        raise PellucidError(message("outputs.the-loss-of-a-classifier"))
    return loss


def read_class_logits(trace: Trace) -> Tensor | None:
    """(classes,): the logits of a classifier."""
    model = trace.model
    if model.classifier is None:
        return None
    with ONE_AT_A_TIME, evaluating(model), scaled(model, trace.scales, trace.edits):
        return model.class_logits(trace.ids[None])[0]


def read_class_part(trace: Trace, name: str) -> Tensor | None:
    """(features,): the output of the pooler or of the dense layer before the classes.

    With the name "class_state", what the matrix of the classes reads.
    """
    model = trace.model
    part = model.classifier if name == "class_state" else find_part(model, name)
    if part is None or model.classifier is None:
        return None
    tensor = _output_of(part, lambda: read_class_logits(trace), of_input=name == "class_state")
    return None if tensor is None else tensor[0]


def _output_of(part: nn.Module, run: Callable[[], Any], *, of_input: bool = False) -> Tensor | None:
    """What a part gives, or reads, while something runs; None if it is not called."""
    tensors: list[Tensor] = []

    def record(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensors.append(inputs[0] if of_input else output)

    with ONE_AT_A_TIME:
        handle = part.register_forward_hook(record)
        try:
            run()
        finally:
            handle.remove()
    return tensors[0] if tensors else None


def read_class_probabilities(trace: Trace) -> Tensor | None:
    """(classes,): their softmax."""
    logits = read_class_logits(trace)
    return None if logits is None else torch.softmax(widen(logits), dim=-1)


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
        return int(trace.ids[token + 1]), message("outputs.which-came-next")
    return int(trace.logits_at(token).argmax()), message("word.the-likeliest")


def mask_or(trace: Trace, token: int) -> int:
    """The first mask if the last token was selected and there is a mask; else the token itself."""
    masks = trace.sentence.masks
    return masks[0] if masks and token == len(trace.ids) - 1 else token


def explain_no_loss(trace: Trace) -> str | None:
    """Why no token of a trace has a loss; None if they have."""
    if trace.loss is not None:
        return None
    if trace.model.classifier is not None:
        return message("outputs.this-model-names-the-class")
    if not trace.model.has_head:
        return message("outputs.this-model-has-no-head")
    if trace.model.decoder is None:
        return message("outputs.an-encoder-sees-every-token")
    return message("outputs.one-token-alone-has-no")


def _check_head(trace: Trace) -> None:
    _ = trace.model.head_weight  # refuses a model without one
