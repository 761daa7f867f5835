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
    # a table of positions may have more rows than there are tokens, and come first
    tables = _fitting(tables, adapter.vocab)
    heads = _fitting(heads, adapter.vocab) if tables else []
    heads = [h for h in heads if h.shape[1] == tables[0].shape[1]]
    return (tables[0], heads[-1]) if tables and heads else None


def _fitting(weights: list[Tensor], vocab: int) -> list[Tensor]:
    """Those with a row for each token; if there are none, those with more."""
    exact = [weight for weight in weights if weight.shape[0] == vocab]
    return exact or [weight for weight in weights if weight.shape[0] > vocab]
