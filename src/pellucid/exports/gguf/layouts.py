"""Tensors in the layouts of llama.cpp: joined, stacked, and in the order of its pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from pellucid import config
from pellucid.exports.gguf.architecture import Architecture
from pellucid.exports.gguf.layers import last_stack, rotary_of

_EXPERT = re.compile(r"(.+\.feed_forward\.experts)\.(\d+)\.(.+)")


def with_stacked_experts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of all experts of a layer as one, (experts, ...), named without a number.

    Sinks and the bias of the choice get names that end as others do, and the gate of a shared layer
    becomes a vector.
    """
    stacked: dict[str, Tensor] = {}
    experts: dict[str, dict[int, Tensor]] = {}
    for name, tensor in tensors.items():
        match = _EXPERT.fullmatch(name)
        if match is not None:
            experts.setdefault(f"{match[1]}.{match[3]}", {})[int(match[2])] = tensor
        elif name.endswith(".choice_bias"):
            stacked[f"{name}.bias"] = tensor
        elif name.endswith(".sinks"):
            stacked[f"{name}.weight"] = tensor
        elif name.endswith(".shared_gate.weight"):
            stacked[name] = tensor.flatten()
        else:
            stacked[name] = tensor
    for name, parts in experts.items():
        stacked[name] = torch.stack([parts[number] for number in sorted(parts)])
    return stacked


def lay_out_heads(model: config.Transformer, tensors: dict[str, Tensor]) -> None:
    """Latents, and gains of each head's own, as llama.cpp has them."""
    side, stack = last_stack(model)
    attention = stack.layers[0].attention
    for layer in range(stack.n_layers):
        path = f"{side}.blocks.{layer}.attention"
        if isinstance(attention, config.LatentAttention):
            _lay_out_latents(attention, path, tensors)
        elif (
            isinstance(attention, config.MultiHead)
            and attention.qk_norm_over == "each_head_own_gain"
        ):
            for part in ("query_norm.gain", "key_norm.gain"):
                if f"{path}.{part}" in tensors:
                    gain = tensors[f"{path}.{part}"]
                    tensors[f"{path}.{part}"] = gain.reshape(-1, attention.d_head)


def _lay_out_latents(
    attention: config.LatentAttention, path: str, tensors: dict[str, Tensor]
) -> None:
    """The rotated key below the latent; keys and values head by head, keys transposed."""
    latent, rotated = f"{path}.latent.weight", f"{path}.rotated_key.weight"
    tensors[latent] = torch.cat((tensors[latent], tensors.pop(rotated)))
    for part in ("key", "value"):
        heads = tensors[f"{path}.{part}.weight"].reshape(attention.n_heads, -1, attention.d_latent)
        tensors[f"{path}.{part}.weight"] = heads.mT if part == "key" else heads


def pair_features(
    architecture: Architecture, model: config.Transformer, tensors: dict[str, Tensor]
) -> None:
    """Order the features of queries and keys so that llama.cpp rotates the same pairs.

    Args:
        architecture: of llama.cpp.
        model: the config.
        tensors: by pellucid's names; changed in place.
    """
    side, stack = last_stack(model)
    rotary = rotary_of(stack)
    if rotary is None or rotary.pairing == architecture.pairing:
        return
    for number, layer in enumerate(stack.layers):
        if not isinstance(layer.positions, config.Rotary):
            continue
        rotated = rotary.n_features or stack.d_head
        path = f"{side}.blocks.{number}.attention"
        if isinstance(layer.attention, config.LatentAttention):
            plain = layer.attention.d_head
            order = pairing_order(rotary.pairing, rotated, rotated)
            in_head = torch.cat((torch.arange(plain), plain + order))
            orders = {"query": in_head, "rotated_key": order}
        else:
            order = pairing_order(rotary.pairing, rotated, stack.d_head)
            orders = {"query": order, "key": order, "query_norm": order, "key_norm": order}
        for part, order in orders.items():
            for leaf in ("weight", "bias", "gain"):
                name = f"{path}.{part}.{leaf}"
                if name in tensors:
                    tensors[name] = _reordered(tensors[name], order)


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


def joined(architecture: Architecture, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Queries, keys and values of a layer in one tensor, and its gate with its units.

    Args:
        architecture: says which are one tensor there.
        tensors: by the names in the file.
    """
    result = dict(tensors)
    for name in tensors:
        match = re.fullmatch(r"(blk\.\d+\.)(attn_q|ffn_gate)\.(weight|bias)", name)
        if match is None:
            continue
        if match[2] == "attn_q" and architecture.joined:
            parts, joint = ("attn_q", "attn_k", "attn_v"), "attn_qkv"
        elif match[2] == "ffn_gate" and architecture.gate_up:
            parts, joint = ("ffn_gate", "ffn_up"), "ffn_up"
        else:
            continue
        pieces = [result.pop(f"{match[1]}{part}.{match[3]}") for part in parts]
        result[f"{match[1]}{joint}.{match[3]}"] = torch.cat(pieces)
    return result
