"""What llama.cpp computes for each architecture, as far as our families can be written as it.

Source:
    llama.cpp, src/models: the tensors that each architecture loads, and its graph.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.exports.gguf.architecture import (
    EXPERT_BIASES,
    OUT,
    POST_ATTENTION,
    QKV,
    SILU,
    Architecture,
    Mixture,
)
from pellucid.exports.gguf.dense_architectures import DENSE, GRANITE, LLAMA
from pellucid.exports.gguf.own_metadata import experts_everywhere
from pellucid.exports.gguf.refusals import query_latents_by_depth

DEEPSEEK = Architecture(
    name="deepseek2",
    yarn_in_scores=True,
    pairing="interleaved",
    activations=SILU,
    scalings=(config.YaRN,),
    mixture=Mixture(
        scores=("softmax", "sigmoid"),
        normalised=None,
        scaled=True,
        groups=True,
        choice_bias="may",
        shared="must",
        shared_by_count=True,
        dense_first=True,
    ),
    refuses=query_latents_by_depth,
)
GRANITEMOE = replace(
    GRANITE,
    name="granitemoe",
    mixture=Mixture(normalised=True, shared="may", own_width=False),
)
#: By the `model_type` of the family that holds the model.
ARCHITECTURES: dict[str, Architecture] = {
    **DENSE,
    "mixtral": LLAMA,
    "qwen2_moe": Architecture(
        name="qwen2moe",
        pairing="half_split",
        activations=SILU,
        may_have=QKV,
        head="own",
        square=True,
        mixture=Mixture(normalised=False, shared="must", shared_gate=True),
    ),
    "qwen3_moe": Architecture(
        name="qwen3moe",
        pairing="half_split",
        activations=SILU,
        may_have=QKV,
        mixture=Mixture(normalised=True),
    ),
    "olmoe": Architecture(
        name="olmoe",
        pairing="half_split",
        activations=SILU,
        may_have=QKV,
        head="own",
        square=True,
        full_keys=True,
        mixture=Mixture(normalised=False, own_width=False),
    ),
    "granitemoe": GRANITEMOE,
    "granitemoeshared": GRANITEMOE,
    "ernie4_5_moe": Architecture(
        name="ernie4_5-moe",
        own_metadata=experts_everywhere,
        pairing="interleaved",
        activations=SILU,
        may_have=QKV,
        mixture=Mixture(normalised=True, choice_bias="may", shared="may", dense_first=True),
    ),
    "glm4_moe": Architecture(
        name="glm4moe",
        pairing="half_split",
        activations=SILU,
        may_have=QKV,
        norm_names=POST_ATTENTION,
        partial=True,
        mixture=Mixture(
            scores=("softmax", "sigmoid"),
            normalised=None,
            scaled=True,
            groups=True,
            choice_bias="must",
            shared="must",
            shared_by_count=True,
            dense_first=True,
        ),
    ),
    "gpt_oss": Architecture(
        name="gpt-oss",
        pairing="half_split",
        activations={"clamped": ()},
        biases=(*QKV, *OUT, *EXPERT_BIASES),
        norm_names=POST_ATTENTION,
        head="own",
        windows=True,
        mixture=Mixture(normalised=True),
    ),
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK,
}
