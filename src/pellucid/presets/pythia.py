"""Pythia: GPT-NeoX's architecture in several sizes, all trained on the same text in the same order.

Architecture: Biderman et al. 2023, "Pythia: A Suite for Analyzing Large Language Models Across
Training and Scaling", section 2 and table 1, and the released configurations: attention and
feed-forward side by side, a quarter of each head's features turned, 50,304 rows of vocabulary.

Recipe: the learning rates of table 1, and the released configurations: AdamW with betas .9 and .95
and weight decay .1, clipping at 1, 143,000 steps of 1,024 sequences, cosine to a tenth after a
hundredth of warm-up; first weights normal with standard deviation sqrt(2 / (5 d_model)). Their
first weights of the output projections are 2 / (n_layers sqrt(d_model)), which is not here: they
are scaled by depth instead.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import (
    MLP,
    AdamW,
    BytePairs,
    Cosine,
    Embedding,
    Initialisation,
    LayerNorm,
    MultiHead,
    Normal,
    Parallel,
    Rotary,
    Run,
    Stack,
    Steps,
    Transformer,
)
from pellucid.presets.gpt2 import GPT2


def _pythia(*, n_layers: int, n_heads: int, d_model: int, learning_rate: float) -> Run:
    d_head = d_model // n_heads
    std = (2 / (5 * d_model)) ** 0.5
    return replace(
        GPT2,
        text=replace(GPT2.text, tokenizer=BytePairs(vocab_size=50_304)),
        model=Transformer(
            vocab_size=50_304,
            context_length=2048,
            d_model=d_model,
            embedding=Embedding(tied=False, scaled=False),
            decoder=Stack(
                n_layers=n_layers,
                positions=Rotary(base=10_000.0, n_features=d_head // 4),
                attention=MultiHead(
                    n_heads=n_heads,
                    n_kv_heads=n_heads,
                    d_head=d_head,
                    qkv_bias=True,
                    out_bias=True,
                    qk_norm=None,
                    dropout=0.0,
                ),
                feed_forward=MLP(d_ff=4 * d_model, activation="gelu", bias=True),
                norm=LayerNorm(eps=1e-5, bias=True),
                residual=Parallel(),
                final_norm=True,
                dropout=0.0,
            ),
            initialisation=Initialisation(
                weights=Normal(std=std), embedding_std=std, outputs="depth_scaled"
            ),
        ),
        optimiser=AdamW(learning_rate=learning_rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
        schedule=Cosine(warm_up=0.01, final=0.1),
        training=replace(
            GPT2.training, budget=Steps(count=143_000), batch_size=1024, accumulation=64
        ),
    )


PYTHIA_70M = _pythia(n_layers=6, n_heads=8, d_model=512, learning_rate=1e-3)
PYTHIA_160M = _pythia(n_layers=12, n_heads=12, d_model=768, learning_rate=6e-4)
PYTHIA_410M = _pythia(n_layers=24, n_heads=16, d_model=1024, learning_rate=3e-4)
PYTHIA_1B = _pythia(n_layers=16, n_heads=8, d_model=2048, learning_rate=3e-4)
