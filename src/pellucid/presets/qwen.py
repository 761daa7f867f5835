"""Qwen2 and Qwen3, the small ones.

Qwen2: Yang et al. 2024, "Qwen2 Technical Report", table 1, and the released checkpoint of
Qwen2-0.5B (biases on queries, keys and values; 131,072 tokens of context); 12T tokens. Qwen3: Yang
et al. 2025, "Qwen3 Technical Report", table 1, and the released checkpoints of Qwen3-0.6B and
Qwen3-1.7B (a norm over each head's queries and keys instead of biases; 40,960 tokens of context);
36T tokens. The reports give no learning rates: the rest of the recipe is Llama 2's.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import MultiHead, RMSNorm, Rotary, Run
from pellucid.presets.llama import decoder_model, llama_stack, plain_heads, trained_like_llama


def _qwen(
    attention: MultiHead,
    *,
    n_layers: int,
    d_model: int,
    d_ff: int,
    context_length: int,
    tokens: int,
) -> Run:
    stack = llama_stack(
        n_layers=n_layers,
        positions=Rotary(base=1_000_000.0),
        attention=attention,
        d_ff=d_ff,
        eps=1e-6,
    )
    model = decoder_model(
        stack, vocab_size=151_936, context_length=context_length, d_model=d_model, tied=True
    )
    return trained_like_llama(model, tokens=tokens)


def _qwen3(*, d_model: int, d_ff: int) -> Run:
    return _qwen(
        replace(plain_heads(16, 8, 128), qk_norm=RMSNorm(eps=1e-6)),
        n_layers=28,
        d_model=d_model,
        d_ff=d_ff,
        context_length=40_960,
        tokens=36_000_000_000_000,
    )


QWEN2_0_5B = _qwen(
    replace(plain_heads(14, 2, 64), qkv_bias=True),
    n_layers=24,
    d_model=896,
    d_ff=4864,
    context_length=131_072,
    tokens=12_000_000_000_000,
)
QWEN3_0_6B = _qwen3(d_model=1024, d_ff=3072)
QWEN3_1_7B = _qwen3(d_model=2048, d_ff=6144)
