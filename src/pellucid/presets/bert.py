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

from pellucid import config
from pellucid.presets.recipe import heads, normal, published

#: The optimiser of BERT.
BERT_OPTIMISER = config.AdamW(learning_rate=1e-4, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01)
_NORM = config.LayerNorm(eps=1e-12, bias=True)


def _bert(n_layers: int, n_heads: int, d_model: int) -> config.Run:
    model = config.Transformer(
        vocab_size=30_522,
        context_length=512,
        d_model=d_model,
        embedding=config.Embedding(tied=True, scaled=False, segments=2),
        encoder=config.Stack(
            n_layers=n_layers,
            positions=config.Learned(),
            attention=heads(n_heads, n_heads, d_model // n_heads, bias=True, dropout=0.1),
            feed_forward=config.MLP(d_ff=4 * d_model, activation="gelu", bias=True),
            norm=_NORM,
            residual=config.PostNorm(),
            final_norm=False,
            dropout=0.1,
            input_norm=_NORM,
        ),
        head=config.LanguageHead(
            bias=True, transform=config.HeadTransform(activation="gelu", norm=_NORM)
        ),
        pooler=True,
        initialisation=normal(0.02),
    )
    return published(
        model,
        BERT_OPTIMISER,
        config.Linear(warm_up=0.01, final=0.0),
        config.Steps(count=1_000_000),
        batch=(256, 16),
        objective=config.MLM(chosen=0.15, masked=0.8, replaced=0.1),
        tokenizer=config.WordPiece(vocab_size=30_521, lowercase=True),
        special=("mask",),
    )


def _sentence_encoder(run: config.Run) -> config.Run:
    return replace(
        run,
        model=replace(run.model, head=config.NoHead()),
        optimiser=replace(BERT_OPTIMISER, learning_rate=2e-5),
        schedule=config.Linear(warm_up=0.005, final=0.0),
        training=replace(
            run.training, budget=config.Steps(count=100_000), batch_size=1024, accumulation=64
        ),
    )


BERT = {
    "bert-base": _bert(12, 12, 768),
    "bert-large": _bert(24, 16, 1024),
    "minilm-l6": _sentence_encoder(_bert(6, 12, 384)),
}
