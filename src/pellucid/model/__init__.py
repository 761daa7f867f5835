"""Transformers from injected parts: token ids in, hidden states and logits out.

You can build each part by hand from plain keyword arguments; `assemble` builds a model from a
config.

Must not know: losses, text, presets, who watches.
"""

from pellucid.model.assemble import (
    assemble,
    assemble_empty,
    assemble_trained,
    draw_weights,
    has_own_matrices,
)
from pellucid.model.attention import (
    CrossAttention,
    Encoded,
    Heads,
    MultiHeadAttention,
    QueryKeyNorms,
    Scores,
)
from pellucid.model.blocks import Block, ParallelBlock, Stack
from pellucid.model.cache import KeysAndValues, KeyValueCache, NoCache
from pellucid.model.dropout import rest_dropout
from pellucid.model.experts import Experts
from pellucid.model.experts.balancing import Balancing, assemble_balancing, expert_layers
from pellucid.model.feed_forward import MLP, ClampedGatedMLP, GatedMLP, HeadTransform
from pellucid.model.half import can_be_half, learn_in_bfloat16, refuse_half, widen_on_use
from pellucid.model.latent_attention import LatentAttention
from pellucid.model.linear_attention import LinearAttention
from pellucid.model.lora import LoRALinear
from pellucid.model.neural_memory import NeuralMemory
from pellucid.model.norms import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from pellucid.model.output_head import (
    ClassificationHead,
    LanguageHead,
    NoHead,
    OutputHead,
)
from pellucid.model.positions import (
    AlternatingPositions,
    Learned,
    NoPositions,
    Positions,
    Sinusoidal,
)
from pellucid.model.precision import Narrow, Weights
from pellucid.model.quantization import check_weights, narrow
from pellucid.model.relative_positions import ALiBi, BucketedBias, ShawRelative
from pellucid.model.residuals import (
    Sandwich,
    deep_norm,
    no_residual,
    output_norm,
    post_norm,
    pre_norm,
    sandwich_norm,
)
from pellucid.model.rotary import LengthRotary, Rotary
from pellucid.model.trainable import (
    adaptable,
    adapters,
    is_adapter_tensor,
    merge,
    merged,
    names_matching,
    unmerge,
    without_adapters,
)
from pellucid.model.transformer import Transformer
from pellucid.model.views import View, look
from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "MLP",
    "ALiBi",
    "AlternatingPositions",
    "Balancing",
    "BatchNorm",
    "Block",
    "BucketedBias",
    "ClampedGatedMLP",
    "ClassificationHead",
    "CrossAttention",
    "Encoded",
    "Experts",
    "GatedMLP",
    "GroupNorm",
    "HeadTransform",
    "Heads",
    "InstanceNorm",
    "KeyValueCache",
    "KeysAndValues",
    "LanguageHead",
    "LatentAttention",
    "LayerNorm",
    "Learned",
    "LengthRotary",
    "LinearAttention",
    "LoRALinear",
    "MultiHeadAttention",
    "Narrow",
    "NeuralMemory",
    "NoCache",
    "NoHead",
    "NoPositions",
    "OutputHead",
    "ParallelBlock",
    "Positions",
    "QueryKeyNorms",
    "RMSNorm",
    "Rotary",
    "Sandwich",
    "Scores",
    "ShawRelative",
    "Sinusoidal",
    "Stack",
    "Transformer",
    "View",
    "Weights",
    "adaptable",
    "adapters",
    "assemble",
    "assemble_balancing",
    "assemble_empty",
    "assemble_trained",
    "can_be_half",
    "check_weights",
    "deep_norm",
    "draw_weights",
    "expert_layers",
    "has_own_matrices",
    "is_adapter_tensor",
    "learn_in_bfloat16",
    "look",
    "merge",
    "merged",
    "names_matching",
    "narrow",
    "no_residual",
    "output_norm",
    "post_norm",
    "pre_norm",
    "refuse_half",
    "rest_dropout",
    "sandwich_norm",
    "unmerge",
    "widen_on_use",
    "without_adapters",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)
