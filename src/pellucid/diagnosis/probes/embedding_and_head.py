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
    tables = [t for t in tables if t.shape[0] >= subject.vocab]
    heads = [h for h in heads if h.shape[0] >= subject.vocab and tables]
    heads = [h for h in heads if h.shape[1] == tables[0].shape[1]]
    return (tables[0], heads[-1]) if tables and heads else None
