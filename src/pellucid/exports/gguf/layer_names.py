"""Activations and linear layers, by the names that the tables of architectures use."""

from __future__ import annotations

from pellucid import config

Activations = dict[str, tuple[config.Activation, ...]]
SILU: Activations = {"gated": ("silu",)}
#: llama.cpp has one GELU, the approximation by tanh.
GELU: Activations = {"plain": ("gelu", "gelu_tanh")}
GEGLU: Activations = {"gated": ("gelu_tanh",)}
SQUARED: Activations = {"plain": ("relu_squared",)}

QKV = ("attention.query", "attention.key", "attention.value")
OUT = ("attention.output",)
FEED = ("feed_forward.up", "feed_forward.down")
GATED_FEED = ("feed_forward.gate", *FEED)
ALL = (*QKV, *OUT, *FEED)
EXPERT_BIASES = (
    "feed_forward.router",
    *(f"feed_forward.experts.{part}" for part in ("gate", "up", "down")),
)
#: The norm before a feed-forward under the name of one behind attention.
POST_ATTENTION = {"feed_forward_norm": "post_attention_norm"}
