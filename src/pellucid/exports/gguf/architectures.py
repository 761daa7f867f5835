"""What llama.cpp computes for each architecture, as far as our families can be written as it.

Source:
    llama.cpp, src/models: the tensors that each architecture loads, and its graph.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.exports.gguf.architecture import Architecture, Mixture
from pellucid.exports.gguf.layers import windows_of

Activations = dict[str, tuple[config.Activation, ...]]
_SILU: Activations = {"gated": ("silu",)}
#: llama.cpp has one GELU, the approximation by tanh.
_GELU: Activations = {"plain": ("gelu", "gelu_tanh")}
_GEGLU: Activations = {"gated": ("gelu_tanh",)}
_SQUARED: Activations = {"plain": ("relu_squared",)}

_QKV = ("attention.query", "attention.key", "attention.value")
_OUT = ("attention.output",)
_FEED = ("feed_forward.up", "feed_forward.down")
_GATED_FEED = ("feed_forward.gate", *_FEED)
_ALL = (*_QKV, *_OUT, *_FEED)
_EXPERT_BIASES = (
    "feed_forward.router",
    *(f"feed_forward.experts.{part}" for part in ("gate", "up", "down")),
)
#: The norm before a feed-forward under the name of one behind attention.
_POST_ATTENTION = {"feed_forward_norm": "post_attention_norm"}


def _rotates_without_its_window(stack: config.Stack) -> str:
    """EXAONE 4: only in the depth of the 32B model layers have windows, and alone rotate."""
    has_windows = [window is not None for window in windows_of(stack)]
    if stack.n_layers != 64:
        return "windows in a model of other than 64 layers" if any(has_windows) else ""
    rotates = [isinstance(layer.positions, config.Rotary) for layer in stack.layers]
    return "" if rotates == has_windows else "rotary positions in layers without a window"


def _head_norms_by_depth(stack: config.Stack) -> str:
    """Command R: norms of queries and keys from 64 layers on."""
    attention = stack.layers[0].attention
    has_norms = isinstance(attention, config.MultiHead) and attention.qk_norm is not None
    if has_norms == (stack.n_layers >= 64):
        return ""
    return f"{stack.n_layers} layers {'with' if has_norms else 'without'} norms of queries and keys"


def _norms_of_queries(stack: config.Stack) -> str:
    attention = stack.layers[0].attention
    has_norms = isinstance(attention, config.MultiHead) and attention.qk_norm is not None
    return "norms of queries and keys" if has_norms else ""


def _query_latents_by_depth(stack: config.Stack) -> str:
    """DeepSeek: in the depth of the Lite models queries have no latent."""
    attention = stack.layers[0].attention
    has_latent = isinstance(attention, config.LatentAttention) and attention.d_query_latent
    return (
        f"latents of queries in {stack.n_layers} layers"
        if has_latent and stack.n_layers in (26, 27, 48)
        else ""
    )


def _other_slopes(stack: config.Stack) -> str:
    positions = stack.layers[0].positions
    plain = isinstance(positions, config.ALiBi) and not (positions.scaled or positions.rounded)
    return "" if plain else "positions other than plain ALiBi"


def _bloom_slopes(stack: config.Stack) -> str:
    positions = stack.layers[0].positions
    if isinstance(positions, config.ALiBi) and positions.max_exponent != 8:
        return f"ALiBi with max_exponent {positions.max_exponent:g}"
    return _other_slopes(stack)


def _not_parallel(stack: config.Stack) -> str:
    return "" if isinstance(stack.residual, config.Parallel) else "a residual that is not Parallel"


_LLAMA = Architecture(
    name="llama",
    pairing="interleaved",
    activations=_SILU,
    may_have=(*_QKV, *_OUT, *_GATED_FEED),
    frequency_factors=True,
    mixture=Mixture(normalised=True, own_width=False, optional=True),
)
_OLMO2 = Architecture(
    name="olmo2",
    pairing="half_split",
    activations=_SILU,
    may_have=_QKV,
    head="own",
    windows=True,
    local="unscaled",
    square=True,
)
_BERT = Architecture(name="bert", pairing=None, activations=_GELU, biases=_ALL, square=True)
_T5 = Architecture(
    name="t5", pairing=None, activations={"plain": ("relu",), "gated": ("gelu_tanh",)}
)
_DEEPSEEK = Architecture(
    name="deepseek2",
    pairing="interleaved",
    activations=_SILU,
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
    refuses=_query_latents_by_depth,
)
_GRANITE = Architecture(
    name="granite",
    pairing="interleaved",
    activations=_SILU,
    may_have=(*_QKV, *_OUT, *_GATED_FEED),
    frequency_factors=True,
)
#: By the `model_type` of the family that holds the model.
ARCHITECTURES: dict[str, Architecture] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "mixtral": _LLAMA,
    "gpt2": Architecture(
        name="gpt2", pairing=None, activations=_GELU, joined=True, biases=_ALL, square=True
    ),
    "gpt_neox": Architecture(
        name="gptneox",
        pairing="half_split",
        activations=_GELU,
        joined=True,
        biases=_ALL,
        head="own",
        partial=True,
        square=True,
    ),
    "qwen2": Architecture(
        name="qwen2", pairing="half_split", activations=_SILU, may_have=_QKV, square=True
    ),
    "qwen2_moe": Architecture(
        name="qwen2moe",
        pairing="half_split",
        activations=_SILU,
        may_have=_QKV,
        head="own",
        square=True,
        mixture=Mixture(normalised=False, shared="must", shared_gate=True),
    ),
    "qwen3": Architecture(name="qwen3", pairing="half_split", activations=_SILU, may_have=_QKV),
    "qwen3_moe": Architecture(
        name="qwen3moe",
        pairing="half_split",
        activations=_SILU,
        may_have=_QKV,
        mixture=Mixture(normalised=True),
    ),
    "olmo": Architecture(
        name="olmo", pairing="interleaved", activations=_SILU, may_have=_QKV, square=True
    ),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": Architecture(
        name="olmoe",
        pairing="half_split",
        activations=_SILU,
        may_have=_QKV,
        head="own",
        square=True,
        full_keys=True,
        mixture=Mixture(normalised=False, own_width=False),
    ),
    "gemma": Architecture(
        name="gemma", pairing="half_split", activations=_GEGLU, may_have=_QKV, head="tied"
    ),
    "gemma2": Architecture(
        name="gemma2",
        pairing="half_split",
        activations=_GEGLU,
        may_have=_QKV,
        head="tied",
        windows=True,
        wide_scale_at=46,
    ),
    "gemma3_text": Architecture(
        name="gemma3",
        pairing="half_split",
        activations=_GEGLU,
        may_have=_QKV,
        scalings=(config.LinearScaling,),
        windows=True,
        local="own_base",
        wide_scale_at=62,
    ),
    "granite": _GRANITE,
    "granitemoe": replace(
        _GRANITE,
        name="granitemoe",
        mixture=Mixture(normalised=True, shared="may", own_width=False),
    ),
    "phi": Architecture(
        name="phi2",
        pairing="half_split",
        activations=_GELU,
        biases=_ALL,
        head="own",
        partial=True,
        square=True,
        refuses=_norms_of_queries,
    ),
    "phi3": Architecture(
        name="phi3",
        pairing="half_split",
        activations=_SILU,
        may_have=_QKV,
        gate_up=True,
        scalings=(config.LinearScaling, config.YaRN, config.LongRoPE),
        partial=True,
        square=True,
    ),
    "starcoder2": Architecture(
        name="starcoder2", pairing="half_split", activations=_GELU, biases=_ALL, square=True
    ),
    "stablelm": Architecture(
        name="stablelm",
        pairing="half_split",
        activations=_SILU,
        may_have=_QKV,
        head="own",
        partial=True,
        square=True,
    ),
    "cohere": Architecture(
        name="command-r",
        pairing="interleaved",
        activations=_SILU,
        may_have=_QKV,
        head="tied",
        square=True,
        refuses=_head_norms_by_depth,
    ),
    "cohere2": Architecture(
        name="cohere2",
        pairing="interleaved",
        activations=_SILU,
        may_have=_QKV,
        head="tied",
        rotates="windows",
        windows=True,
        square=True,
    ),
    "nemotron": Architecture(
        name="nemotron",
        pairing="half_split",
        activations=_SQUARED,
        may_have=_ALL,
        head="own",
        partial=True,
        square=True,
    ),
    "exaone4": Architecture(
        name="exaone4",
        pairing="half_split",
        activations=_SILU,
        may_have=_QKV,
        frequency_factors=True,
        rotates="windows_if_any",
        windows=True,
        square=True,
        refuses=_rotates_without_its_window,
    ),
    "smollm3": Architecture(
        name="smollm3",
        pairing="interleaved",
        activations=_SILU,
        may_have=_QKV,
        rotates="three_of_four",
    ),
    "arcee": Architecture(
        name="arcee",
        pairing="interleaved",
        activations=_SQUARED,
        may_have=_QKV,
        frequency_factors=True,
    ),
    "ernie4_5": Architecture(
        name="ernie4_5", pairing="interleaved", activations=_SILU, may_have=_QKV
    ),
    "ernie4_5_moe": Architecture(
        name="ernie4_5-moe",
        pairing="interleaved",
        activations=_SILU,
        may_have=_QKV,
        mixture=Mixture(normalised=True, choice_bias="may", shared="may", dense_first=True),
    ),
    "seed_oss": Architecture(
        name="seed_oss",
        pairing="half_split",
        activations=_SILU,
        may_have=_QKV,
        norm_names=_POST_ATTENTION,
    ),
    "glm": Architecture(
        name="chatglm",
        pairing="interleaved",
        activations=_SILU,
        may_have=_QKV,
        gate_up=True,
        partial=True,
        square=True,
    ),
    "glm4": Architecture(
        name="glm4",
        pairing="interleaved",
        activations=_SILU,
        may_have=_QKV,
        gate_up=True,
        partial=True,
    ),
    "glm4_moe": Architecture(
        name="glm4moe",
        pairing="half_split",
        activations=_SILU,
        may_have=_QKV,
        norm_names=_POST_ATTENTION,
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
        biases=(*_QKV, *_OUT, *_EXPERT_BIASES),
        norm_names=_POST_ATTENTION,
        head="own",
        windows=True,
        mixture=Mixture(normalised=True),
    ),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "falcon": Architecture(
        name="falcon",
        pairing="half_split",
        activations=_GELU,
        joined=True,
        square=True,
        refuses=_not_parallel,
    ),
    "bloom": Architecture(
        name="bloom",
        pairing=None,
        activations=_GELU,
        joined=True,
        biases=_ALL,
        square=True,
        refuses=_bloom_slopes,
    ),
    "mpt": Architecture(
        name="mpt",
        pairing=None,
        activations=_GELU,
        joined=True,
        may_have=_ALL,
        square=True,
        refuses=_other_slopes,
    ),
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "distilbert": _BERT,
    "modernbert": Architecture(
        name="modern-bert",
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
    "t5": _T5,
    "mt5": _T5,
}
