"""Llama, and the decoders that are built like it: Mistral, Qwen, Gemma and OLMo.

Llama 2: Touvron et al. 2023, "Llama 2: Open Foundation and Fine-Tuned Chat Models", section 2.2
(AdamW with betas .9 and .95, eps 1e-5, weight decay .1, clipping at 1, cosine to a tenth after
2,000 steps of warm-up, batches of 4M tokens, 2T tokens) and the released checkpoint.

Llama 3 8B: Grattafiori et al. 2024, "The Llama 3 Herd of Models", table 3, and the released
checkpoint of Meta-Llama-3-8B (8,192 tokens of context); 15T tokens. 3.2 1B: the released
checkpoint of Llama-3.2-1B, whose angles are scaled to 131,072 tokens; 9T tokens, by its model card
(it was pruned from a larger model and taught by others, which is not here). The rest of their
recipe is Llama 2's, as for all models below.

Mistral 7B v0.1: Jiang et al. 2023, "Mistral 7B", section 2 and table 1 (a window of 4,096, 8
key/value heads), and the released checkpoint of Mistral-7B-v0.1 (32,768 tokens of context). The
paper gives no recipe.

Qwen2: Yang et al. 2024, "Qwen2 Technical Report", table 1, and the released checkpoint of
Qwen2-0.5B (biases on queries, keys and values; 131,072 tokens of context); 12T tokens. Qwen3: Yang
et al. 2025, "Qwen3 Technical Report", table 1, and the released checkpoints of Qwen3-0.6B and
Qwen3-1.7B (a norm over each head's queries and keys instead of biases; 40,960 tokens of context);
36T tokens. The reports give no learning rates.

Gemma 2 2B: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size",
section 2 and table 1, and the released checkpoint of gemma-2-2b. Every other layer, from the
first, has a window of 4,096. Each layer has a norm before and after it, with a gain of 1 + the
weight. Scores are capped at 50 and logits at 30; queries are scaled by 256^-0.5. Embeddings are
scaled and shared with the head. The model saw 2T tokens and learned from a larger model, which
this recipe does not include.

OLMo 2 1B: OLMo Team 2024, "2 OLMo 2 Furious", section 2.1, and the released configuration of
OLMo-2-0425-1B: what a layer writes is normalised, not what it reads; queries and keys are
normalised over all heads at once.

Recipe: its released configuration of the first stage: AdamW at 4e-4 with betas .9 and .95 and
weight decay .1, 8.4B tokens of warm-up, 4T tokens in batches of 512 sequences, clipping at 1, a
z-loss of 1e-5. Its cosine to a tenth was laid out for 5T tokens and left at 4T; here it ends
there. Embeddings did not decay there; here they do.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.presets.recipe import LARGE_MODEL_OPTIMISER, heads, normal, published

_TRILLION = 10**12
_ROTARY = config.Rotary(base=10_000.0)


def _llama(
    attention: config.MultiHead,
    *,
    n_layers: int,
    d_model: int,
    d_ff: int,
    vocab_size: int,
    context_length: int,
    tokens: int,
    positions: config.Rotary = _ROTARY,
    eps: float = 1e-5,
    tied: bool = False,
) -> config.Run:
    """Llama's architecture (pre-norm, RMSNorm, gated SiLU, no biases) and Llama 2's recipe.

    `tokens` are trillions. A batch has 4M tokens, however long its context.
    """
    stack = config.Stack(
        n_layers=n_layers,
        positions=positions,
        attention=attention,
        feed_forward=config.GatedMLP(d_ff=d_ff, activation="silu", bias=False),
        norm=config.RMSNorm(eps=eps),
        residual=config.PreNorm(),
        final_norm=True,
        dropout=0.0,
    )
    model = config.Transformer(
        vocab_size=vocab_size,
        context_length=context_length,
        d_model=d_model,
        embedding=config.Embedding(tied=tied, scaled=False),
        decoder=stack,
        initialisation=normal(0.02),
    )
    sequences = 2**22 // context_length
    return published(
        model,
        replace(LARGE_MODEL_OPTIMISER, eps=1e-5),
        config.Cosine(warm_up=0.004, final=0.1),
        config.Tokens(count=tokens * _TRILLION),
        batch=(sequences, sequences),
    )


def _qwen3(d_model: int, d_ff: int) -> config.Run:
    return _llama(
        replace(heads(16, 8, 128), qk_norm=config.RMSNorm(eps=1e-6)),
        n_layers=28,
        d_model=d_model,
        d_ff=d_ff,
        vocab_size=151_936,
        context_length=40_960,
        tokens=36,
        positions=config.Rotary(base=1_000_000.0),
        eps=1e-6,
        tied=True,
    )


def _gemma(run: config.Run) -> config.Run:
    """The run with Gemma's block, window, caps and scaled embeddings."""
    assert run.model.decoder is not None
    every = replace(heads(8, 4, 256), scale=256**-0.5, soft_cap=50.0)
    decoder = replace(
        run.model.decoder,
        attention=config.Alternating(layers=(replace(every, window=4096), every)),
        feed_forward=config.GatedMLP(d_ff=9216, activation="gelu_tanh", bias=False),
        norm=config.RMSNorm(eps=1e-6, unit_offset=True),
        residual=config.SandwichNorm(),
    )
    model = replace(
        run.model,
        decoder=decoder,
        embedding=config.Embedding(tied=True, scaled=True),
        head=config.LanguageHead(soft_cap=30.0),
    )
    return replace(run, model=model)


