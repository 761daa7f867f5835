"""What llama.cpp computes for each architecture, as far as our families can be written as it.

Source:
    llama.cpp, src/models: the tensors that each architecture loads, and its graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pellucid import config
from pellucid.errors import CheckpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One architecture of llama.cpp.

    Attributes:
        name: the value of `general.architecture`.
        pairing: which features it rotates together; None if it does not rotate.
        activations: those that it has, in a feed-forward without a gate and with one.
        joined: whether queries, keys and values are one matrix.
        biases: linear layers whose biases must be there; missing ones are written as zeros.
        own_head: whether the head must be there even if it is the embedding.
        frequency_factors: whether it reads a factor for each rotary frequency.
        windows: whether layers take turns with a window, the first one local.
        scale: whether it takes a factor of the scores from the file.
    """

    name: str
    pairing: Literal["interleaved", "half_split"] | None
    activations: Mapping[str, tuple[config.Activation, ...]]
    joined: bool = False
    biases: tuple[str, ...] = ()
    own_head: bool = False
    frequency_factors: bool = False
    windows: bool = False
    scale: bool = False


_SILU: dict[str, tuple[config.Activation, ...]] = {"gated": ("silu",)}
#: llama.cpp has one GELU, the approximation by tanh.
_GELU: dict[str, tuple[config.Activation, ...]] = {"plain": ("gelu", "gelu_tanh")}
_ALL_BIASES = (
    "attention.query",
    "attention.key",
    "attention.value",
    "attention.output",
    "feed_forward.up",
    "feed_forward.down",
)

_LLAMA = Architecture(
    name="llama", pairing="interleaved", activations=_SILU, frequency_factors=True, scale=True
)
#: By the `model_type` of the family that holds the model.
ARCHITECTURES: dict[str, Architecture] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "gpt2": Architecture(
        name="gpt2", pairing=None, activations=_GELU, joined=True, biases=_ALL_BIASES
    ),
    "gpt_neox": Architecture(
        name="gptneox",
        pairing="half_split",
        activations=_GELU,
        joined=True,
        biases=_ALL_BIASES,
        own_head=True,
    ),
    "qwen2": Architecture(name="qwen2", pairing="half_split", activations=_SILU),
    "qwen3": Architecture(name="qwen3", pairing="half_split", activations=_SILU),
    "olmo2": Architecture(name="olmo2", pairing="half_split", activations=_SILU, own_head=True),
    "gemma2": Architecture(
        name="gemma2", pairing="half_split", activations={"gated": ("gelu_tanh",)}, windows=True
    ),
    "bert": Architecture(name="bert", pairing=None, activations=_GELU, biases=_ALL_BIASES),
    "t5": Architecture(
        name="t5", pairing=None, activations={"plain": ("relu",), "gated": ("gelu_tanh",)}
    ),
}


def architecture_for(family: str, model: config.Transformer) -> Architecture:
    """The architecture of llama.cpp that computes a model.

    Args:
        family: the `model_type` of the family that holds the model.
        model: the config.

    Raises:
        CheckpointError: llama.cpp has none; names the part.
    """
    architecture = ARCHITECTURES.get(family)
    if architecture is None:
        raise CheckpointError(
            f"pellucid writes no GGUF file of a {family}; those that it writes: "
            f"{', '.join(ARCHITECTURES)}"
        )
    if isinstance(model.head, config.ClassificationHead):
        raise CheckpointError(
            "a GGUF file holds language models and encoders, and this model names classes: leave "
            "--format gguf out"
        )
    for stack in model.stacks:
        _check_stack(architecture, family, stack)
        if architecture.windows and any(windows_of(stack)) and not _alternates(stack):
            raise CheckpointError(
                f"llama.cpp's {architecture.name} has a window in every second layer, from the "
                "first on, and this model has them elsewhere"
            )
    return architecture


def windows_of(stack: config.Stack) -> list[int | None]:
    """The window of each layer; None for a layer that sees all."""
    attentions = [layer.attention for layer in stack.layers]
    return [kind.window for kind in attentions if isinstance(kind, config.MultiHead)]


def _alternates(stack: config.Stack) -> bool:
    """Whether every second layer has the same window, from the first on."""
    windows = windows_of(stack)
    return len(set(windows[::2])) == 1 and windows[0] is not None and not any(windows[1::2])


def _check_stack(architecture: Architecture, family: str, stack: config.Stack) -> None:
    attentions = (layer.attention for layer in stack.layers)
    kinds = {
        "attention": {
            replace(kind, window=None) if isinstance(kind, config.MultiHead) else kind
            for kind in attentions
        },
        "feed_forward": {layer.feed_forward for layer in stack.layers},
        "positions": {layer.positions for layer in stack.layers},
    }
    for part, different in kinds.items():
        if len(different) > 1:
            raise CheckpointError(
                f"{part} differs from layer to layer, and llama.cpp's {architecture.name} has one "
                "for all layers"
            )
    _, feed_forward, positions = stack.layers[0]
    _refuse_feed_forward(architecture, feed_forward)
    scaling = positions.scaling if isinstance(positions, config.Rotary) else None
    linear = scaling is None or isinstance(scaling, config.LinearScaling)
    by_factors = isinstance(scaling, config.Llama3Scaling | config.NTKScaling)
    if not linear and not (by_factors and architecture.frequency_factors):
        raise CheckpointError(
            f"model.decoder.positions.scaling is {type(scaling).__name__}, which llama.cpp does "
            f"not compute like this in {architecture.name}: it has LinearScaling"
            + (", Llama3Scaling and NTKScaling" if architecture.frequency_factors else "")
        )
    if isinstance(positions, config.BucketedBias) and positions.max_distance != _MAX_DISTANCE:
        raise CheckpointError(
            f"positions.max_distance is {positions.max_distance}, and llama.cpp has "
            f"{_MAX_DISTANCE} in every {family}"
        )


#: The furthest distance with a bucket of its own in llama.cpp's T5.
_MAX_DISTANCE = 128


def dense(feed_forward: config.OneFeedForward) -> config.MLP | config.GatedMLP:
    """A feed-forward that is the same for all tokens.

    Raises:
        CheckpointError: it is another.
    """
    if not isinstance(feed_forward, config.MLP | config.GatedMLP):
        raise CheckpointError(
            f"feed_forward is {type(feed_forward).__name__}, of which pellucid writes no GGUF file"
        )
    return feed_forward


def _refuse_feed_forward(architecture: Architecture, feed_forward: config.OneFeedForward) -> None:
    layer = dense(feed_forward)
    kind = "gated" if isinstance(layer, config.GatedMLP) else "plain"
    allowed = architecture.activations.get(kind, ())
    if layer.activation not in allowed:
        raise CheckpointError(
            f"feed_forward.activation is {layer.activation}, and llama.cpp's "
            f"{architecture.name} has {', '.join(allowed) or 'no such feed-forward'}"
        )
