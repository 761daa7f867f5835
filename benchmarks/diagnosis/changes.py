"""Ways to exchange a part of a model, which faults are made of.

Comes in: a training. Goes out: nothing; the training's own modules are changed, and no class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.diagnosis.training import Training


def blocks(t: Training, selection: str) -> list[Any]:
    """The blocks of the stack that the head reads: all, or one of them."""
    every = list(t.model.stack.blocks)
    selections = {"first": every[:1], "middle": every[len(every) // 2 :][:1], "last": every[-1:]}
    return selections.get(selection, every)


def attentions(t: Training, selection: str) -> list[Any]:
    """The attention of some blocks."""
    return [block.attention for block in blocks(t, selection)]


def wrap_forward(module: Any, change: Callable[..., Any]) -> None:
    """Replace a module's forward by `change(forward, *arguments)`."""
    forward = module.forward
    module.forward = lambda *arguments: change(forward, *arguments)


def order(time: int, diagonal: int = 0) -> Tensor:
    """True where a key is seen by a query."""
    return torch.ones(time, time, dtype=torch.bool).tril(diagonal)


def change_view(t: Training, selection: str, change: Callable[[Any, int], Any]) -> None:
    """Let some blocks look at the rows through another view."""

    def forward_with_view(forward: Any, x: Tensor, positions: Any, view: Any, cache: Any) -> Tensor:
        return forward(x, positions, change(view, x.shape[1]), cache)

    for attention in attentions(t, selection):
        wrap_forward(attention, forward_with_view)


def no_causal_mask(view: Any, time: int) -> Any:
    """No causal mask."""
    return view._replace(causal=False, mask=None)


def one_too_many(view: Any, time: int) -> Any:
    """Each token sees the one after it."""
    return view._replace(causal=False, mask=order(time, 1))


def padding_forgotten(view: Any, time: int) -> Any:
    """Order and documents alone."""
    mask = order(time) if view.forwards else torch.ones(time, time, dtype=torch.bool)
    if view.documents is not None:
        mask = mask & (view.documents[:, None, :, None] == view.documents[:, None, None, :])
    return view._replace(causal=False, mask=mask)


def documents_forgotten(view: Any, time: int) -> Any:
    """Order and padding alone."""
    mask = order(time) if view.forwards else torch.ones(time, time, dtype=torch.bool)
    if view.padding is not None:
        mask = mask & view.padding[:, None, None, :]
    return view._replace(causal=False, mask=mask)


def heads_not_transposed(t: Training, selection: str) -> None:
    """(batch, time, heads, d) read as (batch, heads, time, d)."""
    for attention in attentions(t, selection):

        def forward(x: Tensor, *_: Any, attention_layer: Any = attention) -> Tensor:
            rows, time, _width = x.shape
            groups = attention_layer.n_heads // attention_layer.n_kv_heads
            q = attention_layer.query_norm(
                attention_layer.query(x).view(rows, attention_layer.n_heads, time, -1)
            )
            k = attention_layer.key_norm(
                attention_layer.key(x).view(rows, attention_layer.n_kv_heads, time, -1)
            )
            k = k.repeat_interleave(groups, 1)
            v = (
                attention_layer.value(x)
                .view(rows, attention_layer.n_kv_heads, time, -1)
                .repeat_interleave(groups, 1)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return attention_layer.output(mixed.reshape(rows, time, -1))

        attention.forward = forward


def fill(weight: Tensor, values: Any) -> None:
    """Write into a weight."""
    with torch.no_grad():
        weight.copy_(torch.as_tensor(values).expand_as(weight))
