"""Llama 2, 3 and 3.2.

Llama 2: Touvron et al. 2023, "Llama 2: Open Foundation and Fine-Tuned Chat Models", section 2.2
(AdamW with betas .9 and .95, eps 1e-5, weight decay .1, clipping at 1, cosine to a tenth after
2,000 steps of warm-up, batches of 4M tokens, 2T tokens) and the released checkpoint.

Llama 3 8B: Grattafiori et al. 2024, "The Llama 3 Herd of Models", table 3, and the released
checkpoint of Meta-Llama-3-8B (8,192 tokens of context); 15T tokens. 3.2 1B: the released
checkpoint of Llama-3.2-1B, whose angles are scaled to 131,072 tokens; 9T tokens, by its model card
(it was pruned from a larger model and taught by others, which is not here). The rest of their
recipe is Llama 2's.
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
    Llama3Scaling,
    MultiHead,
    Normal,
    PreNorm,
    RMSNorm,
    Rotary,
    Run,
    Stack,
    Tokens,
    Transformer,
)
from pellucid.presets.gpt2 import GPT2


def plain_heads(n_heads: int, n_kv_heads: int, d_head: int) -> MultiHead:
    """Attention without biases, norms and dropout."""
    return MultiHead(
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        qkv_bias=False,
        out_bias=False,
        qk_norm=None,
        dropout=0.0,
    )


def llama_stack(
    *, n_layers: int, positions: Rotary, attention: MultiHead, d_ff: int, eps: float
) -> Stack:
    """Llama's block, which many have taken over: pre-norm, RMSNorm, gated SiLU, no biases."""
    return Stack(
        n_layers=n_layers,
        positions=positions,
        attention=attention,
        feed_forward=GatedMLP(d_ff=d_ff, activation="silu", bias=False),
        norm=RMSNorm(eps=eps),
        residual=PreNorm(),
        final_norm=True,
        dropout=0.0,
    )


def decoder_model(
    decoder: Stack, *, vocab_size: int, context_length: int, d_model: int, tied: bool
) -> Transformer:
    """A language model of one stack, its weights drawn with a standard deviation of .02."""
    return Transformer(
        vocab_size=vocab_size,
        context_length=context_length,
        d_model=d_model,
        embedding=Embedding(tied=tied, scaled=False),
        decoder=decoder,
        initialisation=Initialisation(
            weights=Normal(std=0.02), embedding_std=0.02, outputs="plain"
        ),
    )


def trained_like_llama(model: Transformer, *, tokens: int) -> Run:
    """A run of `model` by Llama 2's recipe: batches of 4M tokens, however long its context."""
    sequences = 2**22 // model.context_length
    return replace(
        GPT2,
        text=replace(GPT2.text, tokenizer=BytePairs(vocab_size=model.rows)),
        model=model,
        optimiser=AdamW(learning_rate=3e-4, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1),
        schedule=Cosine(warm_up=0.004, final=0.1),
        training=replace(
            GPT2.training,
            budget=Tokens(count=tokens),
            batch_size=sequences,
            accumulation=sequences,
        ),
    )


LLAMA2_7B = trained_like_llama(
    decoder_model(
        llama_stack(
            n_layers=32,
            positions=Rotary(base=10_000.0),
            attention=plain_heads(32, 32, 128),
            d_ff=11_008,
            eps=1e-5,
        ),
        vocab_size=32_000,
        context_length=4096,
        d_model=4096,
        tied=False,
    ),
    tokens=2_000_000_000_000,
)
LLAMA3_8B = trained_like_llama(
    decoder_model(
        llama_stack(
            n_layers=32,
            positions=Rotary(base=500_000.0),
            attention=plain_heads(32, 8, 128),
            d_ff=14_336,
            eps=1e-5,
        ),
        vocab_size=128_256,
        context_length=8192,
        d_model=4096,
        tied=False,
    ),
    tokens=15_000_000_000_000,
)
LLAMA3_2_1B = trained_like_llama(
    decoder_model(
        llama_stack(
            n_layers=16,
            positions=Rotary(
                base=500_000.0,
                scaling=Llama3Scaling(
                    factor=32.0,
                    low_frequency_factor=1.0,
                    high_frequency_factor=4.0,
                    original_context_length=8192,
                ),
            ),
            attention=plain_heads(32, 8, 64),
            d_ff=8192,
            eps=1e-5,
        ),
        vocab_size=128_256,
        context_length=131_072,
        d_model=2048,
        tied=True,
    ),
    tokens=9_000_000_000_000,
)
