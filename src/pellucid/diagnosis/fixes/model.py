"""Fixes of the architecture and of the first weights: the config changes of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from pellucid import config
from pellucid.diagnosis.fixes.training import Changes, ConfigChange, round_number

_OVER_OTHERS = (config.BatchNorm, config.InstanceNorm)
_NORM_AFTER = (config.PostNorm, config.DeepNorm)
#: A larger eps may exceed the variance; a smaller one vanishes in float32.
_LARGEST_EPS, _SMALLEST_EPS = 1e-4, 1e-9
_PLAIN_NORM = config.LayerNorm(eps=1e-5, bias=True)


def _stacks(run: config.Run) -> Iterator[tuple[str, config.Stack]]:
    """The stacks by their paths."""
    for name in ("encoder", "decoder"):
        stack = getattr(run.model, name)
        if stack is not None:
            yield f"model.{name}", stack


def _in_stacks(change: Callable[[config.Stack], Changes]) -> ConfigChange:
    """The changes of each stack, by their paths in the run."""
    return lambda run: {
        f"{path}.{key}": value
        for path, stack in _stacks(run)
        for key, value in change(stack).items()
    }


def _pre_norm(*kinds: type[Any]) -> ConfigChange:
    """PreNorm instead of residual rules of these kinds."""
    return _in_stacks(
        lambda stack: (
            {"residual": config.PreNorm(), "final_norm": True}
            if isinstance(stack.residual, kinds)
            else {}
        )
    )


def _deep_norm(run: config.Run) -> Changes:
    """The constants of table 2, for a single stack and for an encoder with its decoder."""
    layers = {path: stack.n_layers for path, stack in _stacks(run)}
    n, m = layers.get("model.encoder", 0), layers.get("model.decoder", 0)
    changes: Changes = {}
    for path, stack in _stacks(run):
        if not isinstance(stack.residual, config.PostNorm):
            continue
        if not (n and m):
            alpha, beta = (2 * (n or m)) ** 0.25, (8 * (n or m)) ** -0.25
        elif path == "model.encoder":
            alpha, beta = 0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16)
        else:
            alpha, beta = (3 * m) ** 0.25, (12 * m) ** -0.25
        changes[f"{path}.residual"] = config.DeepNorm(
            alpha=round_number(alpha), beta=round_number(beta)
        )
    return changes


@_in_stacks
def _sandwich_norm(stack: config.Stack) -> Changes:
    fits = isinstance(stack.residual, config.PreNorm) and stack.first_attention_norm
    return {"residual": config.SandwichNorm()} if fits else {}


@_in_stacks
def _final_norm(stack: config.Stack) -> Changes:
    is_missing = not stack.final_norm and not isinstance(stack.residual, _NORM_AFTER)
    return {"final_norm": True} if is_missing else {}


@_in_stacks
def _token_norm(stack: config.Stack) -> Changes:
    changes: Changes = {
        name: _PLAIN_NORM
        for name in ("norm", "input_norm")
        if isinstance(getattr(stack, name), _OVER_OTHERS)
    }
    return changes | _attention(stack, _without_leak)


def _without_leak(layer: config.MultiHead) -> config.MultiHead:
    if isinstance(layer.qk_norm, _OVER_OTHERS):
        return replace(layer, qk_norm=config.RMSNorm(eps=1e-6))
    return layer


@_in_stacks
def _norm_eps(stack: config.Stack) -> Changes:
    norms = {name: getattr(stack, name) for name in ("norm", "input_norm")}
    return {
        f"{name}.eps": 1e-5
        for name, norm in norms.items()
        if norm is not None and not _SMALLEST_EPS <= norm.eps <= _LARGEST_EPS
    }


def _attention(
    stack: config.Stack, change: Callable[[config.MultiHead], config.MultiHead]
) -> Changes:
    """Change every layer of softmax attention: single values, or the list of layers."""

    def change_layer(layer: config.OneAttention) -> config.OneAttention:
        return change(layer) if isinstance(layer, config.MultiHead) else layer

    new_attention = config.map_kinds(stack.attention, change_layer)
    return _differences("attention", stack.attention, new_attention)


def _in_attention(change: Callable[[config.MultiHead], config.MultiHead]) -> ConfigChange:
    return _in_stacks(lambda stack: _attention(stack, change))


def _with_qk_norm(layer: config.MultiHead) -> config.MultiHead:
    return layer if layer.qk_norm else replace(layer, qk_norm=config.RMSNorm(eps=1e-6))


def _with_cap(layer: config.MultiHead) -> config.MultiHead:
    capped = layer.soft_cap is not None and layer.soft_cap <= 50
    return layer if capped else replace(layer, soft_cap=50.0)


def _logit_cap(run: config.Run) -> Changes:
    head = run.model.head
    is_needed = isinstance(head, config.LanguageHead) and (head.soft_cap or math.inf) > 30
    return {"model.head.soft_cap": 30.0} if is_needed else {}


@_in_stacks
def _positions(stack: config.Stack) -> Changes:
    has_none = all(isinstance(scheme, config.NoPositions) for scheme in stack.schemes)
    d_heads = {layer.attention.d_head for layer in stack.layer_counts}
    fits = has_none and len(d_heads) == 1 and stack.d_head % 2 == 0
    return {"positions": config.Rotary(base=10_000.0)} if fits else {}


@_in_stacks
def _gelu(stack: config.Stack) -> Changes:
    def soften(layer: config.OneFeedForward) -> config.OneFeedForward:
        match layer:
            case config.MLP() | config.GatedMLP() if layer.activation in ("relu", "relu_squared"):
                return replace(layer, activation="gelu")
            case config.Experts():
                shared = None if layer.shared is None else soften(layer.shared)
                return replace(layer, expert=soften(layer.expert), shared=shared)
            case _:
                return layer

    return _feed_forward(stack, soften)


@_in_stacks
def _swiglu(stack: config.Stack) -> Changes:
    """Three matrices of two thirds of the width have as many weights as two."""

    def gate(layer: config.OneFeedForward) -> config.OneFeedForward:
        if not isinstance(layer, config.MLP):
            return layer
        width = max(1, round(layer.d_ff * 2 / 3))
        return config.GatedMLP(d_ff=width, activation="silu", bias=layer.bias)

    return _feed_forward(stack, gate)


def _experts(change: Callable[[config.Experts], config.Experts]) -> ConfigChange:
    """Change every mixture of experts."""

    def change_layer(layer: config.OneFeedForward) -> config.OneFeedForward:
        return change(layer) if isinstance(layer, config.Experts) else layer

    return _in_stacks(lambda stack: _feed_forward(stack, change_layer))


def _with_load_loss(layer: config.Experts) -> config.Experts:
    return layer if layer.load_loss >= 0.01 else replace(layer, load_loss=0.01)


def _with_balancing_bias(layer: config.Experts) -> config.Experts:
    router = layer.router
    if router.balancing_rate:
        return layer
    return replace(layer, router=replace(router, balancing_rate=0.001))


def _feed_forward(
    stack: config.Stack, change: Callable[[config.OneFeedForward], config.OneFeedForward]
) -> Changes:
    """Change the feed-forward of every layer: a single value, or the whole part."""
    old, new = stack.feed_forward, config.map_kinds(stack.feed_forward, change)
    if new == old:
        return {}
    if type(new) is not type(old) or isinstance(new, config.AlternatingFeedForward):
        return {"feed_forward": new}
    return _differences("feed_forward", old, new)


def _differences(path: str, old: Any, new: Any) -> Changes:
    """The values of a part that another of its kind has otherwise, by their paths."""
    return {
        f"{path}.{field.name}": getattr(new, field.name)
        for field in fields(new)
        if getattr(new, field.name) != getattr(old, field.name)
    }


def _small(run: config.Run) -> float:
    return round_number(math.sqrt(2 / (5 * run.model.d_model)))


def _small_init(run: config.Run) -> Changes:
    return {
        "model.initialisation.weights": config.Normal(std=_small(run)),
        "model.initialisation.embedding_std": _small(run),
    }


def _initialise(name: str, value: Any) -> ConfigChange:
    return lambda run: {f"model.initialisation.{name}": value}


MODEL_FIXES: Mapping[str, ConfigChange] = {
    "residual": _pre_norm(config.NoResidual),
    "pre_norm": _pre_norm(config.PostNorm, config.NoResidual, config.DeepNorm),
    "deep_norm": _deep_norm,
    "sandwich_norm": _sandwich_norm,
    "final_norm": _final_norm,
    "token_norm": _token_norm,
    "norm_eps": _norm_eps,
    "qk_norm": _in_attention(_with_qk_norm),
    "score_cap": _in_attention(_with_cap),
    "score_scale": _in_attention(lambda layer: replace(layer, scale=None)),
    "whole_window": _in_attention(lambda layer: replace(layer, window=None)),
    "logit_cap": _logit_cap,
    "positions": _positions,
    "gelu": _gelu,
    "swiglu": _swiglu,
    "load_loss": _experts(_with_load_loss),
    "balancing_bias": _experts(_with_balancing_bias),
    "small_init": _small_init,
    "scaled_init": lambda run: _small_init(run) | {"model.initialisation.outputs": "depth_scaled"},
    "xavier": _initialise("weights", config.Xavier()),
    "he": _initialise("weights", config.He()),
    "depth_scaled": _initialise("outputs", "depth_scaled"),
    "zero_outputs": _initialise("outputs", "zero"),
    "small_embedding": lambda run: {"model.initialisation.embedding_std": _small(run)},
}
