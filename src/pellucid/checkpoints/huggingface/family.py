"""What a family of published models is: tables, and a function each way between config and config.

A family is a value; `families` holds one file for each. Comes in: attributes of a `config.json`.
Goes out: a `config.Transformer`, and back. It does not know files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Rules, Table
from pellucid.checkpoints.huggingface.names import Names, Source
from pellucid.errors import CheckpointError


class Unfit(Exception):  # noqa: N818  not an error: another family may fit
    """A model cannot be said in a family at all, because of one of its parts.

    `shape`: it is that the model has an encoder, or a decoder, or not.
    """

    def __init__(self, part: str, why: str, *, shape: bool = False) -> None:
        super().__init__(f"{part} {why}")
        self.shape = shape


@dataclass(frozen=True, slots=True)
class Found:
    """What a directory says beside its attributes: the architecture, and which tensors there are.

    Tensors by their full names.
    """

    architecture: str
    tensors: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One `model_type` of `transformers`.

    `architectures`: the classes that are read, the first where a file names none. `read` and
    `describe` go from attributes to config and back; `names` from parameter to tensor.
    `architecture_of` is the class that a model is written as.

    `names_when_gated` are laid over `names` where the feed-forward is gated. `prefix` is what all
    names begin with in a model with a head, and lack in one without. `older` are ends of names that
    older files have. `left_out`: patterns of tensors that have no place here, and why. `copies`:
    tensors that may only repeat another.
    """

    model_type: str
    architectures: tuple[str, ...]
    rules: Rules
    names: Names
    read: Callable[[Table, Found], config.Transformer]
    describe: Callable[[config.Transformer], Table]
    architecture_of: Callable[[config.Transformer], str]
    prefix: str = ""
    older: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    copies: Mapping[str, str] = field(default_factory=dict[str, str])
    names_when_gated: Names = field(default_factory=dict[str, Source])

    def names_for(self, model: config.Transformer) -> Names:
        """The names of a model's parameters."""
        is_gated = any(isinstance(s.feed_forward, config.GatedMLP) for s in model.stacks)
        return {**self.names, **self.names_when_gated} if is_gated else self.names


_ACTIVATIONS: dict[str, config.Activation] = {
    "relu": "relu",
    "relu2": "relu_squared",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
#: What each of ours is written as: the last name of the table would do, these are the usual ones.
WRITTEN_ACTIVATIONS: dict[config.Activation, str] = {
    "relu": "relu",
    "relu_squared": "relu2",
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "silu": "silu",
}


def activation(name: str, attribute: str) -> config.Activation:
    """Our name of their activation.

    Raises:
        CheckpointError: it is not one of ours.
    """
    ours = _ACTIVATIONS.get(name)
    if ours is None:
        raise CheckpointError(
            f"config.json: {attribute} = {name!r} is not handled; those that are: "
            f"{', '.join(_ACTIVATIONS)}"
        )
    return ours


def drawn(std: float, *, depth_scaled: bool = False) -> config.Initialisation:
    """How the weights once started: all from one normal distribution."""
    return config.Initialisation(
        weights=config.Normal(std=std),
        embedding_std=std,
        outputs="depth_scaled" if depth_scaled else "plain",
    )


def std_of(model: config.Transformer) -> float:
    """The standard deviation that weights are drawn with, where it is one number."""
    weights = model.initialisation.weights
    return weights.std if isinstance(weights, config.Normal) else 0.02


def lone_decoder(model: config.Transformer) -> config.Stack:
    """The decoder of a model that is nothing else.

    Raises:
        Unfit: it has an encoder.
    """
    if model.decoder is None or model.encoder is not None:
        raise Unfit("encoder", "is there, and a decoder alone can be said", shape=True)
    return model.decoder


def multi_head(stack: config.Stack) -> config.MultiHead:
    """The attention of the first layer.

    Raises:
        Unfit: there is a layer with attention of another kind.
    """
    for layer in stack.layers:
        if not isinstance(layer, config.MultiHead):
            raise Unfit("attention", f"is {type(layer).__name__}, and only MultiHead can be said")
    first = stack.layers[0]
    assert isinstance(first, config.MultiHead)
    return first


def rotary(stack: config.Stack) -> config.Rotary:
    """The positions, where they are rotary.

    Raises:
        Unfit: they are not.
    """
    if not isinstance(stack.positions, config.Rotary):
        kind = type(stack.positions).__name__
        raise Unfit("positions", f"is {kind}, and only Rotary can be said")
    return stack.positions


def alternating(layers: tuple[config.MultiHead, ...]) -> config.Attention:
    """The shortest pattern that repeats to these layers."""
    period = next(
        n
        for n in range(1, len(layers) + 1)
        if all(layer == layers[i % n] for i, layer in enumerate(layers))
    )
    return layers[0] if period == 1 else config.Alternating(layers=layers[:period])