def _olmo(run: config.Run) -> config.Run:
    """The run with OLMo's norms and recipe."""
    assert run.model.decoder is not None
    return replace(
        run,
        model=replace(run.model, decoder=replace(run.model.decoder, residual=config.OutputNorm())),
        objective=config.NextToken(label_smoothing=0.0, z_loss=1e-5),
        optimiser=replace(LARGE_MODEL_OPTIMISER, learning_rate=4e-4),
        schedule=config.Cosine(warm_up=0.0021, final=0.1),
        training=replace(run.training, batch_size=512, accumulation=128),
    )


LLAMA = {
    "llama2-7b": _llama(
        heads(32, 32, 128),
        n_layers=32,
        d_model=4096,
        d_ff=11_008,
        vocab_size=32_000,
        context_length=4096,
        tokens=2,
    ),
    "llama3-8b": _llama(
        heads(32, 8, 128),
        n_layers=32,
        d_model=4096,
        d_ff=14_336,
        vocab_size=128_256,
        context_length=8192,
        tokens=15,
        positions=config.Rotary(base=500_000.0),
    ),
    "llama3.2-1b": _llama(
        heads(32, 8, 64),
        n_layers=16,
        d_model=2048,
        d_ff=8192,
        vocab_size=128_256,
        context_length=131_072,
        tokens=9,
        positions=config.Rotary(
            base=500_000.0,
            scaling=config.Llama3Scaling(
                factor=32.0,
                low_frequency_factor=1.0,
                high_frequency_factor=4.0,
                original_context_length=8192,
            ),
        ),
        tied=True,
    ),
}
MISTRAL = {
    "mistral-7b": _llama(
        replace(heads(32, 8, 128), window=4096),
        n_layers=32,
        d_model=4096,
        d_ff=14_336,
        vocab_size=32_000,
        context_length=32_768,
        tokens=2,
    ),
}
QWEN = {
    "qwen2-0.5b": _llama(
        replace(heads(14, 2, 64), qkv_bias=True),
        n_layers=24,
        d_model=896,
        d_ff=4864,
        vocab_size=151_936,
        context_length=131_072,
        tokens=12,
        positions=config.Rotary(base=1_000_000.0),
        eps=1e-6,
        tied=True,
    ),
    "qwen3-0.6b": _qwen3(1024, 3072),
    "qwen3-1.7b": _qwen3(2048, 6144),
}
GEMMA = {
    "gemma2-2b": _gemma(
        _llama(
            heads(8, 4, 256),
            n_layers=26,
            d_model=2304,
            d_ff=9216,
            vocab_size=256_000,
            context_length=8192,
            tokens=2,
        )
    ),
}
OLMO = {
    "olmo2-1b": _olmo(
        _llama(
            replace(
                heads(16, 16, 128),
                qk_norm=config.RMSNorm(eps=1e-6),
                qk_norm_over="all_heads",
            ),
            n_layers=16,
            d_model=2048,
            d_ff=8192,
            vocab_size=100_352,
            context_length=4096,
            tokens=4,
            positions=config.Rotary(base=500_000.0),
            eps=1e-6,
        )
    ),
}
