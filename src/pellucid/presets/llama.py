"""Llama 2.

Source: Touvron et al. 2023, "Llama 2: Open Foundation and Fine-Tuned Chat Models", section 2.2
(AdamW with betas .9 and .95, eps 1e-5, weight decay .1, clipping at 1, cosine to a tenth after
2,000 steps of warm-up, batches of 4M tokens, 2T tokens) and the released checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import (
    AdamW,
    BytePairs,
    Cosine,
    Embedding,
    GatedMLP,
    Initialisation,
    MultiHead,
    Normal,
    PreNorm,
    RMSNorm,
    Rotary,
    Stack,
    Tokens,
    Transformer,
)
from pellucid.presets.gpt2 import GPT2

LLAMA2_7B = replace(
    GPT2,
    text=replace(GPT2.text, tokenizer=BytePairs(vocab_size=32_000)),
    model=Transformer(
        vocab_size=32_000,
        context_length=4096,
        d_model=4096,
        embedding=Embedding(tied=False, scaled=False),
        decoder=Stack(
            n_layers=32,
            positions=Rotary(base=10_000.0),
            attention=MultiHead(
                n_heads=32,
                n_kv_heads=32,
                d_head=128,
                qkv_bias=False,
                out_bias=False,
                qk_norm=None,
                dropout=0.0,
            ),
            feed_forward=GatedMLP(d_ff=11_008, activation="silu", bias=False),
            norm=RMSNorm(eps=1e-5),
            residual=PreNorm(),
            final_norm=True,
            dropout=0.0,
        ),
        initialisation=Initialisation(
            weights=Normal(std=0.02), embedding_std=0.02, outputs="plain"
        ),
    ),
    optimiser=AdamW(learning_rate=3e-4, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1),
    schedule=Cosine(warm_up=0.004, final=0.1),
    training=replace(
        GPT2.training,
        budget=Tokens(count=2_000_000_000_000),
        batch_size=1024,
        accumulation=1024,
    ),
)
