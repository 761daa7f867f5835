"""The GPT-2 family.

Architecture: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", table 2,
and the released checkpoints. The recipe is the usual one for this size (Brown et al. 2020,
appendix B: AdamW with betas .9 and .95, weight decay .1, cosine after warm-up), since the paper
gives none.
"""

from __future__ import annotations

from pellucid.config import (
    MLP,
    AdamW,
    BytePairs,
    Cosine,
    Embedding,
    Initialisation,
    LayerNorm,
    Learned,
    MultiHead,
    NextToken,
    Normal,
    PreNorm,
    Run,
    Stack,
    StandardLibrary,
    Text,
    Tokens,
    Training,
    Transformer,
)


def _gpt2(*, n_layers: int, n_heads: int, d_model: int, learning_rate: float) -> Run:
    return Run(
        seed=1337,
        text=Text(
            corpus=StandardLibrary(),
            tokenizer=BytePairs(vocab_size=50_257),
            held_out=0.05,
            drop_duplicates=False,
        ),
        model=Transformer(
            vocab_size=50_257,
            context_length=1024,
            d_model=d_model,
            embedding=Embedding(tied=True, scaled=False),
            decoder=Stack(
                n_layers=n_layers,
                positions=Learned(),
                attention=MultiHead(
                    n_heads=n_heads,
                    n_kv_heads=n_heads,
                    d_head=d_model // n_heads,
                    qkv_bias=True,
                    out_bias=True,
                    qk_norm=None,
                    dropout=0.1,
                ),
                feed_forward=MLP(d_ff=4 * d_model, activation="gelu_tanh", bias=True),
                norm=LayerNorm(eps=1e-5, bias=True),
                residual=PreNorm(),
                final_norm=True,
                dropout=0.1,
            ),
            initialisation=Initialisation(
                weights=Normal(std=0.02), embedding_std=0.02, outputs="depth_scaled"
            ),
        ),
        objective=NextToken(label_smoothing=0.0, z_loss=0.0),
        optimiser=AdamW(learning_rate=learning_rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
        schedule=Cosine(warm_up=0.01, final=0.1),
        training=Training(
            budget=Tokens(count=10_000_000_000),
            batch_size=480,
            accumulation=40,
            clip_norm=1.0,
            device="auto",
            precision="auto",
            compile="auto",
            log_every=10,
            evaluate_every=1000,
            evaluate_tokens=1_000_000,
            checkpoint_every=1000,
            keep_checkpoints=3,
            sentence="",
        ),
    )


GPT2 = _gpt2(n_layers=12, n_heads=12, d_model=768, learning_rate=6e-4)
GPT2_MEDIUM = _gpt2(n_layers=24, n_heads=16, d_model=1024, learning_rate=3e-4)
GPT2_LARGE = _gpt2(n_layers=36, n_heads=20, d_model=1280, learning_rate=2.5e-4)
GPT2_XL = _gpt2(n_layers=48, n_heads=25, d_model=1600, learning_rate=2e-4)
