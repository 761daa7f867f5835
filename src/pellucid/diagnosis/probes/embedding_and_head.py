"""The two ends of a model: the table that ids are looked up in, and the matrix of the head."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.model import Transformer
from pellucid.typed import named_modules


def find_ends(adapter: ModelAdapter) -> tuple[Tensor, Tensor] | None:
    """The token embedding, and the matrix of the head."""
    if not adapter.has_logits:
        return None
    if adapter.family == "pellucid":
        model = cast("Transformer", adapter.model)
        return model.token_embedding.weight, model.head_weight
    modules = named_modules(adapter.model).values()
    tables = [m.weight for m in modules if isinstance(m, nn.Embedding)]
    heads = [m.weight for m in modules if isinstance(m, nn.Linear)]
    tables = [t for t in tables if t.shape[0] >= adapter.vocab]
    heads = [h for h in heads if h.shape[0] >= adapter.vocab and tables]
    heads = [h for h in heads if h.shape[1] == tables[0].shape[1]]
    return (tables[0], heads[-1]) if tables and heads else None
