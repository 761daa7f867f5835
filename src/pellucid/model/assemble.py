"""Build a model from its config: the only file where configs become models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import assert_never

import torch
from torch import nn

from pellucid import config
from pellucid.maths.initialisation import depth_scale
from pellucid.model import assemble_parts as parts
from pellucid.model.attention import (
    NO_DISTANCES,
    CrossAttention,
    DistanceProjections,
    Heads,
    MultiHeadAttention,
    QueryKeyNorms,
    Scores,
)
from pellucid.model.blocks import Block, ParallelBlock, Stack
from pellucid.model.half import refuse_half
from pellucid.model.initialisation import empty_embedding, initialise
from pellucid.model.latent_attention import Latent, LatentAttention, LatentHeads
from pellucid.model.linear_attention import LinearAttention
from pellucid.model.neural_memory import NeuralMemory
from pellucid.model.output_head import ClassificationHead, LanguageHead, NoHead, OutputHead
from pellucid.model.reparametrisation import spectral_norm, weight_norm
from pellucid.model.residuals import Sandwich
from pellucid.model.trainable import add_lora, train_last_layers
from pellucid.model.transformer import Transformer
from pellucid.typed import own_randomness


def assemble(model: config.Transformer, *, seed: int) -> Transformer:
    """The model that `model` describes, its weights drawn with `seed`.

    Under `torch.device("meta")` nothing is allocated or drawn.

    Raises:
        ConfigError: `vocab_size` is not set.
    """
    # torch draws from its global generator, which must not move: first weights, which are drawn
    # again below, and the initial vectors of spectral norm, which stay
    with own_randomness(seed):
        transformer = _build(model)
        if transformer.device.type != "meta":
            initialise(
                transformer,
                weights=parts.std(model.initialisation.weights),
                embedding_std=model.initialisation.embedding_std,
                scale_of=_scale_of(model),
                generator=torch.Generator().manual_seed(seed),
            )
        _reparametrise(transformer, model)
    return transformer


def _build(model: config.Transformer) -> Transformer:
    d_model, segments, width = model.d_model, model.embedding.segments, model.token_width
    return Transformer(
        token_embedding=empty_embedding(model.rows, width),
        context_length=model.context_length,
        encoder=None if model.encoder is None else _stack(model, model.encoder, causal=False),
        decoder=None if model.decoder is None else _stack(model, model.decoder, causal=True),
        head=_head(model),
        embedding_scale=model.embedding_scale,
        segment_embedding=None if segments is None else empty_embedding(segments, width),
        pooler=nn.Linear(d_model, d_model) if model.pooler else None,
        d_model=d_model,
    )


def _stack(model: config.Transformer, stack: config.Stack, *, causal: bool) -> Stack:
    d_model = model.d_model
    return Stack(
        blocks=[_block(stack, index, layer, d_model) for index, layer in enumerate(stack.layers)],
        positions=parts.positions(model, stack, causal=causal),
        causal=causal,
        entry=parts.entry(model, stack),
        final_norm=parts.norm(stack.norm, d_model) if stack.final_norm else None,
        dropout=stack.input_dropout,
        owners=stack.owners,
    )


def _block(stack: config.Stack, index: int, layer: config.Layer, d_model: int) -> Block:
    def norm() -> nn.Module:
        if isinstance(stack.residual, config.SandwichNorm):
            pre_norm, post_norm = parts.norm(stack.norm, d_model), parts.norm(stack.norm, d_model)
            return Sandwich(before=pre_norm, after=post_norm)
        return parts.norm(stack.norm, d_model)

    crossed, rule = stack.cross_attention, stack.residual
    parallel = isinstance(rule, config.Parallel)
    block = ParallelBlock if parallel else Block
    return block(
        attention=_attention(layer, d_model, index + 1),
        feed_forward=parts.feed_forward(layer.feed_forward, d_model),
        attention_norm=norm() if index or stack.first_attention_norm else nn.Identity(),
        feed_forward_norm=None if parallel and rule.shared_norm else norm(),
        residual=parts.residual(stack.residual),
        cross_attention=None if crossed is None else _cross_attention(crossed, d_model),
        cross_attention_norm=None if crossed is None else norm(),
        dropout=stack.dropout,
    )


def _head(model: config.Transformer) -> OutputHead:
    match model.head:
        case config.NoHead():
            return NoHead()
        case config.ClassificationHead(transform=transform):
            return ClassificationHead(
                len(model.head.names),
                model.head.pooling,
                model.head.bias,
                model.head.dropout,
                transform=parts.transform(transform, model.d_model, model.d_model),
                input_dropout=model.head.input_dropout,
            )
        case config.LanguageHead(transform=transform):
            return LanguageHead(
                tied=model.embedding.tied,
                bias=model.head.bias,
                transform=parts.transform(transform, model.d_model, model.token_width),
                soft_cap=model.head.soft_cap,
                scaled=model.head.scaled,
                fixed_bias=model.head.fixed_bias,
                multiplier=model.head.multiplier,
            )
        case _:
            assert_never(model.head)


def _attention(layer: config.Layer, d_model: int, number: int) -> nn.Module:
    """The attention of a layer; `number` counts from 1."""
    attention = layer.attention
    match attention:
        case config.MultiHead():
            return MultiHeadAttention(
                d_model=d_model,
                heads=_heads(attention),
                qkv_bias=attention.biases,
                out_bias=attention.out_bias,
                scores=_scores(attention, number if attention.scale_by_layer else 1),
                norms=_query_key_norms(attention),
                window=attention.window,
                clip=attention.clip,
                output_gate=attention.output_gate,
                distances=_distance_projections(attention, layer.positions, d_model),
            )
        case config.LatentAttention():
            return _latent_attention(attention, d_model)
        case config.LinearAttention():
            return LinearAttention(
                d_model=d_model,
                n_heads=attention.n_heads,
                d_head=attention.d_head,
                qkv_bias=attention.qkv_bias,
                out_bias=attention.out_bias,
                chunk=attention.chunk,
            )
        case config.NeuralMemory():
            return NeuralMemory(
                d_model=d_model,
                n_heads=attention.n_heads,
                d_head=attention.d_head,
                window=attention.window,
                chunk=attention.chunk,
                frozen=attention.frozen,
            )
        case _:
            assert_never(attention)


def _distance_projections(
    attention: config.MultiHead, positions: config.Positions, d_model: int
) -> DistanceProjections:
    """The projections of vectors of distances, one for each term, if they have their own."""
    if not isinstance(positions, config.Disentangled) or not positions.own_projections:
        return NO_DISTANCES

    def project(n_heads: int, bias: bool) -> nn.Module:
        return nn.Linear(d_model, n_heads * attention.d_head, bias=bias)

    query_bias, key_bias, _ = attention.biases

    return DistanceProjections(
        query=project(attention.n_heads, query_bias) if positions.position_to_content else None,
        key=project(attention.n_kv_heads, key_bias) if positions.content_to_position else None,
    )


def _latent_attention(attention: config.LatentAttention, d_model: int) -> nn.Module:
    def latent(width: int) -> Latent:
        return Latent(width, parts.norm(attention.latent_norm, width))

    query_width = attention.d_query_latent
    return LatentAttention(
        d_model=d_model,
        heads=LatentHeads(
            attention.n_heads, attention.d_head, attention.d_rotated, attention.d_value
        ),
        latent=latent(attention.d_latent),
        query_latent=None if query_width is None else latent(query_width),
        latent_bias=attention.latent_bias,
        out_bias=attention.out_bias,
        scale=attention.scale,
        dropout=attention.dropout,
    )


def _cross_attention(attention: config.MultiHead, d_model: int) -> nn.Module:
    return CrossAttention(
        d_model=d_model,
        heads=_heads(attention),
        qkv_bias=attention.biases,
        out_bias=attention.out_bias,
        scores=_scores(attention),
    )


def _heads(attention: config.MultiHead) -> Heads:
    return Heads(attention.n_heads, attention.n_kv_heads, attention.d_head, attention.d_value)


def _scores(attention: config.MultiHead, divisor: int = 1) -> Scores:
    scale = attention.scale
    if divisor != 1:
        scale = (1 / math.sqrt(attention.d_head) if scale is None else scale) / divisor
    return Scores(scale, attention.soft_cap, attention.sinks, attention.dropout)


def _query_key_norms(attention: config.MultiHead) -> QueryKeyNorms | None:
    kind, d_head = attention.qk_norm, attention.d_head
    if kind is None:
        return None

    def norm(n_heads: int) -> nn.Module:
        if attention.qk_norm_over == "each_head":
            return parts.norm(kind, d_head)
        if attention.qk_norm_over == "all_heads":
            return parts.norm(kind, d_head * n_heads)
        assert isinstance(kind, config.LayerNorm | config.RMSNorm)  # config refuses others
        return parts.own_gain_norm(kind, d_head, n_heads)

    return QueryKeyNorms(
        query=norm(attention.n_heads),
        key=norm(attention.n_kv_heads),
        over_all_heads=attention.qk_norm_over != "each_head",
        after_rotation=attention.qk_norm_place == "after_rotation",
    )


def _scale_of(model: config.Transformer) -> Callable[[str], float]:
    """The factor of a matrix's initial standard deviation, from its name."""
    stacks = {"encoder.": model.encoder, "decoder.": model.decoder}

    def scale_of(name: str) -> float:
        for prefix, stack in stacks.items():
            if stack is not None and name.startswith(prefix):
                return _scale_in(stack, name, model.initialisation.outputs)
        return 1.0

    return scale_of


