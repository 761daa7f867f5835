"""`nano`, the default: from random weights to readable text in minutes on a laptop.

`nano-docs` is `nano` for the documentation of the standard library, on which a run without a text
of your own learns. `nano-characters` reads and writes single characters.

The recipe was chosen by measurement; benchmarks/results holds the runs. `micro`, `small` and
`medium` are the same recipe in larger models, for more text and more time;
docs/recipes/quality.md says which figures of each size were measured. `nano-encoder` and
`nano-pair` have the blocks of `nano`: an encoder to fill masked words, and an encoder-decoder to
write a text from another. `nano-experts` has a mixture of experts in each block, and as many active
parameters.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.presets.recipe import NEXT_TOKEN, heads, normal


def _blocks(*, n_layers: int, n_heads: int) -> config.Stack:
    """Blocks of heads with 64 features, and feed-forward layers of 4 d_model units."""
    return config.Stack(
        n_layers=n_layers,
        positions=config.Rotary(base=10_000.0),
        attention=heads(n_heads, n_heads, 64),
        feed_forward=config.MLP(d_ff=256 * n_heads, activation="gelu", bias=False),
        norm=config.LayerNorm(eps=1e-5, bias=False),
        residual=config.PreNorm(),
        final_norm=True,
        dropout=0.1,
    )


_MUON = config.Muon(
    learning_rate=0.03,
    momentum=0.95,
    weight_decay=0.1,
    newton_schulz_steps=5,
    rest=config.AdamW(learning_rate=0.015, betas=(0.9, 0.99), eps=1e-10, weight_decay=0.1),
)

NANO = config.Run(
    seed=1337,
    text=config.Text(
        corpus=config.StandardLibrary(),
        tokenizer=config.BytePairs(vocab_size=4096),
        held_out=0.05,
        drop_duplicates=False,
    ),
    model=config.Transformer(
        vocab_size=None,
        context_length=256,
        d_model=128,
        embedding=config.Embedding(tied=True, scaled=False),
        decoder=_blocks(n_layers=4, n_heads=2),
        initialisation=normal(0.05, outputs="zero"),
    ),
    objective=NEXT_TOKEN,
    optimiser=_MUON,
    schedule=config.Linear(warm_up=0.02, final=0.0),
    training=config.Training(
        budget=config.Steps(count=1200),
        batch_size=4,
        accumulation=1,
        clip_norm=None,
        device="auto",
        precision="auto",
        compile="auto",
        log_every=10,
        evaluate_every=400,
        evaluate_tokens=200_000,
        checkpoint_every=200,
        keep_checkpoints=2,
        sentence="",
        dropout_from_epoch=2.0,
    ),
)

#: These texts have much in common: in four passes over them dropout gains nothing.
NANO_DOCS = replace(
    NANO, model=replace(NANO.model, decoder=replace(_blocks(n_layers=4, n_heads=2), dropout=0.0))
)

#: Characters have little to say of others far away, and are cheap to have many of: shorter rows,
#: larger batches, one block less.
NANO_CHARACTERS = replace(
    NANO,
    text=replace(NANO.text, tokenizer=config.Characters()),
    model=replace(NANO.model, context_length=64, decoder=_blocks(n_layers=3, n_heads=2)),
    training=replace(NANO.training, batch_size=32),
)

#: 3.0M parameters: five minutes on two CPU cores, for one or two megabytes of text. What is read
#: again and again is learnt by heart: a decay of four times that of `nano`, and twice its dropout.
MICRO = replace(
    NANO,
    model=replace(
        NANO.model,
        d_model=192,
        decoder=replace(_blocks(n_layers=5, n_heads=3), dropout=0.2),
    ),
    optimiser=replace(_MUON, weight_decay=0.4, rest=replace(_MUON.rest, weight_decay=0.4)),
    training=replace(NANO.training, budget=config.Steps(count=1900)),
)

#: 10.0M parameters: about twenty minutes on two CPU cores, for a few megabytes of text.
SMALL = replace(
    NANO,
    text=replace(NANO.text, tokenizer=config.BytePairs(vocab_size=8192)),
    model=replace(
        NANO.model,
        d_model=320,
        decoder=_blocks(n_layers=6, n_heads=5),
        initialisation=replace(NANO.model.initialisation, embedding_std=0.02),
    ),
    optimiser=replace(_MUON, momentum=0.9, newton_schulz_steps=4, polynomials="Polar Express"),
    training=replace(
        NANO.training,
        budget=config.Steps(count=2500),
        batch_size=8,
        evaluate_every=500,
        checkpoint_every=250,
        growth=config.GrowingLength(first=64, until=0.4),
    ),
)

#: 33.6M parameters: a night on a CPU or an hour on a small GPU, for 10 to 100 megabytes of text.
MEDIUM = replace(
    NANO,
    text=replace(NANO.text, tokenizer=config.BytePairs(vocab_size=16_384), held_out=0.01),
    model=replace(
        NANO.model,
        context_length=512,
        d_model=512,
        decoder=_blocks(n_layers=8, n_heads=8),
    ),
    training=replace(SMALL.training, budget=config.Steps(count=5000), batch_size=16, growth=None),
)

#: A masked word in seven is learned from, and pairs are short: their batches stay larger.
_LARGER_BATCHES = replace(
    NANO.training,
    budget=config.Steps(count=600),
    batch_size=8,
    evaluate_every=200,
    checkpoint_every=100,
)

NANO_ENCODER = replace(
    NANO,
    text=replace(NANO.text, special=("mask",)),
    model=replace(NANO.model, encoder=NANO.model.decoder, decoder=None),
    objective=config.MLM(chosen=0.15, masked=0.8, replaced=0.1),
    training=_LARGER_BATCHES,
)

NANO_PAIR = replace(
    NANO,
    model=replace(
        NANO.model,
        encoder=NANO.model.decoder,
        decoder=replace(_blocks(n_layers=4, n_heads=2), cross_attention=heads(2, 2, 64)),
    ),
    objective=config.Seq2Seq(label_smoothing=0.1),
    training=_LARGER_BATCHES,
)

#: Each token uses two of eight experts of half the width: as many weights as in `nano`, its dense
#: twin. The load-balancing loss has the weight of Fedus, Zoph and Shazeer 2022, section 2.2.
NANO_EXPERTS = replace(
    NANO,
    model=replace(
        NANO.model,
        decoder=replace(
            _blocks(n_layers=4, n_heads=2),
            feed_forward=config.Experts(
                n_experts=8,
                n_active=2,
                expert=config.MLP(d_ff=256, activation="gelu", bias=False),
                router=config.Router(scores="softmax", normalised=True),
                load_loss=0.01,
            ),
        ),
    ),
)

PELLUCID = {
    "nano": NANO,
    "nano-docs": NANO_DOCS,
    "nano-characters": NANO_CHARACTERS,
    "micro": MICRO,
    "small": SMALL,
    "medium": MEDIUM,
    "nano-encoder": NANO_ENCODER,
    "nano-pair": NANO_PAIR,
    "nano-experts": NANO_EXPERTS,
}
