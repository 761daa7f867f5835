"""A small model of each architecture of llama.cpp."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pellucid import config
from support.exported import small_preset

#: One preset of each architecture, small, and with widths that divide into blocks of q8_0.
MODELS = {
    "gptneox": "nano",
    "gpt2": "gpt2",
    "llama": "llama3.2-1b",
    "qwen2": "qwen2-0.5b",
    "qwen3": "qwen3-0.6b",
    "olmo2": "olmo2-1b",
    "gemma2": "gemma2-2b",
    "t5": "t5-1.1-small",
    "bert": "minilm-l6",
}


def tiny(architecture: str) -> config.Transformer:
    """A model of the architecture that is small in every way."""
    model = small_preset(MODELS[architecture])
    stacks = {
        side: replace(
            stack,
            attention=_narrow(stack.attention),
            cross_attention=None if stack.cross_attention is None else _narrow(stack.attention),
            feed_forward=replace(stack.feed_forward, d_ff=96),
        )
        for side, stack in (("encoder", model.encoder), ("decoder", model.decoder))
        if stack is not None
    }
    return replace(model, d_model=64, **stacks)


def _narrow(attention: Any) -> Any:
    if isinstance(attention, config.Alternating):
        return replace(attention, layers=tuple(map(_narrow, attention.layers)))
    n_kv_heads = 4 if attention.n_heads == attention.n_kv_heads else 2
    window = None if attention.window is None else 8
    scale = attention.scale and (1.0 if attention.scale == 1.0 else 0.5)
    return replace(
        attention, n_heads=4, n_kv_heads=n_kv_heads, d_head=16, window=window, scale=scale
    )