def _scale_in(stack: config.Stack, name: str, outputs: config.Outputs) -> float:
    writes = name.endswith(("attention.output", ".down"))
    scale = 1.0
    if isinstance(stack.residual, config.DeepNorm) and (
        writes or name.endswith(("attention.value", ".up", ".gate"))
    ):
        scale = stack.residual.beta
    if not writes:
        return scale
    match outputs:
        case "plain":
            return scale
        case "depth_scaled":
            return scale * depth_scale(stack.n_layers)
        case "zero":
            return 0.0


def _reparametrise(transformer: Transformer, model: config.Transformer) -> None:
    for built, stack in (
        (transformer.encoder, model.encoder),
        (transformer.decoder, model.decoder),
    ):
        if built is None or stack is None or stack.reparametrisation is None:
            continue
        match stack.reparametrisation:
            case config.WeightNorm():
                weight_norm(built)
            case config.SpectralNorm(power_iterations=power_iterations):
                spectral_norm(built, power_iterations=power_iterations)
            case _:
                assert_never(stack.reparametrisation)


def assemble_trained(model: Transformer, trained: config.Trained | None, *, seed: int) -> None:
    """Choose in place which weights are trained.

    Call it after you fill a published model, and before you load a checkpoint of an adapted one.

    Args:
        model: the model.
        trained: which weights; None for all.
        seed: of new weights, such as adapters; on the meta device nothing is drawn.

    Raises:
        ConfigError: `trained` does not fit this model, or its matrices are in half precision.
    """
    if trained is None:
        return
    refuse_half(model, "training")
    match trained:
        case config.LastLayers(count=count):
            train_last_layers(model, count)
        case config.LoRA():
            add_lora(
                model,
                rank=trained.rank,
                alpha=trained.alpha,
                dropout=trained.dropout,
                targets=trained.targets,
                seed=seed,
            )
        case _:
            assert_never(trained)
