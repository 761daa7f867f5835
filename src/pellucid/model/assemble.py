"""Build a model from its config: the only file where configs become models."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.maths.initialisation import depth_scale
from pellucid.model.blocks import Block, ParallelBlock, Stack
from pellucid.model.build import parts, positions
from pellucid.model.build.attention import attention, cross_attention
from pellucid.model.half import refuse_half
from pellucid.model.initialisation import (
    SetValues,
    empty_embedding,
    initialise,
    matrices_on_meta,
    set_whole,
)
from pellucid.model.output_head import ClassificationHead, LanguageHead, NoHead, OutputHead
from pellucid.model.reparametrisation import spectral_norm, weight_norm
from pellucid.model.residuals import Sandwich
from pellucid.model.trainable import adapters, add_lora, train_last_layers
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
            _draw(transformer, model, seed, set_whole)
        _reparametrise(transformer, model)
    return transformer


def assemble_empty(model: config.Transformer) -> Transformer:
    """The model that `model` describes; its linear layers and embeddings are on the meta device.

    Move it where you need it, then `draw_weights` gives it the numbers of `assemble`.

    Raises:
        ConfigError: `vocab_size` is not set.
    """
    with own_randomness(0), matrices_on_meta():
        return _build(model)


def has_own_matrices(model: config.Transformer) -> bool:
    """Whether each matrix is a parameter of one layer; `assemble_empty` builds no other models."""
    return all(
        stack.reparametrisation is None and stack.shared_layers is None for stack in model.stacks
    )


def draw_weights(
    transformer: Transformer, model: config.Transformer, *, seed: int, set_values: SetValues
) -> None:
    """Give an empty model, and its adapters if it has any, the first weights of `seed`.

    Args:
        transformer: the model that `assemble_empty` built.
        model: its config.
        seed: of the weights.
        set_values: fills each parameter. The numbers are drawn one whole tensor after the other;
            it may keep a part of each.
    """
    _draw(transformer, model, seed, set_values)
    with torch.no_grad():
        for layer in adapters(transformer).values():
            set_values(layer.lora_down, layer.draw_down)
            set_values(layer.lora_up, Tensor.zero_)


def _draw(
    transformer: Transformer, model: config.Transformer, seed: int, set_values: SetValues
) -> None:
    initialise(
        transformer,
        weights=parts.std(model.initialisation.weights),
        embedding_std=model.initialisation.embedding_std,
        scale_of=_scale_of(model),
        generator=torch.Generator().manual_seed(seed),
        set_values=set_values,
    )


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
        positions=positions.positions(model, stack, causal=causal),
        causal=causal,
        entry=positions.entry(model, stack),
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
        attention=attention(layer, d_model, index + 1),
        feed_forward=parts.feed_forward(layer.feed_forward, d_model),
        attention_norm=norm() if index or stack.first_attention_norm else nn.Identity(),
        feed_forward_norm=None if parallel and rule.shared_norm else norm(),
        residual=parts.residual(stack.residual),
        cross_attention=None if crossed is None else cross_attention(crossed, d_model),
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
