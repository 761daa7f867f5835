"""The original Transformer, for translation, and T5, text to text.

Transformer: Vaswani et al. 2017, "Attention Is All You Need", section 3 and table 3: base (65
million parameters by the paper's rounding) and big (213 million), with one vocabulary of about
37,000 pairs shared by both languages (section 5.1), embeddings shared with the head and scaled by
sqrt(d_model) (section 3.4). The rest is from its released code
(tensor2tensor, `transformer_base_v1`): no biases in attention, epsilon 1e-6 in the norms, texts of
at most 256 tokens, embeddings drawn with standard deviation 1 / sqrt(d_model).

Recipe: section 5.3 and 5.4: Adam with betas .9 and .98 and eps 1e-9, label smoothing .1, 4,000
steps of warm-up to (4000 d_model)^-0.5, batches of about 25,000 tokens in each language, 100,000
steps (base) and 300,000 (big). The paper then falls with the inverse square root of the step;
there is no such schedule here, so a cosine falls to the same last value, sqrt(4000 / steps) of the
peak.

T5: Raffel et al. 2019, "Exploring the Limits of Transfer Learning with a Unified
Text-to-Text Transformer", section 2.1, and the released configurations (`t5.1.0.small`,
`t5.1.0.base`, `t5.1.1.small`, `t5.1.1.base`; 32,128 rows of vocabulary; 32 buckets up to a
distance of 128; epsilon 1e-6). 1.1 has gated feed-forwards, a head of its own and no dropout.
Scores are not divided by sqrt(d_head); where head and embedding are one matrix, states are divided
by sqrt(d_model) instead.

Recipe: section 3.1: 2^19 steps of 128 sequences of 512 tokens, dropout .1 (1.1: none). The paper
trains with Adafactor and an inverse square root of the step. pellucid has neither: it uses BERT's
AdamW and straight line instead, and Xavier for the first weights.

T5 was trained to write the spans that are left out: 15% of the tokens, three on average
(section 3.1.4), each with one of a hundred sentinel tokens.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.presets.bert import BERT_OPTIMISER
from pellucid.presets.recipe import heads, published


def _transformer(n_heads: int, d_model: int, dropout: float, steps: int) -> config.Run:
    attention = heads(n_heads, n_heads, 64)
    encoder = config.Stack(
        n_layers=6,
        positions=config.Sinusoidal(base=10_000.0),
        attention=attention,
        feed_forward=config.MLP(d_ff=4 * d_model, activation="relu", bias=True),
        norm=config.LayerNorm(eps=1e-6, bias=True),
        residual=config.PostNorm(),
        final_norm=False,
        dropout=dropout,
    )
    model = config.Transformer(
        vocab_size=37_000,
        context_length=256,
        d_model=d_model,
        embedding=config.Embedding(tied=True, scaled=True),
        encoder=encoder,
        decoder=replace(encoder, cross_attention=attention),
        initialisation=config.Initialisation(
            weights=config.Xavier(), embedding_std=d_model**-0.5, outputs="plain"
        ),
    )
    return published(
        model,
        config.Adam(learning_rate=(4000 * d_model) ** -0.5, betas=(0.9, 0.98), eps=1e-9, l2=0.0),
        config.Cosine(warm_up=4000 / steps, final=(4000 / steps) ** 0.5),
        config.Steps(count=steps),
        batch=(98, 49),
        objective=config.Seq2Seq(label_smoothing=0.1),
        clip_norm=None,
    )


def _t5(n_layers: int, n_heads: int, d_model: int, feed_forward: config.FeedForward) -> config.Run:
    first = isinstance(feed_forward, config.MLP)
    dropout = 0.1 if first else 0.0
    attention = replace(heads(n_heads, n_heads, 64, dropout=dropout), scale=1.0)
    encoder = config.Stack(
        n_layers=n_layers,
        positions=config.BucketedBias(n_buckets=32, max_distance=128),
        attention=attention,
        feed_forward=feed_forward,
        norm=config.RMSNorm(eps=1e-6),
        residual=config.PreNorm(),
        final_norm=True,
        dropout=dropout,
    )
    model = config.Transformer(
        vocab_size=32_128,
        context_length=512,
        d_model=d_model,
        embedding=config.Embedding(tied=first, scaled=False),
        encoder=encoder,
        decoder=replace(encoder, cross_attention=attention),
        head=config.LanguageHead(scaled=first),
        initialisation=config.Initialisation(
            weights=config.Xavier(), embedding_std=1.0, outputs="plain"
        ),
    )
    return published(
        model,
        BERT_OPTIMISER,
        config.Linear(warm_up=0.01, final=0.0),
        config.Steps(count=2**19),
        batch=(128, 16),
        objective=config.SpanCorruption(corrupted=0.15, mean_span=3.0),
        tokenizer=config.BytePairs(vocab_size=32_000),
        special=("sentinels",),
    )


def _plain(d_ff: int) -> config.MLP:
    return config.MLP(d_ff=d_ff, activation="relu", bias=False)


def _gated(d_ff: int) -> config.GatedMLP:
    return config.GatedMLP(d_ff=d_ff, activation="gelu_tanh", bias=False)


TRANSFORMER = {
    "transformer-base": _transformer(8, 512, 0.1, 100_000),
    "transformer-big": _transformer(16, 1024, 0.3, 300_000),
}
T5 = {
    "t5-small": _t5(6, 8, 512, _plain(2048)),
    "t5-base": _t5(12, 12, 768, _plain(3072)),
    "t5-1.1-small": _t5(8, 6, 512, _gated(1024)),
    "t5-1.1-base": _t5(12, 12, 768, _gated(2048)),
}
