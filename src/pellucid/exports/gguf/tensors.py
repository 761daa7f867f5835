"""The tensors of a GGUF file: names, layouts, and parts that llama.cpp wants and a model lacks.

decoder.blocks.3.attention.query.weight  ->  blk.3.attn_q.weight
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from pellucid import config
from pellucid.errors import CheckpointError
from pellucid.exports.gguf.architectures import Architecture
from pellucid.maths.positions.rotary import rotary_frequencies
from pellucid.maths.positions.rotary_scaling import llama3_frequencies, ntk_frequencies

_LAYER = re.compile(r"(encoder|decoder)\.blocks\.(\d+)\.(.+)\.(weight|bias|gain)")
#: Parts outside of layers. In T5 each stack has its own.
_OUTER = {
    "token_embedding.weight": "token_embd.weight",
    "segment_embedding.weight": "token_types.weight",
    "head.weight": "output.weight",
    "decoder.positions.embedding.weight": "position_embd.weight",
    "encoder.positions.embedding.weight": "position_embd.weight",
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
    "attention_norm": "attn_norm",
    "attention_norm.before": "attn_norm",
    "attention_norm.after": "post_attention_norm",
    "feed_forward.gate": "ffn_gate",
    "feed_forward.up": "ffn_up",
    "feed_forward.down": "ffn_down",
    "feed_forward_norm": "ffn_norm",
    "feed_forward_norm.before": "ffn_norm",
    "feed_forward_norm.after": "post_ffw_norm",
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
#: Heads that llama.cpp does not compute: it gives an encoder's states.
_DROPPED = ("head_bias", "head_transform.", "head.", "pooler.")


def gguf_tensors(
    architecture: Architecture, model: config.Transformer, tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """All tensors of the file, by their names there, in float32.

    Args:
        architecture: of llama.cpp.
        model: the config.
        tensors: the weights by pellucid's names.

    Raises:
        CheckpointError: llama.cpp has no place for a tensor; names it.
    """
    ready = {name: tensor.detach().cpu().float() for name, tensor in tensors.items()}
    if model.decoder is None:
        ready = {name: t for name, t in ready.items() if not name.startswith(_DROPPED)}
    _add_zero_biases(architecture, model, ready)
    _scale_queries(architecture, model, ready)
    _prepare_norms(model, ready)
    _pair_features(architecture, model, ready)
    head = _written_head(architecture, model, ready)
    if head is not None:
        ready["head.weight"] = head
    file_tensors = {gguf_name(name, model): tensor for name, tensor in ready.items()}
    if architecture.joined:
        file_tensors = _joined(file_tensors)
    file_tensors |= _frequency_factors(model)
    return {name: tensor.contiguous() for name, tensor in file_tensors.items()}


def gguf_name(parameter: str, model: config.Transformer) -> str:
    """The name of a parameter in a GGUF file.

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
    inner = {
        **_INNER,
        **_NORMS_BEHIND.get(type(stack_config.residual), {}),
        **(_T5_INNER if is_pair else {}),
    }
    if part not in inner:
        raise CheckpointError(f"llama.cpp has no place for the tensor {parameter}")
    prefix = f"{stack[:3]}." if is_pair else ""
    return f"{prefix}blk.{number}.{inner[part]}.{'weight' if leaf == 'gain' else leaf}"


def _outer_name(parameter: str, *, is_pair: bool) -> str:
    path, _, leaf = parameter.rpartition(".")
    if is_pair and path in ("encoder.final_norm", "decoder.final_norm"):
        return f"{path[:3]}.output_norm.weight"
    if is_pair and parameter.endswith("positions.table.weight"):
        return f"{path[:3]}.blk.0.attn_rel_b.weight"
    if parameter in _OUTER:
        return _OUTER[parameter]
    if path in _OUTER:
        return f"{_OUTER[path]}.{'weight' if leaf == 'gain' else leaf}"
    if parameter == "head_bias":
        return "output.bias"
    raise CheckpointError(f"llama.cpp has no place for the tensor {parameter}")


def _add_zero_biases(
    architecture: Architecture, model: config.Transformer, tensors: dict[str, Tensor]
) -> None:
    """Zeros for biases that llama.cpp insists on: they change no output."""
    for path in _linear_paths(model, architecture.biases):
        weight = tensors.get(f"{path}.weight")
        if weight is not None and f"{path}.bias" not in tensors:
            tensors[f"{path}.bias"] = torch.zeros(weight.shape[0])


def _linear_paths(model: config.Transformer, parts: Iterable[str]) -> list[str]:
    stacks = (("encoder", model.encoder), ("decoder", model.decoder))
    return [
        f"{name}.blocks.{layer}.{part}"
        for name, stack in stacks
        if stack is not None
        for layer in range(stack.n_layers)
        for part in parts
    ]


def _heads(stack: config.Stack, layer: int) -> config.MultiHead:
    attention = stack.layers[layer].attention
    assert isinstance(attention, config.MultiHead)  # a family holds it
    return attention


