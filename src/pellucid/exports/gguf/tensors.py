"""The tensors of a GGUF file, and parts that llama.cpp wants and a model lacks."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from pellucid import config
from pellucid.exports.gguf.architecture import Architecture
from pellucid.exports.gguf.layers import last_stack, named_stacks, rotary_of
from pellucid.exports.gguf.layouts import (
    joined,
    lay_out_heads,
    pair_features,
    with_stacked_experts,
)
from pellucid.exports.gguf.names import gguf_name
from pellucid.exports.gguf.rotary import frequency_factors
from pellucid.maths.positions.rotary_scaling import yarn_attention_factor

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
    ready = with_stacked_experts(ready)
    _add_zero_biases(architecture, model, ready)
    _prepare_norms(model, ready)
    _scale_queries(architecture, model, ready)
    _leave_out_offset(model, ready)
    pair_features(architecture, model, ready)
    lay_out_heads(model, ready)
    head = _written_head(architecture, model, ready)
    if head is not None:
        ready["head.weight"] = head
    file_tensors = {gguf_name(name, architecture, model): t for name, t in ready.items()}
    file_tensors = joined(architecture, file_tensors) | frequency_factors(model)
    return {name: tensor.contiguous() for name, tensor in file_tensors.items()}


def _add_zero_biases(
    architecture: Architecture, model: config.Transformer, tensors: dict[str, Tensor]
) -> None:
    """Zeros for biases that llama.cpp insists on: they change no output."""
    for path in _paths(model, architecture.biases):
        weight = tensors.get(f"{path}.weight")
        if weight is not None and f"{path}.bias" not in tensors:
            tensors[f"{path}.bias"] = torch.zeros(weight.shape[:-1])
    if architecture.mixture is not None and architecture.mixture.choice_bias == "must":
        for path in _paths(model, ("feed_forward",)):
            router = tensors.get(f"{path}.router.weight")
            if router is not None and f"{path}.choice_bias.bias" not in tensors:
                tensors[f"{path}.choice_bias.bias"] = torch.zeros(len(router))


def _paths(model: config.Transformer, parts: tuple[str, ...]) -> list[str]:
    return [
        f"{name}.blocks.{layer}.{part}"
        for name, stack in named_stacks(model).items()
        for layer in range(stack.n_layers)
        for part in parts
    ]


def _scale_queries(
    architecture: Architecture, model: config.Transformer, tensors: dict[str, Tensor]
) -> None:
    """Fold a factor of the scores into the queries, where llama.cpp has another."""
    if model.encoder is not None and model.decoder is not None:
        return  # T5 has no factor there either
    _, stack = last_stack(model)
    attention = stack.layers[0].attention
    assert isinstance(attention, config.MultiHead | config.LatentAttention)  # a family holds it
    d_score = attention.d_head
    if isinstance(attention, config.LatentAttention):
        d_score += attention.d_rotated
    factor = 1 / math.sqrt(d_score) if attention.scale is None else attention.scale
    ratio = factor / _usual_factor(architecture, model, stack, d_score)
    if math.isclose(ratio, 1, rel_tol=1e-6):
        return
    has_norm = isinstance(attention, config.MultiHead) and attention.qk_norm is not None
    parts = ("attention.query_norm.gain",)
    if not has_norm:
        parts = ("attention.query.weight", "attention.query.bias")
    for path in _paths(model, parts):
        if path in tensors:
            tensors[path] = tensors[path] * ratio


def _usual_factor(
    architecture: Architecture, model: config.Transformer, stack: config.Stack, d_score: int
) -> float:
    """By what llama.cpp multiplies scores."""
    if architecture.wide_scale_at == stack.n_layers:
        return 1 / math.sqrt(model.d_model // stack.n_heads)
    rotary = rotary_of(stack)
    scaling = None if rotary is None else rotary.scaling
    stretch = 1.0
    if architecture.yarn_in_scores and isinstance(scaling, config.YaRN):
        stretch = yarn_attention_factor(scaling.factor) ** 2
    return stretch / math.sqrt(d_score)


def _prepare_norms(model: config.Transformer, tensors: dict[str, Tensor]) -> None:
    """Gains that are 1 + the weight are written as they act."""
    offset = {
        name
        for name, stack in named_stacks(model).items()
        if getattr(stack.norm, "unit_offset", False)
    }
    for name in list(tensors):
        if name.endswith(".gain") and name.partition(".")[0] in offset:
            tensors[name] = tensors[name] + 1


def _leave_out_offset(model: config.Transformer, tensors: dict[str, Tensor]) -> None:
    """Learned positions from the row of the first token on."""
    for side, stack in named_stacks(model).items():
        name = f"{side}.positions.embedding.weight"
        if isinstance(stack.positions, config.Learned) and name in tensors:
            tensors[name] = tensors[name][stack.positions.offset :]


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
    return matrix if architecture.head == "own" else None
