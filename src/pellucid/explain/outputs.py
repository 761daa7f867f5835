"""What stands behind the last state: logits, probabilities, surprisal, loss, or those of classes.

Comes in: a trace. Goes out: the model's own tensors at the addresses of its end, or why there are
none. It does not know what stands before.

`surprisal` is in nats, of the token that came: row t is that of token t + 1, so there is one less
than there are tokens. `loss` is their mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.explain.addresses import Shape
from pellucid.explain.forward_pass import ONE_AT_A_TIME, evaluating, scaled

if TYPE_CHECKING:
    from pellucid.explain.tracing import Trace


def shapes(trace: Trace) -> dict[str, Shape]:
    """The addresses there are, with their shapes."""
    time, width = trace.last.shape
    model = trace.model
    if model.classifier is not None:
        n_classes = model.classifier.out_features
        return {"class_logits": (n_classes,), "class_probabilities": (n_classes,)}
    if not model.has_head:
        return {}
    vocab = model.head_weight.shape[0]
    named_shapes: dict[str, Shape] = {"hidden": (time, width)}
    named_shapes |= {"logits": (time, vocab), "probabilities": (time, vocab)}
    if trace.predicts and time > 1:
        named_shapes |= {"surprisal": (time - 1,), "loss": ()}
    return named_shapes


def of(trace: Trace, address: str) -> Tensor | None:
    """The tensor at one of them; None where there is no such address.

    Raises:
        PellucidError: this model has none; says why.
    """
    if address not in shapes(trace):
        _refuse(trace, address)
        return None
    model = trace.model
    match address:
        case "class_logits" | "class_probabilities":
            with ONE_AT_A_TIME, evaluating(model), scaled(model, trace.scales):
                logits = model.class_logits(trace.ids[None])[0]
            return logits if address == "class_logits" else torch.softmax(wide(logits), dim=-1)
        case "hidden":
            return model.readable(trace.last)
        case "logits":
            return model.logits(model.readable(trace.last))
        case "probabilities":
            return torch.softmax(wide(trace["logits"]), dim=-1)
        case "surprisal":
            return F.cross_entropy(wide(trace["logits"][:-1]), trace.ids[1:], reduction="none")
        case _:
            return loss_of(trace["logits"], trace.ids)


def loss_of(logits: Tensor, ids: Tensor) -> Tensor:
    """The mean of -log p of each token that came, in nats; `logits` (time, vocab), `ids` (time,).

    Source:
        Bengio et al. 2003, "A Neural Probabilistic Language Model", section 2.
    """
    return F.cross_entropy(wide(logits[:-1]), ids[1:])


def wide(x: Tensor) -> Tensor:
    """In float32 at least: what is exponentiated and summed."""
    return x if x.dtype == torch.float64 else x.float()


def _refuse(trace: Trace, address: str) -> None:
    if address in ("hidden", "logits", "probabilities", "surprisal", "loss"):
        _ = trace.model.head_weight  # for its refusal
    if address in ("surprisal", "loss"):
        raise PellucidError(
            "there is no surprisal to show: an encoder sees every token and predicts none from "
            "those before it (look at probabilities where a word is masked), and a text of one "
            "token has no next one"
        )
