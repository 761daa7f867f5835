"""gpt-oss: clamped experts with biases, sinks, and a window in every other layer.

Source: OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    HEAD_WIDTH,
    LAYER,
    NAMES,
    decoder_family,
    skeleton,
    windows_row,
)
from pellucid.checkpoints.huggingface.families.mixtures import (
    ACTIVE,
    DECODER_ROWS,
    MIXTURE,
    MLP,
    balance_row,
    joint_names,
    mixture,
)
from pellucid.checkpoints.huggingface.mapping import (
    flag,
    ignored,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import Source, linear
from pellucid.checkpoints.huggingface.rotary import rotary_row_with_default

#: What `transformers` takes if a file says nothing.
_GPT_OSS_SCALING: Table = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
_GPT_OSS_EXPERT: Table = {"kind": "ClampedGatedMLP", "bias": True}
GPT_OSS = decoder_family(
    "gpt_oss",
    "GptOss",
    (
        *(row for row in DECODER_ROWS if "head_dim" not in row.rules),
        integer("head_dim", f"{ATTENTION}.d_head", default=replace(HEAD_WIDTH, absent=64)),
        rotary_row_with_default(_GPT_OSS_SCALING, base=150_000.0),
        windows_row(lambda attributes, layer: layer % 2 == 0, default=128),
        flag("attention_bias", *BIASES, default=True),
        number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
        integer("intermediate_size", f"{MIXTURE}.expert.d_ff", default=2880),
        integer("num_local_experts", f"{MIXTURE}.n_experts", default=128),
        integer("num_experts_per_tok", ACTIVE, default=4),
        number("swiglu_alpha", f"{MIXTURE}.expert.slope", default=1.702),
        number("swiglu_limit", f"{MIXTURE}.expert.limit", default=7.0),
        ignored("the experts have an activation of their own", "hidden_act"),
        ignored("the same as num_experts_per_tok", "experts_per_token"),
        ignored("the length of the context before YaRN", "initial_context_length"),
        balance_row(),
    ),
    skeleton=skeleton(
        attention={"sinks": True},
        feed_forward=mixture(expert=_GPT_OSS_EXPERT, router={"normalised": True, "bias": True}),
    ),
    names={
        **{name: source for name, source in NAMES.items() if ".feed_forward." not in name},
        f"{BLOCK}.attention.sinks": Source(f"{LAYER}.self_attn.sinks"),
        **dict(
            joint_names(
                f"{MLP}.experts.gate_up_proj",
                f"{MLP}.experts.down_proj",
                bias="_bias",
                groups="rows",
                transposed=True,
            )
        ),
        **dict(linear(f"{BLOCK}.feed_forward.router", f"{MLP}.router")),
    },
)