def _scale_queries(
    architecture: Architecture, model: config.Transformer, tensors: dict[str, Tensor]
) -> None:
    """Fold a factor of the scores into the queries, where llama.cpp takes 1 / sqrt(d_head)."""
    is_pair = model.encoder is not None and model.decoder is not None
    if is_pair or architecture.scale:
        return  # T5 has no factor there either
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for layer in range(0 if stack is None else stack.n_layers):
            assert stack is not None
            attention = _heads(stack, layer)
            usual = 1 / math.sqrt(attention.d_head)
            if attention.scale is None or math.isclose(attention.scale, usual, rel_tol=1e-6):
                continue
            path = f"{name}.blocks.{layer}.attention"
            parameter_names = (
                (f"{path}.query.weight", f"{path}.query.bias")
                if attention.qk_norm is None
                else (f"{path}.query_norm.gain",)
            )
            for leaf in parameter_names:
                if leaf in tensors:
                    tensors[leaf] = tensors[leaf] * (attention.scale / usual)


def _prepare_norms(model: config.Transformer, tensors: dict[str, Tensor]) -> None:
    """Gains that are 1 + the weight are written as they act."""
    offset = {
        name
        for name, stack in (("encoder", model.encoder), ("decoder", model.decoder))
        if stack is not None and getattr(stack.norm, "unit_offset", False)
    }
    for name in list(tensors):
        if name.endswith(".gain") and name.partition(".")[0] in offset:
            tensors[name] = tensors[name] + 1


def _pair_features(
    architecture: Architecture, model: config.Transformer, tensors: dict[str, Tensor]
) -> None:
    """Order the features of queries and keys so that llama.cpp rotates the same pairs."""
    stack = model.decoder or model.encoder
    assert stack is not None
    positions = stack.positions
    if not isinstance(positions, config.Rotary) or positions.pairing == architecture.pairing:
        return
    name = "decoder" if model.decoder is not None else "encoder"
    for layer in range(stack.n_layers):
        attention = _heads(stack, layer)
        rotated = positions.n_features or attention.d_head
        order = pairing_order(positions.pairing, rotated, attention.d_head)
        for part in ("query", "key"):
            for leaf in ("weight", "bias"):
                path = f"{name}.blocks.{layer}.attention.{part}.{leaf}"
                if path in tensors:
                    tensors[path] = _reordered(tensors[path], order)
            gain = f"{name}.blocks.{layer}.attention.{part}_norm.gain"
            if gain in tensors:
                tensors[gain] = _reordered(tensors[gain], order)


def _reordered(tensor: Tensor, order: Tensor) -> Tensor:
    """Rows, head by head, in another order."""
    heads = tensor.reshape(-1, len(order), *tensor.shape[1:])
    return heads[:, order].reshape(tensor.shape)


def pairing_order(pairing: str, rotated: int, width: int) -> Tensor:
    """The features of a head in the order of the other pairing; those that stay come last."""
    first, second = torch.arange(rotated // 2), torch.arange(rotated // 2, rotated)
    if pairing == "half_split":  # pairs (i, i + n / 2) become neighbours
        neighbours = torch.stack((first, second), dim=1).flatten()
    else:  # neighbours become pairs (i, i + n / 2)
        neighbours = torch.cat((torch.arange(0, rotated, 2), torch.arange(1, rotated, 2)))
    return torch.cat((neighbours, torch.arange(rotated, width)))


def _written_head(
    architecture: Architecture, model: config.Transformer, tensors: Mapping[str, Tensor]
) -> Tensor | None:
    """A head that has to be in the file although it is the embedding; None if there is none."""
    head = model.head
    if not isinstance(head, config.LanguageHead) or model.decoder is None:
        return None
    tied = "head.weight" not in tensors
    if not tied and not head.scaled:
        return None
    matrix = tensors["token_embedding.weight" if tied else "head.weight"]
    if head.scaled:  # the states are not divided by sqrt(d_model) there, so the head is
        return matrix / math.sqrt(model.d_model)
    return matrix if architecture.own_head else None


def _joined(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Queries, keys and values of a layer in one tensor, one after another."""
    joined: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        match = re.fullmatch(r"(blk\.\d+\.attn_)([qkv])\.(weight|bias)", name)
        if match is None:
            joined[name] = tensor
        elif match[2] == "q":
            parts = [tensors[f"{match[1]}{part}.{match[3]}"] for part in "qkv"]
            joined[f"{match[1]}qkv.{match[3]}"] = torch.cat(parts)
    return joined


def _frequency_factors(model: config.Transformer) -> dict[str, Tensor]:
    """By how much each rotary frequency is divided, where a single factor does not say it."""
    stack = model.decoder
    if stack is None or not isinstance(stack.positions, config.Rotary):
        return {}
    rotary = stack.positions
    n_rotated = rotary.n_features or stack.d_head
    pairs = torch.arange(n_rotated // 2, dtype=torch.float64)
    plain = rotary_frequencies(pairs, n_rotated=n_rotated, base=rotary.base)
    match rotary.scaling:
        case config.Llama3Scaling() as scaling:
            scaled = llama3_frequencies(
                plain,
                factor=scaling.factor,
                original_length=scaling.original_context_length,
                low=scaling.low_frequency_factor,
                high=scaling.high_frequency_factor,
            )
        case config.NTKScaling(factor=factor):
            scaled = ntk_frequencies(plain, factor=factor)
        case _:
            return {}
    return {"rope_freqs.weight": (plain / scaled).float()}
