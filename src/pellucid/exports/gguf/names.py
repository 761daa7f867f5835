"""The names of tensors in a GGUF file.

decoder.blocks.3.attention.query.weight  ->  blk.3.attn_q.weight
"""

from __future__ import annotations

import re

from pellucid import config
from pellucid.errors import CheckpointError
from pellucid.exports.gguf.architecture import Architecture

_LAYER = re.compile(r"(encoder|decoder)\.blocks\.(\d+)\.(.+)\.(weight|bias|gain)")
#: The biases of all layers, or of one.
_TABLE = re.compile(r"\w+\.positions\.(?:schemes\.(\d+)\.)?table\.weight")
#: Parts outside of layers. In T5 each stack has its own.
_OUTER = {
    "token_embedding.weight": "token_embd.weight",
    "segment_embedding.weight": "token_types.weight",
    "head.weight": "output.weight",
    "head_bias": "output.bias",
    "decoder.positions.embedding.weight": "position_embd.weight",
    "encoder.positions.embedding.weight": "position_embd.weight",
    "decoder.input_norm": "token_embd_norm",
    "encoder.input_norm": "token_embd_norm",
    "decoder.final_norm": "output_norm",
    "encoder.final_norm": "output_norm",
}
#: Parts of a layer.
_INNER = {
    "attention.query": "attn_q",
    "attention.key": "attn_k",
    "attention.value": "attn_v",
    "attention.output": "attn_output",
    "attention.query_norm": "attn_q_norm",
    "attention.key_norm": "attn_k_norm",
    "attention.sinks": "attn_sinks",
    "attention_norm": "attn_norm",
    "attention_norm.before": "attn_norm",
    "attention_norm.after": "post_attention_norm",
    "feed_forward.gate": "ffn_gate",
    "feed_forward.up": "ffn_up",
    "feed_forward.down": "ffn_down",
    "feed_forward.router": "ffn_gate_inp",
    "feed_forward.choice_bias": "exp_probs_b",
    "feed_forward.experts.gate": "ffn_gate_exps",
    "feed_forward.experts.up": "ffn_up_exps",
    "feed_forward.experts.down": "ffn_down_exps",
    "feed_forward.shared_gate": "ffn_gate_inp_shexp",
    "feed_forward.shared.gate": "ffn_gate_shexp",
    "feed_forward.shared.up": "ffn_up_shexp",
    "feed_forward.shared.down": "ffn_down_shexp",
    "feed_forward_norm": "ffn_norm",
    "feed_forward_norm.before": "ffn_norm",
    "feed_forward_norm.after": "post_ffw_norm",
}
#: Of latent attention; a query is made of the latent if there is one.
_LATENT = {
    "attention.query_latent": "attn_q_a",
    "attention.query_latent_norm": "attn_q_a_norm",
    "attention.latent": "attn_kv_a_mqa",
    "attention.latent_norm": "attn_kv_a_norm",
    "attention.key": "attn_k_b",
    "attention.value": "attn_v_b",
}
#: Norms behind a layer instead of in front of it, by the kind of residual.
_NORMS_BEHIND: dict[type[config.Residual], dict[str, str]] = {
    config.OutputNorm: {
        "attention_norm": "post_attention_norm",
        "feed_forward_norm": "post_ffw_norm",
    },
    config.PostNorm: {
        "attention_norm": "attn_output_norm",
        "feed_forward_norm": "layer_output_norm",
    },
}
#: In T5 the names begin with the stack, and some differ.
_T5_INNER = {
    "attention.output": "attn_o",
    "cross_attention.query": "cross_attn_q",
    "cross_attention.key": "cross_attn_k",
    "cross_attention.value": "cross_attn_v",
    "cross_attention.output": "cross_attn_o",
    "cross_attention_norm": "cross_attn_norm",
}


def gguf_name(parameter: str, architecture: Architecture, model: config.Transformer) -> str:
    """The name of a parameter in a GGUF file.

    Args:
        parameter: pellucid's name; experts are one tensor, without their number.
        architecture: of llama.cpp.
        model: the config.

    Raises:
        CheckpointError: llama.cpp has no place for it.
    """
    is_pair = model.encoder is not None and model.decoder is not None
    match = _LAYER.fullmatch(parameter)
    if match is None:
        return _outer_name(parameter, is_pair=is_pair)
    stack, number, part, leaf = match.groups()
    stack_config = model.encoder if stack == "encoder" else model.decoder
    assert stack_config is not None
    names = _inner_names(architecture, stack_config, is_pair=is_pair)
    if part not in names:
        raise no_place(parameter)
    prefix = f"{stack[:3]}." if is_pair else ""
    return f"{prefix}blk.{number}.{names[part]}.{'weight' if leaf == 'gain' else leaf}"


def no_place(parameter: str) -> CheckpointError:
    """The refusal of a tensor."""
    return CheckpointError(f"llama.cpp has no place for the tensor {parameter}")


def _inner_names(
    architecture: Architecture, stack: config.Stack, *, is_pair: bool
) -> dict[str, str]:
    names = {
        **_INNER,
        **_NORMS_BEHIND.get(type(stack.residual), {}),
        **architecture.norm_names,
        **(_T5_INNER if is_pair else {}),
    }
    attention = stack.layers[0].attention
    if isinstance(attention, config.LatentAttention):
        names |= _LATENT
        if attention.d_query_latent is not None:
            names["attention.query"] = "attn_q_b"
    if isinstance(stack.residual, config.Parallel) and not stack.residual.shared_norm:
        names |= architecture.own_norms
    return names


def _outer_name(parameter: str, *, is_pair: bool) -> str:
    path, _, leaf = parameter.rpartition(".")
    if is_pair and path in ("encoder.final_norm", "decoder.final_norm"):
        return f"{path[:3]}.output_norm.weight"
    if is_pair and (table := _TABLE.fullmatch(parameter)):
        return f"{path[:3]}.blk.{table[1] or 0}.attn_rel_b.weight"
    if parameter in _OUTER:
        return _OUTER[parameter]
    if path in _OUTER:
        return f"{_OUTER[path]}.{'weight' if leaf == 'gain' else leaf}"
    raise no_place(parameter)
