"""BERT, and the sentence encoder MiniLM-L6 that is built like it.

Architecture: Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers for
Language Understanding", section 3 and the released uncased checkpoints (30,522 word pieces, two
segments, epsilon 1e-12 in the norms, the masked-LM head with its transform and bias, the pooler).
The head for the next sentence is not part of the model here. `minilm-l6` is the released
sentence-transformers/all-MiniLM-L6-v2: 6 layers of 384, no language head, the pooler of its
weights.

Recipe: section 3.1 and appendix A.2: AdamW with betas .9 and .999 and weight decay .01 (eps 1e-6
and clipping at 1 in the released code), 10,000 steps of warm-up to 1e-4 and a straight line to
zero, 1,000,000 steps of 256 sequences, dropout .1. `minilm-l6`: its model card, which gives 2e-5
after 500 steps of warm-up, 100,000 steps of 1,024; what it does not say is BERT's. Its layers were
made with Wang et al. 2020, "MiniLM".

They were trained to fill masked words; their second objective, which of two sentences follows the
other, is left out, as RoBERTa has it.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import (
    MLM,
    MLP,
    AdamW,
    Embedding,
    HeadTransform,
    Initialisation,
    LanguageHead,
    LayerNorm,
    Learned,
    Linear,
    MultiHead,
    NoHead,
    Normal,
    PostNorm,
    Run,
    Stack,
    Steps,
    Transformer,
    WordPiece,
)
from pellucid.presets.gpt2 import GPT2

_NORM = LayerNorm(eps=1e-12, bias=True)


def _bert(*, n_layers: int, n_heads: int, d_model: int) -> Run:
    return replace(
        GPT2,
        text=replace(
            GPT2.text,
            tokenizer=WordPiece(vocab_size=30_521, lowercase=True),
            special=("mask",),
        ),
        objective=MLM(chosen=0.15, masked=0.8, replaced=0.1),
        model=Transformer(
            vocab_size=30_522,
            context_length=512,
            d_model=d_model,
            embedding=Embedding(tied=True, scaled=False, segments=2),
            encoder=Stack(
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
                feed_forward=MLP(d_ff=4 * d_model, activation="gelu", bias=True),
                norm=_NORM,
                residual=PostNorm(),
                final_norm=False,
                dropout=0.1,
                input_norm=_NORM,
            ),
            head=LanguageHead(bias=True, transform=HeadTransform(activation="gelu", norm=_NORM)),
            pooler=True,
            initialisation=Initialisation(
                weights=Normal(std=0.02), embedding_std=0.02, outputs="plain"
            ),
        ),
        optimiser=AdamW(learning_rate=1e-4, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01),
        schedule=Linear(warm_up=0.01, final=0.0),
        training=replace(
            GPT2.training, budget=Steps(count=1_000_000), batch_size=256, accumulation=16
        ),
    )


def _sentence_encoder(run: Run) -> Run:
    return replace(
        run,
        model=replace(run.model, head=NoHead()),
        optimiser=AdamW(learning_rate=2e-5, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01),
        schedule=Linear(warm_up=0.005, final=0.0),
        training=replace(
            run.training, budget=Steps(count=100_000), batch_size=1024, accumulation=64
        ),
    )


BERT_BASE = _bert(n_layers=12, n_heads=12, d_model=768)
BERT_LARGE = _bert(n_layers=24, n_heads=16, d_model=1024)
MINILM_L6 = _sentence_encoder(_bert(n_layers=6, n_heads=12, d_model=384))
