"""What an architecture of llama.cpp has and lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pellucid import config
from pellucid.errors import CheckpointError
from pellucid.exports.gguf.own_metadata import nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """The mixture of experts of an architecture.

    Attributes:
        scores: the routers that it has.
        normalised: whether weights are divided by their sum; None if the file says.
        scaled: whether the file has a factor of the weights.
        groups: whether it has groups of experts, judged by their two largest scores.
        choice_bias: whether experts have, may have or lack a bias of the choice.
        shared: the same for the layer that all tokens share.
        shared_gate: whether that layer has a gate.
        shared_by_count: whether its width is a number of experts' widths.
        own_width: whether the width of an expert has a key of its own.
        dense_first: whether the first layers may be dense.
        optional: whether all layers may be dense.
    """

    scores: tuple[str, ...] = ("softmax",)
    normalised: bool | None
    scaled: bool = False
    groups: bool = False
    choice_bias: Literal["no", "may", "must"] = "no"
    shared: Literal["no", "may", "must"] = "no"
    shared_gate: bool = False
    shared_by_count: bool = False
    own_width: bool = True
    dense_first: bool = False
    optional: bool = False


def _accept(stack: config.Stack) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One architecture of llama.cpp.

    Attributes:
        name: the value of `general.architecture`.
        pairing: which features it rotates together; None if it does not rotate.
        activations: those that it has, in a feed-forward without a gate and with one.
        joined: whether queries, keys and values are one matrix.
        gate_up: whether the gate of a feed-forward and its units are one matrix.
        biases: linear layers whose biases must be there; missing ones are written as zeros.
        may_have: further linear layers that may have biases.
        norm_biases: whether norms may have biases.
        norm_names: names of norms, where they differ from the usual ones.
        head: whether the head must be the embedding, must be there, or either.
        frequency_factors: whether it reads a factor for each rotary frequency.
        scalings: the ways to stretch the angles, besides a factor for each frequency.
        partial: whether it may rotate a part of a head.
        rotates: which layers do: all, those with a window (with `windows_if_any` all if none has
            one), or three of four.
        windows: whether layers have windows, all of one size.
        window_if_any: whether the file names a window only if a layer has one.
        local: how those layers rotate: as the others do, at a base of their own without
            scaling, or without scaling alone.
        yarn_in_scores: whether YaRN's attention factor multiplies scores instead of angles.
        scales: whether the file has factors of the embedding and of what sublayers write.
        logit_scale: whether the file has a factor of the logits, or what divides them.
        square: whether the heads together must be as wide as the model.
        full_keys: whether there must be as many heads of keys as of queries.
        wide_scale_at: the number of layers at which the factor of scores is
            1 / sqrt(d_model / n_heads).
        mixture: of experts, if it has one.
        own_norms: names of norms if attention and a feed-forward beside it have one each.
        refuses: what else it lacks of a stack, as words; "" if nothing.
        own_metadata: writes the keys that it alone has; gets the writer, the library `gguf` and
            the config.
    """

    name: str
    pairing: Literal["interleaved", "half_split"] | None
    activations: Mapping[str, tuple[config.Activation, ...]]
    joined: bool = False
    gate_up: bool = False
    biases: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    norm_biases: bool = True
    norm_names: Mapping[str, str] = field(default_factory=dict[str, str])
    head: Literal["tied", "own", "either"] = "either"
    frequency_factors: bool = False
    scalings: tuple[type[config.RotaryScaling], ...] = (config.LinearScaling, config.YaRN)
    partial: bool = False
    rotates: Literal["all", "windows", "windows_if_any", "three_of_four"] = "all"
    windows: bool = False
    window_if_any: bool = False
    local: Literal["same", "own_base", "unscaled"] = "same"
    yarn_in_scores: bool = False
    scales: bool = False
    logit_scale: Literal["no", "factor", "divisor"] = "no"
    square: bool = False
    full_keys: bool = False
    wide_scale_at: int | None = None
    mixture: Mixture | None = None
    own_norms: Mapping[str, str] = field(default_factory=dict[str, str])
    refuses: Callable[[config.Stack], str] = _accept
    own_metadata: Callable[[Any, Any, config.Transformer], None] = nothing

    def lacks(self, part: str) -> CheckpointError:
        """The refusal of a model with a part that it does not have."""
        return CheckpointError(f"llama.cpp's {self.name} does not have {part}")


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
