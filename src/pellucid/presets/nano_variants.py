"""`nano-encoder`, `nano-pair`: the blocks of `nano`, seeing both ways, and as reader and writer.

What they are trained for by default is to fill masked words, and to write a text while reading
another.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.config import (
    MLM,
    MultiHead,
    Seq2Seq,
    Stack,
)
from pellucid.presets.nano import NANO

_DECODER = NANO.model.decoder
assert isinstance(_DECODER, Stack)
assert isinstance(_DECODER.attention, MultiHead)

NANO_ENCODER = replace(
    NANO,
    text=replace(NANO.text, special=("mask",)),
    model=replace(NANO.model, encoder=_DECODER, decoder=None),
    objective=MLM(chosen=0.15, masked=0.8, replaced=0.1),
)

NANO_PAIR = replace(
    NANO,
    model=replace(
        NANO.model,
        encoder=_DECODER,
        decoder=replace(_DECODER, cross_attention=_DECODER.attention),
    ),
    objective=Seq2Seq(label_smoothing=0.1),
)
