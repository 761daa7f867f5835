"""OLMo 2 1B.

Architecture: OLMo Team 2024, "2 OLMo 2 Furious", section 2.1, and the released configuration of
OLMo-2-0425-1B: what a layer writes is normalised, not what it reads; queries and keys are
normalised over all heads at once.

Recipe: its released configuration of the first stage: AdamW at 4e-4 with betas .9 and .95 and
weight decay .1, 8.4B tokens of warm-up, 4T tokens in batches of 512 sequences, clipping at 1, a
z-loss of 1e-5. Its cosine to a tenth was laid out for 5T tokens and left at 4T; here it ends
there. Embeddings did not decay there; here they do.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import (
    AdamW,
    Cosine,
    NextToken,
    OutputNorm,
    RMSNorm,
    Rotary,
)
from pellucid.presets.llama import decoder_model, llama_stack, plain_heads, trained_like_llama

_STACK = replace(
    llama_stack(
        n_layers=16,
        positions=Rotary(base=500_000.0),
        attention=replace(
            plain_heads(16, 16, 128), qk_norm=RMSNorm(eps=1e-6), qk_norm_over="all_heads"
        ),
        d_ff=8192,
        eps=1e-6,
    ),
    residual=OutputNorm(),
)
_LIKE_LLAMA = trained_like_llama(
    decoder_model(_STACK, vocab_size=100_352, context_length=4096, d_model=2048, tied=False),
    tokens=4_000_000_000_000,
)

OLMO2_1B = replace(
    _LIKE_LLAMA,
    objective=NextToken(label_smoothing=0.0, z_loss=1e-5),
    optimiser=AdamW(learning_rate=4e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
    schedule=Cosine(warm_up=0.0021, final=0.1),
    training=replace(_LIKE_LLAMA.training, batch_size=512, accumulation=128),
)
