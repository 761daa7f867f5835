"""XGLM and BioGPT: decoders that were trained with fairseq.

XGLM has sinusoids, BioGPT learned positions; both begin at row 2 of their table.

Source: Lin et al. 2021, "Few-shot Learning with Multilingual Language Models"; Luo et al. 2022,
"BioGPT: Generative Pre-trained Transformer for Biomedical Text Generation and Mining".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    FEED,
    HEAD_WIDTH,
    decoder_family,
    initial_std,
    skeleton,
)
from pellucid.checkpoints.huggingface.families.opt import decoder_names
from pellucid.checkpoints.huggingface.mapping import (
    computed,
    depth,
    flag,
    ignored,
    integer,
    quotient,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Source

_ONLY_TRAINING = ignored("only in training", "activation_dropout", "layerdrop")
_SCALED = flag("scale_embedding", "embedding.scaled", default=True)
_TIED = flag("tie_word_embeddings", "embedding.tied", default=True)


def _skeleton(positions: Table) -> Table:
    return skeleton(
        attention={"qkv_bias": True, "out_bias": True},
        feed_forward={"kind": "MLP", "bias": True},
        norm={"kind": "LayerNorm", "eps": 1e-5, "bias": True},
        positions={**positions, "offset": 2},
    )


XGLM = decoder_family(
    "xglm",
    "XGLM",
    (
        integer("vocab_size", "vocab_size", default=256008),
        integer("d_model", "d_model", default=1024),
        depth("num_layers", "decoder", default=24),
        integer("attention_heads", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads", default=16),
        computed(quotient("d_model", "attention_heads").value, f"{ATTENTION}.d_head"),
        integer("ffn_dim", f"{FEED}.d_ff", default=4096),
        integer("max_position_embeddings", "context_length", default=2048),
        activation("activation_function", f"{FEED}.activation", default="gelu"),
        training_number("dropout", "decoder.dropout", default=0.1),
        training_number("attention_dropout", f"{ATTENTION}.dropout", default=0.1),
        initial_std("init_std"),
        _SCALED,
        _TIED,
        _ONLY_TRAINING,
    ),
    skeleton=_skeleton(
        {"kind": "Sinusoidal", "base": 1e4, "pairing": "half_split", "down_to_base": True}
    ),
    names=decoder_names("model", "layer_norm"),
    classifies=False,
    ignored_tensors={r"model\.embed_positions\.weights": "computed from the config"},
)

BIOGPT = decoder_family(
    "biogpt",
    "BioGpt",
    (
        integer("vocab_size", "vocab_size", default=42384),
        integer("hidden_size", "d_model", default=1024),
        depth("num_hidden_layers", "decoder", default=24),
        integer(
            "num_attention_heads", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads", default=16
        ),
        computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head"),
        integer("intermediate_size", f"{FEED}.d_ff", default=4096),
        integer("max_position_embeddings", "context_length", default=1024),
        activation("hidden_act", f"{FEED}.activation", default="gelu"),
        training_number("hidden_dropout_prob", "decoder.dropout", default=0.1),
        training_number("attention_probs_dropout_prob", f"{ATTENTION}.dropout", default=0.1),
        initial_std(),
        _SCALED,
        _TIED,
        _ONLY_TRAINING,
        ignored("the norms add 1e-5 whatever it says", "layer_norm_eps"),
    ),
    skeleton=_skeleton({"kind": "Learned"}),
    names={
        **decoder_names("biogpt", "layer_norm"),
        "head.weight": Source("output_projection.weight"),
    },
    prefix="biogpt.",
    ignored_tensors={},
)
