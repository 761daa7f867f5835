"""GPT-2, and Pythia, which has the architecture of GPT-NeoX.

GPT-2: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", table 2, and the
released checkpoints. The paper gives no recipe; it is the usual one for this size (Brown et al.
2020, appendix B).

Pythia, several sizes that saw the same text in the same order: Biderman et al. 2023, "Pythia: A
Suite for Analyzing Large Language Models Across Training and Scaling", section 2 and table 1, and
the released configurations. Attention and feed-forward run in parallel, a quarter of each head's
features rotates, and the vocabulary has 50,304 rows. Recipe: the learning rates of table 1, and the
released configurations: AdamW with betas .9 and .95 and weight decay .1, clipping at 1, 143,000
steps of 1,024 sequences, cosine to a tenth after a hundredth of warm-up; first weights normal with
standard deviation sqrt(2 / (5 d_model)). Their output projections start with 2 / (n_layers
sqrt(d_model)); here they are scaled by depth instead.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.presets.recipe import (
    LARGE_MODEL_OPTIMISER,
    LARGE_MODEL_SCHEDULE,
    heads,
    normal,
    published,
)


def _gpt2(n_layers: int, n_heads: int, d_model: int, learning_rate: float) -> config.Run:
    model = config.Transformer(
        vocab_size=50_257,
        context_length=1024,
        d_model=d_model,
        embedding=config.Embedding(tied=True, scaled=False),
        decoder=config.Stack(
            n_layers=n_layers,
            positions=config.Learned(),
            attention=heads(n_heads, n_heads, d_model // n_heads, bias=True, dropout=0.1),
            feed_forward=config.MLP(d_ff=4 * d_model, activation="gelu_tanh", bias=True),
            norm=config.LayerNorm(eps=1e-5, bias=True),
            residual=config.PreNorm(),
            final_norm=True,
            dropout=0.1,
        ),
        initialisation=normal(0.02, outputs="depth_scaled"),
    )
    return published(
        model,
        replace(LARGE_MODEL_OPTIMISER, learning_rate=learning_rate),
        LARGE_MODEL_SCHEDULE,
        config.Tokens(count=10_000_000_000),
        batch=(480, 40),
    )


def _pythia(n_layers: int, n_heads: int, d_model: int, learning_rate: float) -> config.Run:
    d_head = d_model // n_heads
    model = config.Transformer(
        vocab_size=50_304,
        context_length=2048,
        d_model=d_model,
        embedding=config.Embedding(tied=False, scaled=False),
        decoder=config.Stack(
            n_layers=n_layers,
            positions=config.Rotary(base=10_000.0, n_features=d_head // 4),
            attention=heads(n_heads, n_heads, d_head, bias=True),
            feed_forward=config.MLP(d_ff=4 * d_model, activation="gelu", bias=True),
            norm=config.LayerNorm(eps=1e-5, bias=True),
            residual=config.Parallel(),
            final_norm=True,
            dropout=0.0,
        ),
        initialisation=normal((2 / (5 * d_model)) ** 0.5, outputs="depth_scaled"),
    )
    return published(
        model,
        replace(LARGE_MODEL_OPTIMISER, learning_rate=learning_rate),
        LARGE_MODEL_SCHEDULE,
        config.Steps(count=143_000),
        batch=(1024, 64),
    )


GPT2 = {
    "gpt2": _gpt2(12, 12, 768, 6e-4),
    "gpt2-medium": _gpt2(24, 16, 1024, 3e-4),
    "gpt2-large": _gpt2(36, 20, 1280, 2.5e-4),
    "gpt2-xl": _gpt2(48, 25, 1600, 2e-4),
}
PYTHIA = {
    "pythia-70m": _pythia(6, 8, 512, 1e-3),
    "pythia-160m": _pythia(12, 12, 768, 6e-4),
    "pythia-410m": _pythia(24, 16, 1024, 3e-4),
    "pythia-1b": _pythia(16, 8, 2048, 3e-4),
}
