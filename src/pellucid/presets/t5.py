"""T5: text to text, an encoder and a decoder.

Architecture: Raffel et al. 2019, "Exploring the Limits of Transfer Learning with a Unified
Text-to-Text Transformer", section 2.1, and the released configurations (`t5.1.0.small`,
`t5.1.0.base`, `t5.1.1.small`, `t5.1.1.base`; 32,128 rows of vocabulary; 32 buckets up to a
distance of 128; epsilon 1e-6). 1.1 has gated feed-forwards, a head of its own and no dropout.
Scores are not divided by sqrt(d_head); where head and embedding are one matrix, states are divided
by sqrt(d_model) instead.

Recipe: section 3.1: 2^19 steps of 128 sequences of 512 tokens, dropout .1 (1.1: none). The paper
trains with Adafactor and an inverse square root of the step. pellucid has neither: it uses BERT's
AdamW and straight line instead, and Xavier for the first weights.

They were trained to write the spans that are left out: 15% of the tokens, three on average
(section 3.1.4), each with one of a hundred sentinel tokens.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import (
    MLP,
    AdamW,
    BucketedBias,
    BytePairs,
    Embedding,
    FeedForward,
    GatedMLP,
    Initialisation,
    LanguageHead,
    Linear,
    MultiHead,
    PreNorm,
    RMSNorm,
    Run,
    SpanCorruption,
    Stack,
    Steps,
    Transformer,
    Xavier,
)
from pellucid.presets.gpt2 import GPT2


def _t5(*, n_layers: int, n_heads: int, d_model: int, feed_forward: FeedForward) -> Run:
    first = isinstance(feed_forward, MLP)
    dropout = 0.1 if first else 0.0
    attention = MultiHead(
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_head=64,
        qkv_bias=False,
        out_bias=False,
        qk_norm=None,
        dropout=dropout,
        scale=1.0,
    )
    encoder = Stack(
        n_layers=n_layers,
        positions=BucketedBias(n_buckets=32, max_distance=128),
        attention=attention,
        feed_forward=feed_forward,
        norm=RMSNorm(eps=1e-6),
        residual=PreNorm(),
        final_norm=True,
        dropout=dropout,
    )
    return replace(
        GPT2,
        text=replace(
            GPT2.text,
            tokenizer=BytePairs(vocab_size=32_000),
            special=("sentinels",),
        ),
        objective=SpanCorruption(corrupted=0.15, mean_span=3.0),
        model=Transformer(
            vocab_size=32_128,
            context_length=512,
            d_model=d_model,
            embedding=Embedding(tied=first, scaled=False),
            encoder=encoder,
            decoder=replace(encoder, cross_attention=attention),
            head=LanguageHead(scaled=first),
            initialisation=Initialisation(weights=Xavier(), embedding_std=1.0, outputs="plain"),
        ),
        optimiser=AdamW(learning_rate=1e-4, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01),
        schedule=Linear(warm_up=0.01, final=0.0),
        training=replace(GPT2.training, budget=Steps(count=2**19), batch_size=128, accumulation=16),
    )


def _plain(d_ff: int) -> MLP:
    return MLP(d_ff=d_ff, activation="relu", bias=False)


def _gated(d_ff: int) -> GatedMLP:
    return GatedMLP(d_ff=d_ff, activation="gelu_tanh", bias=False)


T5_SMALL = _t5(n_layers=6, n_heads=8, d_model=512, feed_forward=_plain(2048))
T5_BASE = _t5(n_layers=12, n_heads=12, d_model=768, feed_forward=_plain(3072))
T5_1_1_SMALL = _t5(n_layers=8, n_heads=6, d_model=512, feed_forward=_gated(1024))
T5_1_1_BASE = _t5(n_layers=12, n_heads=12, d_model=768, feed_forward=_gated(2048))
