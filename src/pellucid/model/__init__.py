"""Transformers from injected parts: token ids in, hidden states and logits out.

Parts take plain keyword numbers and can be built by hand; `assemble` is the one door from a config.
No part knows losses, text, presets, or who is watching.
"""

from pellucid.model.assemble import assemble
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.blocks import Block, Stack
from pellucid.model.cache import KeyValueCache, NoCache
from pellucid.model.feed_forward import MLP, GatedMLP
from pellucid.model.norms import LayerNorm, RMSNorm
from pellucid.model.positions import Learned, NoPositions, Positions, Rotary, Sinusoidal
from pellucid.model.residuals import no_residual, post_norm, pre_norm
from pellucid.model.transformer import Transformer

__all__ = [
    "MLP",
    "Block",
    "GatedMLP",
    "KeyValueCache",
    "LayerNorm",
    "Learned",
    "MultiHeadAttention",
    "NoCache",
    "NoPositions",
    "Positions",
    "RMSNorm",
    "Rotary",
    "Sinusoidal",
    "Stack",
    "Transformer",
    "assemble",
    "no_residual",
    "post_norm",
    "pre_norm",
]
