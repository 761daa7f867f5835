"""Whether llama.cpp computes a model: the refusals, each with the part that it lacks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pellucid import config
from pellucid.errors import CheckpointError
from pellucid.exports.gguf.architecture import Architecture
from pellucid.exports.gguf.architectures import ARCHITECTURES
from pellucid.exports.gguf.fit_experts import check_mixtures
from pellucid.exports.gguf.fit_rotary import check_rotary
from pellucid.exports.gguf.layers import dense_of, windows_of

#: The bias of a layer's part, with the number of an expert or without.
_BIAS = re.compile(r"(?:encoder|decoder)\.blocks\.\d+\.(.+?)(?:\.\d+(\..+))?\.bias")
#: The furthest distance with a bucket of its own in llama.cpp's T5.
_MAX_DISTANCE = 128


def architecture_for(
    families: Sequence[str], model: config.Transformer, parameters: Iterable[str]
) -> Architecture:
    """The architecture of llama.cpp that computes a model.

    Args:
        families: the `model_type` of each family that holds the model, the preferred one first.
        model: the config.
        parameters: the names of its weights.

    Raises:
        CheckpointError: llama.cpp has none; names the part that the first lacks.
    """
    if isinstance(model.head, config.ClassificationHead):
        raise CheckpointError(
            "a GGUF file holds language models and encoders, and this model names classes: leave "
            "--format gguf out"
        )
    parameters, refusal = list(parameters), None
    for architecture in map(ARCHITECTURES.get, families):
        if architecture is None:
            continue
        try:
            _check(architecture, model, parameters)
        except CheckpointError as error:
            refusal = refusal or error
        else:
            return architecture
    raise refusal or CheckpointError(
        f"pellucid writes no GGUF file of a {families[0]}; those that it writes: "
        f"{', '.join(ARCHITECTURES)}"
    )


def _check(architecture: Architecture, model: config.Transformer, parameters: list[str]) -> None:
    if architecture.head == "tied" and not model.embedding.tied:
        raise architecture.lacks("a head other than the embedding (embedding.tied = false)")
    for stack in model.stacks:
        _check_attention(architecture, model, stack)
        _check_feed_forward(architecture, stack)
        check_mixtures(architecture, stack)
        _check_positions(architecture, stack)
        _check_norms(architecture, stack)
        if missing := architecture.refuses(stack):
            raise architecture.lacks(missing)
    _check_biases(architecture, parameters)


def _check_attention(
    architecture: Architecture, model: config.Transformer, stack: config.Stack
) -> None:
    kinds = {
        replace(kind, window=None) if isinstance(kind, config.MultiHead) else kind
        for kind in (layer.attention for layer in stack.layers)
    }
    if len(kinds) > 1:
        raise CheckpointError(
            "attention differs from layer to layer in more than its window, and llama.cpp's "
            f"{architecture.name} has one for all layers"
        )
    (attention,) = kinds
    if len({window for window in windows_of(stack) if window is not None}) > 1:
        raise architecture.lacks("windows of different sizes")
    if isinstance(attention, config.LatentAttention) and attention.latent_bias:
        raise architecture.lacks("biases in the projections to latents")
    if not isinstance(attention, config.MultiHead):
        return
    width = attention.n_heads * attention.d_head
    if architecture.square and width != model.d_model:
        raise architecture.lacks(
            f"heads of {attention.d_head} features that together are not as wide as the model: "
            f"n_heads x d_head is {width}, and d_model {model.d_model}",
        )
    if architecture.full_keys and attention.n_kv_heads != attention.n_heads:
        raise architecture.lacks("fewer heads of keys than of queries (attention.n_kv_heads)")


def _check_feed_forward(architecture: Architecture, stack: config.Stack) -> None:
    """The dense layers are alike, and have an activation of the architecture."""
    layers = {layer.feed_forward for layer in stack.layers}
    if len({kind for kind in layers if not isinstance(kind, config.Experts)}) > 1:
        raise CheckpointError(
            "feed_forward differs from layer to layer, and llama.cpp's "
            f"{architecture.name} has one for all layers"
        )
    match dense_of(stack):
        case None:
            return
        case config.GatedMLP(activation=activation):
            allowed = architecture.activations.get("gated", ())
        case config.MLP(activation=activation):
            allowed = architecture.activations.get("plain", ())
        case dense:
            raise architecture.lacks(f"dense layers of the kind {type(dense).__name__}")
    if activation not in allowed:
        raise CheckpointError(
            f"feed_forward.activation is {activation}, and llama.cpp's "
            f"{architecture.name} has {', '.join(allowed) or 'no such feed-forward'}"
        )


def _check_positions(architecture: Architecture, stack: config.Stack) -> None:
    if architecture.pairing is not None:
        check_rotary(architecture, stack)
    elif len({layer.positions for layer in stack.layers}) > 1:
        raise CheckpointError(
            "positions differs from layer to layer, and llama.cpp's "
            f"{architecture.name} has one for all layers"
        )
    positions = stack.layers[0].positions
    if isinstance(positions, config.BucketedBias) and positions.max_distance != _MAX_DISTANCE:
        raise CheckpointError(
            f"positions.max_distance is {positions.max_distance}, and llama.cpp has "
            f"{_MAX_DISTANCE} in every {architecture.name}"
        )


def _check_norms(architecture: Architecture, stack: config.Stack) -> None:
    """The file has one eps for all norms."""
    attention = stack.layers[0].attention
    norms = [stack.norm, stack.input_norm]
    match attention:
        case config.MultiHead(qk_norm=norm) | config.LatentAttention(latent_norm=norm):
            norms.append(norm)
        case _:
            pass
    sizes = [norm.eps for norm in norms if norm is not None]
    if not math.isclose(min(sizes), max(sizes), rel_tol=1e-6):
        raise architecture.lacks(f"norms of different eps ({min(sizes):g} and {max(sizes):g})")


def _check_biases(architecture: Architecture, parameters: list[str]) -> None:
    """Where llama.cpp has no bias, it would not open a file with one, or would leave it out."""
    allowed = {*architecture.biases, *architecture.may_have}
    for name in parameters:
        match = _BIAS.fullmatch(name)
        if match is None or match[1] + (match[2] or "") in allowed:
            continue
        if not (architecture.norm_biases and "_norm" in match[1]):
            raise architecture.lacks(f"biases in {match[1]}{match[2] or ''}")
