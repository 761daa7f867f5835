"""The common parts of published models, and the recipe on which large models have settled.

Source:
    Brown et al. 2020, "Language Models are Few-Shot Learners", appendix B (betas .9 and .95, eps
    1e-8, weight decay .1, cosine to a tenth); Touvron et al. 2023, "LLaMA", section 2.3 (the same
    betas and decay, 3e-4 for its 7B and 13B). Warm-ups differ with the length of training (GPT-3
    0.1% of it, Llama 2 0.4%); 1% is our choice, for runs that are shorter.
"""

from __future__ import annotations

from pellucid import config

#: AdamW as most published models have it.
LARGE_MODEL_OPTIMISER = config.AdamW(
    learning_rate=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1
)
#: The schedule that goes with it.
LARGE_MODEL_SCHEDULE = config.Cosine(warm_up=0.01, final=0.1)
NEXT_TOKEN = config.NextToken(label_smoothing=0.0, z_loss=0.0)


def heads(
    n_heads: int, n_kv_heads: int, d_head: int, *, bias: bool = False, dropout: float = 0.0
) -> config.MultiHead:
    """Attention with or without biases, and without norms."""
    return config.MultiHead(
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=None,
        dropout=dropout,
    )


def normal(std: float, *, outputs: config.Outputs = "plain") -> config.Initialisation:
    """First weights and embeddings from one normal distribution."""
    return config.Initialisation(weights=config.Normal(std=std), embedding_std=std, outputs=outputs)


def published(
    model: config.Transformer,
    optimiser: config.Optimiser,
    schedule: config.Schedule,
    budget: config.Budget,
    *,
    batch: tuple[int, int],
    objective: config.Objective = NEXT_TOKEN,
    tokenizer: config.Tokenizer | None = None,
    special: config.SpecialTokens = (),
    clip_norm: float | None = 1.0,
) -> config.Run:
    """A whole run of a published model.

    Args:
        model: its architecture.
        optimiser: of its recipe.
        schedule: of its recipe.
        budget: the length of its training.
        batch: the sequences of an update, and the parts into which they are cut.
        objective: of its training.
        tokenizer: the tokenizer to train; by default byte pairs, one for each row of the embedding.
        special: tokens that the objective needs.
        clip_norm: the largest norm of a gradient.
    """
    return config.Run(
        seed=1337,
        text=config.Text(
            corpus=config.StandardLibrary(),
            tokenizer=tokenizer or config.BytePairs(vocab_size=model.rows),
            held_out=0.05,
            drop_duplicates=False,
            special=special,
        ),
        model=model,
        objective=objective,
        optimiser=optimiser,
        schedule=schedule,
        training=config.Training(
            budget=budget,
            batch_size=batch[0],
            accumulation=batch[1],
            clip_norm=clip_norm,
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
