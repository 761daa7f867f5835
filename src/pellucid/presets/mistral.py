"""Mistral 7B v0.1.

Architecture: Jiang et al. 2023, "Mistral 7B", section 2 and table 1 (a window of 4,096, 8
key/value heads), and the released checkpoint of Mistral-7B-v0.1 (32,768 tokens of context). The
paper gives no recipe: it is Llama 2's.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import Rotary
from pellucid.presets.llama import decoder_model, llama_stack, plain_heads, trained_like_llama

MISTRAL_7B = trained_like_llama(
    decoder_model(
        llama_stack(
            n_layers=32,
            positions=Rotary(base=10_000.0),
            attention=replace(plain_heads(32, 8, 128), window=4096),
            d_ff=14_336,
            eps=1e-5,
        ),
        vocab_size=32_000,
        context_length=32_768,
        d_model=4096,
        tied=False,
    ),
    tokens=2_000_000_000_000,
)
