"""The two ends of a model: the table that ids are looked up in, and the matrix of the head.

Comes in: a `Subject`. Goes out: two tensors, or nothing. It does not know what is asked of them.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from pellucid.diagnosis.model_adapter import Subject
from pellucid.model import Transformer
from pellucid.typed import named_modules


def find_ends(subject: Subject) -> tuple[Tensor, Tensor] | None:
    """The token embedding, and the matrix of the head."""
    if not subject.has_logits:
        return None
    if subject.family == "pellucid":
        model = cast("Transformer", subject.model)
        return model.token_embedding.weight, model.head_weight
    modules = named_modules(subject.model).values()
    tables = [m.weight for m in modules if isinstance(m, nn.Embedding)]
    heads = [m.weight for m in modules if isinstance(m, nn.Linear)]
    # a table of positions may have more rows than there are tokens, and come first
    tables = _fitting(tables, subject.vocab)
    heads = _fitting(heads, subject.vocab) if tables else []
    heads = [h for h in heads if h.shape[1] == tables[0].shape[1]]
    return (tables[0], heads[-1]) if tables and heads else None


def _fitting(weights: list[Tensor], vocab: int) -> list[Tensor]:
    """Those with a row for each token; if there are none, those with more."""
    exact = [weight for weight in weights if weight.shape[0] == vocab]
    return exact or [weight for weight in weights if weight.shape[0] > vocab]
