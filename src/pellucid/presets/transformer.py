"""The original Transformer, for translation.

Architecture: Vaswani et al. 2017, "Attention Is All You Need", section 3 and table 3: base (65
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
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import (
    MLP,
    Adam,
    BytePairs,
    Cosine,
    Embedding,
    Initialisation,
    LayerNorm,
    MultiHead,
    PostNorm,
    Run,
    Seq2Seq,
    Sinusoidal,
    Stack,
    Steps,
    Transformer,
    Xavier,
)
from pellucid.presets.gpt2 import GPT2


def _transformer(*, n_heads: int, d_model: int, dropout: float, steps: int) -> Run:
    attention = MultiHead(
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_head=64,
        qkv_bias=False,
        out_bias=False,
        qk_norm=None,
        dropout=0.0,
    )
    encoder = Stack(
        n_layers=6,
        positions=Sinusoidal(base=10_000.0),
        attention=attention,
        feed_forward=MLP(d_ff=4 * d_model, activation="relu", bias=True),
        norm=LayerNorm(eps=1e-6, bias=True),
        residual=PostNorm(),
        final_norm=False,
        dropout=dropout,
    )
    return replace(
        GPT2,
        text=replace(GPT2.text, tokenizer=BytePairs(vocab_size=37_000)),
        model=Transformer(
            vocab_size=37_000,
            context_length=256,
            d_model=d_model,
            embedding=Embedding(tied=True, scaled=True),
            encoder=encoder,
            decoder=replace(encoder, cross_attention=attention),
            initialisation=Initialisation(
                weights=Xavier(), embedding_std=d_model**-0.5, outputs="plain"
            ),
        ),
        objective=Seq2Seq(label_smoothing=0.1),
        optimiser=Adam(learning_rate=(4000 * d_model) ** -0.5, betas=(0.9, 0.98), eps=1e-9, l2=0.0),
        schedule=Cosine(warm_up=4000 / steps, final=(4000 / steps) ** 0.5),
        training=replace(
            GPT2.training,
            budget=Steps(count=steps),
            batch_size=98,
            accumulation=49,
            clip_norm=None,
        ),
    )


TRANSFORMER_BASE = _transformer(n_heads=8, d_model=512, dropout=0.1, steps=100_000)
TRANSFORMER_BIG = _transformer(n_heads=16, d_model=1024, dropout=0.3, steps=300_000)
