"""The type of a family of published models: tables, and functions between the two configs.

A family is a value in `families`. It converts the attributes of a `config.json` to a
`config.Transformer`, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Rules, Table
from pellucid.checkpoints.huggingface.names import Names, Source
from pellucid.errors import CheckpointError


class Unfit(Exception):  # noqa: N818  not an error: another family may fit
    """A family does not fit a model because of one of its parts.

    `shape`: the part is an encoder or a decoder that the family does not have, or lacks.
    """

    def __init__(self, part: str, reason: str, *, shape: bool = False) -> None:
        super().__init__(f"{part} {reason}")
        self.shape = shape


@dataclass(frozen=True, slots=True)
class DirectoryContents:
    """The architecture that a directory states, and the full names of its tensors."""

    architecture: str
    tensors: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One `model_type` of `transformers`.

    Attributes:
        model_type: its name.
        architectures: the classes that can be read; the first if a file names none.
        rules: what each attribute of `config.json` means.
        names: the published tensor of each parameter.
        read: from attributes to a config.
        describe: from a config to attributes.
        architecture_of: the class that a model is written as; None for the first.
        prefix: what all names start with in a model with a head, and lack in one without.
        older: ends of names in older files, and their ends today.
        ignored_tensors: patterns of tensors that have no parameter, with the reason.
        copies: tensors that must equal another one.
        names_when_gated: names that replace some of `names` if the feed-forward is gated.
    """

    model_type: str
    architectures: tuple[str, ...]
    rules: Rules
    names: Names
    read: Callable[[Table, DirectoryContents], config.Transformer]
    describe: Callable[[config.Transformer], Table]
    architecture_of: Callable[[config.Transformer], str] | None = None
    prefix: str = ""
    older: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored_tensors: Mapping[str, str] = field(default_factory=dict[str, str])
    copies: Mapping[str, str] = field(default_factory=dict[str, str])
    names_when_gated: Names = field(default_factory=dict[str, Source])

    def architecture_for(self, model: config.Transformer) -> str:
        """The class that a model is written as."""
        architecture_of = self.architecture_of
        return self.architectures[0] if architecture_of is None else architecture_of(model)

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
    "tanh": "tanh",
}
#: The usual published name of each activation.
WRITTEN_ACTIVATIONS: dict[config.Activation, str] = {
    "relu": "relu",
    "relu_squared": "relu2",
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "silu": "silu",
    "tanh": "tanh",
}


def activation(name: str, attribute: str) -> config.Activation:
    """The activation with a published name.

    Raises:
        CheckpointError: pellucid does not have it.
    """
    if name not in _ACTIVATIONS:
        raise CheckpointError(
            f"config.json: {attribute} = {name!r} is not handled; those that are: "
            f"{', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[name]


def normal_start(std: float, *, depth_scaled: bool = False) -> config.Initialisation:
    """Initial weights from one normal distribution."""
    return config.Initialisation(
        weights=config.Normal(std=std),
        embedding_std=std,
        outputs="depth_scaled" if depth_scaled else "plain",
    )


def std_of(model: config.Transformer) -> float:
    """The standard deviation of the initial weights; 0.02 if it is not one number."""
    weights = model.initialisation.weights
    return weights.std if isinstance(weights, config.Normal) else 0.02


def lone_decoder(model: config.Transformer) -> config.Stack:
    """The decoder of a model that is a decoder only.

    Raises:
        Unfit: it has an encoder.
    """
    if model.decoder is None or model.encoder is not None:
        raise Unfit("encoder", "is present, but this family is a decoder only", shape=True)
    return model.decoder


def multi_head(stack: config.Stack) -> config.MultiHead:
    """The attention of the first layer.

    Raises:
        Unfit: a layer has another kind of attention.
    """
    for layer in stack.layers:
        if not isinstance(layer, config.MultiHead):
            raise Unfit("attention", f"is {type(layer).__name__}, but this family has MultiHead")
    first = stack.layers[0]
    assert isinstance(first, config.MultiHead)
    return first


def rotary(stack: config.Stack) -> config.Rotary:
    """The rotary positions of a stack.

    Raises:
        Unfit: its positions are not rotary.
    """
    if not isinstance(stack.positions, config.Rotary):
        kind = type(stack.positions).__name__
        raise Unfit("positions", f"is {kind}, but this family has Rotary")
    return stack.positions


def alternating(layers: tuple[config.MultiHead, ...]) -> config.Attention:
    """The attention of all layers: the shortest pattern that repeats to them."""
    period = next(
        n
        for n in range(1, len(layers) + 1)
        if all(layer == layers[i % n] for i, layer in enumerate(layers))
    )
    return layers[0] if period == 1 else config.Alternating(layers=layers[:period])
