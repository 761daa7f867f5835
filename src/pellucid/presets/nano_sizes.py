"""`small`, `medium`: the recipe of `nano` in larger models, for more text and more time.

docs/recipes/quality.md says which figures of each size were measured.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import MLP, BytePairs, MultiHead, Stack, Steps
from pellucid.presets.nano import NANO

_DECODER = NANO.model.decoder
assert isinstance(_DECODER, Stack)
assert isinstance(_DECODER.attention, MultiHead)
assert isinstance(_DECODER.feed_forward, MLP)

#: 10.0M parameters: about twenty minutes on two CPU cores, for a few megabytes of text.
SMALL = replace(
    NANO,
    text=replace(NANO.text, tokenizer=BytePairs(vocab_size=8192)),
    model=replace(
        NANO.model,
        d_model=320,
        decoder=replace(
            _DECODER,
            n_layers=6,
            attention=replace(_DECODER.attention, n_heads=5, n_kv_heads=5),
            feed_forward=replace(_DECODER.feed_forward, d_ff=1280),
        ),
    ),
    training=replace(
        NANO.training, budget=Steps(count=2500), evaluate_every=500, checkpoint_every=250
    ),
)

#: 33.6M parameters: a night on a CPU or an hour on a small GPU, for 10 to 100 megabytes of text.
MEDIUM = replace(
    NANO,
    text=replace(NANO.text, tokenizer=BytePairs(vocab_size=16_384), held_out=0.01),
    model=replace(
        NANO.model,
        context_length=512,
        d_model=512,
        decoder=replace(
            _DECODER,
            n_layers=8,
            attention=replace(_DECODER.attention, n_heads=8, n_kv_heads=8),
            feed_forward=replace(_DECODER.feed_forward, d_ff=2048),
        ),
    ),
    training=replace(
        NANO.training,
        budget=Steps(count=5000),
        batch_size=16,
        evaluate_every=500,
        checkpoint_every=250,
    ),
)
