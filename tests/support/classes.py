"""Small models that tell classes apart, as a family of published models has them."""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.presets import find
from support.models import with_attention

NAMES = ("ham", "spam", "neither")

_BERT = find("bert-base").model
assert _BERT.encoder is not None
ENCODER = replace(
    _BERT,
    vocab_size=23,
    context_length=16,
    d_model=16,
    encoder=replace(
        _BERT.encoder,
        n_layers=2,
        attention=replace(_BERT.encoder.attention, n_heads=4, n_kv_heads=4, d_head=4),
        feed_forward=replace(_BERT.encoder.feed_forward, d_ff=24),
    ),
    head=config.ClassificationHead(classes=NAMES, pooling="first", dropout=0.3, bias=True),
)
_LLAMA = replace(
    with_attention(n_kv_heads=2),
    head=config.ClassificationHead(classes=NAMES, pooling="last", dropout=0.3, bias=False),
)
assert _LLAMA.decoder is not None
DECODER = replace(
    _LLAMA,
    decoder=replace(
        _LLAMA.decoder,
        norm=config.RMSNorm(eps=1e-6),
        feed_forward=config.GatedMLP(d_ff=24, activation="silu", bias=False),
    ),
)
