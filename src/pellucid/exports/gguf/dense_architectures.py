"""What llama.cpp computes for each architecture that has no mixture of experts of its own.

Source:
    llama.cpp, src/models: the tensors that each architecture loads, and its graph.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.exports.gguf.architecture import (
    ALL,
    GATED_FEED,
    GEGLU,
    GELU,
    OUT,
    POST_ATTENTION,
    QKV,
    SILU,
    SQUARED,
    Architecture,
    Mixture,
)
from pellucid.exports.gguf.own_metadata import (
    buckets,
    encoder_states,
    residual_rule,
    slopes,
)
from pellucid.exports.gguf.refusals import (
    bloom_slopes,
    head_norms_by_depth,
    norms_of_queries,
    not_parallel,
    other_slopes,
    rotates_without_its_window,
)

LLAMA = Architecture(
    name="llama",
    pairing="interleaved",
    activations=SILU,
    may_have=(*QKV, *OUT, *GATED_FEED),
    frequency_factors=True,
    mixture=Mixture(normalised=True, own_width=False, optional=True),
)
OLMO2 = Architecture(
    name="olmo2",
    window_if_any=True,
    pairing="half_split",
    activations=SILU,
    may_have=QKV,
    head="own",
    windows=True,
    local="unscaled",
    square=True,
)
BERT = Architecture(
    name="bert",
    own_metadata=encoder_states,
    pairing=None,
    activations=GELU,
    biases=ALL,
    square=True,
)
T5 = Architecture(
    name="t5",
    own_metadata=buckets,
    pairing=None,
    activations={"plain": ("relu",), "gated": ("gelu_tanh",)},
)
GRANITE = replace(LLAMA, name="granite", mixture=None, scales=True, logit_scale="divisor")
#: By the `model_type` of the family that holds the model.
DENSE: dict[str, Architecture] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "ministral": LLAMA,
    "gpt2": Architecture(
        name="gpt2", pairing=None, activations=GELU, joined=True, biases=ALL, square=True
    ),
    "gpt_bigcode": Architecture(
        name="starcoder", pairing=None, activations=GELU, joined=True, biases=ALL, square=True
    ),
    "hunyuan_v1_dense": Architecture(
        name="hunyuan-dense", pairing="half_split", activations=SILU, may_have=QKV
    ),
    "gpt_neox": Architecture(
        name="gptneox",
        own_metadata=residual_rule,
        pairing="half_split",
        activations=GELU,
        joined=True,
        biases=ALL,
        head="own",
        partial=True,
        square=True,
    ),
    "qwen2": Architecture(
        name="qwen2", pairing="half_split", activations=SILU, may_have=QKV, square=True
    ),
    "qwen3": Architecture(name="qwen3", pairing="half_split", activations=SILU, may_have=QKV),
    "olmo": Architecture(
        name="olmo", pairing="interleaved", activations=SILU, may_have=QKV, square=True
    ),
    "olmo2": OLMO2,
    "olmo3": OLMO2,
    "gemma": Architecture(
        name="gemma", pairing="half_split", activations=GEGLU, may_have=QKV, head="tied"
    ),
    "gemma2": Architecture(
        name="gemma2",
        pairing="half_split",
        activations=GEGLU,
        may_have=QKV,
        head="tied",
        windows=True,
        wide_scale_at=46,
    ),
    "gemma3_text": Architecture(
        name="gemma3",
        window_if_any=True,
        pairing="half_split",
        activations=GEGLU,
        may_have=QKV,
        scalings=(config.LinearScaling,),
        windows=True,
        local="own_base",
        wide_scale_at=62,
    ),
    "granite": GRANITE,
    "phi": Architecture(
        name="phi2",
        pairing="half_split",
        activations=GELU,
        biases=ALL,
        head="own",
        partial=True,
        square=True,
        refuses=norms_of_queries,
    ),
    "phi3": Architecture(
        name="phi3",
        pairing="half_split",
        activations=SILU,
        may_have=QKV,
        gate_up=True,
        scalings=(config.LinearScaling, config.YaRN, config.LongRoPE),
        partial=True,
        square=True,
    ),
    "starcoder2": Architecture(
        name="starcoder2", pairing="half_split", activations=GELU, biases=ALL, square=True
    ),
    "stablelm": Architecture(
        name="stablelm",
        pairing="half_split",
        activations=SILU,
        may_have=QKV,
        head="own",
        partial=True,
        square=True,
    ),
    "cohere": Architecture(
        name="command-r",
        logit_scale="factor",
        pairing="interleaved",
        activations=SILU,
        may_have=QKV,
        head="tied",
        square=True,
        refuses=head_norms_by_depth,
    ),
    "cohere2": Architecture(
        name="cohere2",
        logit_scale="factor",
        pairing="interleaved",
        activations=SILU,
        may_have=QKV,
        head="tied",
        rotates="windows",
        windows=True,
        square=True,
    ),
    "nemotron": Architecture(
        name="nemotron",
        pairing="half_split",
        activations=SQUARED,
        may_have=ALL,
        head="own",
        partial=True,
        square=True,
    ),
    "exaone4": Architecture(
        name="exaone4",
        window_if_any=True,
        pairing="half_split",
        activations=SILU,
        may_have=QKV,
        frequency_factors=True,
        rotates="windows_if_any",
        windows=True,
        square=True,
        refuses=rotates_without_its_window,
    ),
    "smollm3": Architecture(
        name="smollm3",
        pairing="interleaved",
        activations=SILU,
        may_have=QKV,
        rotates="three_of_four",
    ),
    "arcee": Architecture(
        name="arcee",
        pairing="interleaved",
        activations=SQUARED,
        may_have=QKV,
        frequency_factors=True,
    ),
    "ernie4_5": Architecture(
        name="ernie4_5", pairing="interleaved", activations=SILU, may_have=QKV
    ),
    "seed_oss": Architecture(
        name="seed_oss",
        pairing="half_split",
        activations=SILU,
        may_have=QKV,
        norm_names=POST_ATTENTION,
    ),
    "glm": Architecture(
        name="chatglm",
        pairing="interleaved",
        activations=SILU,
        may_have=QKV,
        gate_up=True,
        partial=True,
        square=True,
    ),
    "glm4": Architecture(
        name="glm4",
        pairing="interleaved",
        activations=SILU,
        may_have=QKV,
        gate_up=True,
        partial=True,
    ),
    "falcon": Architecture(
        name="falcon",
        own_norms={"attention_norm": "attn_norm_2", "feed_forward_norm": "attn_norm"},
        pairing="half_split",
        activations=GELU,
        joined=True,
        square=True,
        refuses=not_parallel,
    ),
    "bloom": Architecture(
        name="bloom",
        pairing=None,
        activations=GELU,
        joined=True,
        biases=ALL,
        square=True,
        refuses=bloom_slopes,
    ),
    "mpt": Architecture(
        name="mpt",
        own_metadata=slopes,
        pairing=None,
        activations=GELU,
        joined=True,
        may_have=ALL,
        square=True,
        refuses=other_slopes,
    ),
    "bert": BERT,
    "roberta": BERT,
    "xlm-roberta": BERT,
    "camembert": BERT,
    "distilbert": BERT,
    "modernbert": Architecture(
        name="modern-bert",
        window_if_any=True,
        own_metadata=encoder_states,
        pairing="half_split",
        activations={"gated": ("gelu", "gelu_tanh")},
        joined=True,
        gate_up=True,
        norm_biases=False,
        scalings=(config.LinearScaling,),
        windows=True,
        local="own_base",
        square=True,
    ),
    "t5": T5,
    "mt5": T5,
    "umt5": T5,
}
