"""`nano`: the default. From nothing to text that reads like documentation in minutes on a laptop.

The recipe was chosen by measurement; benchmarks/results holds the runs.
"""

from __future__ import annotations

from pellucid.config import (
    MLP,
    AdamW,
    BytePairs,
    Embedding,
    Initialisation,
    LayerNorm,
    Linear,
    MultiHead,
    Muon,
    NextToken,
    Normal,
    PreNorm,
    Rotary,
    Run,
    Stack,
    StandardLibrary,
    Steps,
    Text,
    Training,
    Transformer,
)

NANO = Run(
    seed=1337,
    text=Text(
        corpus=StandardLibrary(),
        tokenizer=BytePairs(vocab_size=4096),
        held_out=0.05,
        drop_duplicates=False,
    ),
    model=Transformer(
        vocab_size=None,
        context_length=256,
        d_model=128,
        embedding=Embedding(tied=True, scaled=False),
        decoder=Stack(
            n_layers=4,
            positions=Rotary(base=10_000.0),
            attention=MultiHead(
                n_heads=2,
                n_kv_heads=2,
                d_head=64,
                qkv_bias=False,
                out_bias=False,
                qk_norm=None,
                dropout=0.0,
            ),
            feed_forward=MLP(d_ff=512, activation="gelu", bias=False),
            norm=LayerNorm(eps=1e-5, bias=False),
            residual=PreNorm(),
            final_norm=True,
            dropout=0.1,
        ),
        initialisation=Initialisation(weights=Normal(std=0.05), embedding_std=0.05, outputs="zero"),
    ),
    objective=NextToken(label_smoothing=0.0, z_loss=0.0),
    optimiser=Muon(
        learning_rate=0.03,
        momentum=0.95,
        weight_decay=0.1,
        newton_schulz_steps=5,
        rest=AdamW(learning_rate=0.015, betas=(0.9, 0.99), eps=1e-10, weight_decay=0.1),
    ),
    schedule=Linear(warm_up=0.02, final=0.0),
    training=Training(
        budget=Steps(count=600),
        batch_size=8,
        accumulation=1,
        clip_norm=None,
        device="auto",
        precision="auto",
        compile="auto",
        log_every=10,
        evaluate_every=200,
        evaluate_tokens=200_000,
        checkpoint_every=100,
        keep_checkpoints=2,
        sentence="",
    ),
)
