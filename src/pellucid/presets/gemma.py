"""Gemma 2 2B.

Architecture: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size",
section 2 and table 1, and the released checkpoint of gemma-2-2b. Every other layer, from the
first, has a window of 4,096. Each layer has a norm before and after it, with a gain of 1 + the
weight. Scores are capped at 50 and logits at 30; queries are scaled by 256^-0.5. Embeddings are
scaled and shared with the head. The model saw 2T tokens and learned from a larger model, which
this recipe does not include; the rest of the recipe is Llama 2's.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import (
    Alternating,
    Embedding,
    GatedMLP,
    LanguageHead,
    RMSNorm,
    Rotary,
    SandwichNorm,
    Stack,
)
from pellucid.presets.llama import decoder_model, plain_heads, trained_like_llama

_GLOBAL = replace(plain_heads(8, 4, 256), scale=256**-0.5, soft_cap=50.0)
_STACK = Stack(
    n_layers=26,
    positions=Rotary(base=10_000.0),
    attention=Alternating(layers=(replace(_GLOBAL, window=4096), _GLOBAL)),
    feed_forward=GatedMLP(d_ff=9216, activation="gelu_tanh", bias=False),
    norm=RMSNorm(eps=1e-6, unit_offset=True),
    residual=SandwichNorm(),
    final_norm=True,
    dropout=0.0,
)

GEMMA2_2B = trained_like_llama(
    replace(
        decoder_model(_STACK, vocab_size=256_000, context_length=8192, d_model=2304, tied=True),
        embedding=Embedding(tied=True, scaled=True),
        head=LanguageHead(soft_cap=30.0),
    ),
    tokens=2_000_000_000_000,
)
