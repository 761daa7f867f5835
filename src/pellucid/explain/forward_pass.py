"""One sentence through a model, once: it keeps the residual stream and nothing else.

The model is in evaluation mode meanwhile, and afterwards in the mode it had. Hooks on the model
record the stream, so it reads one sentence at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from pellucid.explain.part_facts import where_positions_act
from pellucid.model import Encoded, Positions, Stack, Transformer, View
from pellucid.typed import named_modules

Side = Literal["decoder", "encoder"]

#: Two threads that read one model at once would record each other's tensors.
ONE_AT_A_TIME = threading.RLock()


class HeadPlace(NamedTuple):
    """One head of one layer's attention; `cross` is the attention to an encoder."""

    side: Side
    layer: int
    head: int
    cross: bool = False


#: How much a head counts: 0 takes it away, 1 leaves it as it is; "mean" gives each token
#: the head's average output over the sentence's tokens.
HeadScale = float | Literal["mean"]
HeadScales = Mapping[HeadPlace, HeadScale]


@dataclass(slots=True)
class StackPass:
    """One pass through one stack: its states, and the inputs of its blocks."""

    stack: Stack
    #: the ids of its text, (1, time)
    ids: Tensor
    #: the state before each block and after the last, (1, time, d_model)
    states: list[Tensor] = field(default_factory=list[Tensor])
    view: View | None = None
    encoded: Encoded | None = None
    #: after the final norm
    last: Tensor | None = None
    _paths: dict[int, str] = field(default_factory=dict[int, str])
    #: input and output of the parts before the first block, (1, time, features), by their names
    entry: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    @property
    def final(self) -> Tensor:
        """The states after the final norm."""
        assert self.last is not None
        return self.last

    @property
    def attention_view(self) -> View:
        """Which tokens attend to which."""
        assert self.view is not None
        return self.view

    def positions(self, layer: int) -> Positions:
        """The scheme of positions of a layer."""
        return self.stack.positions.for_layer(layer)

    def positions_path(self, layer: int) -> str:
        """The name of the scheme of a layer, within the stack."""
        if layer not in self._paths:
            scheme, modules = self.positions(layer), named_modules(self.stack)
            names = (name for name, module in modules.items() if module is scheme)
            self._paths[layer] = next(names)
        return self._paths[layer]

    @property
    def maps_later(self) -> bool:
        """Whether a map of the embedding to d_model comes after the positions."""
        stack = self.stack
        return stack.input_projection is not None and stack.projection_place != "first"

    @property
    def added_positions(self) -> Positions | None:
        """The scheme that is added to the embedding; None if none is."""
        for scheme in (self.stack.embedding_positions, self.positions(0)):
            if scheme is not None and where_positions_act(scheme) == "stream":
                return scheme
        return None


@torch.no_grad()
def run_forward(
    model: Transformer,
    ids: Tensor,
    source: Tensor | None,
    scales: HeadScales,
    edits: Sequence[Intervention] = (),
) -> dict[Side, StackPass]:
    """The passes of a text, and of its source if it has one, through the stacks.

    Args:
        model: the model.
        ids: (1, time), the text.
        source: (1, time), the encoder's text of an encoder-decoder.
        scales: heads that are scaled.
        edits: other changes of the pass.
    """
    passes: dict[Side, StackPass] = {}
    with ONE_AT_A_TIME, evaluating(model), scaled(model, scales, edits), ExitStack() as hooks:
        encoded = None
        if source is not None:
            assert model.encoder is not None
            passes["encoder"] = _record_stack(hooks, model.encoder, source)
            encoded = model.encode(source)
        side: Side = "encoder" if model.decoder is None else "decoder"
        passes[side] = _record_stack(hooks, model.stack, ids)
        model.states(ids, encoded=encoded)
    return passes


def _record_stack(hooks: ExitStack, stack: Stack, ids: Tensor) -> StackPass:
    """Hooks that record the states of a stack."""
    recording = StackPass(stack, ids)

    def record_input(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        recording.states.append(inputs[0])
        recording.view, recording.encoded = cast("View", inputs[2]), inputs[4]

    def record_output(_: nn.Module, inputs: Any, state: Tensor) -> None:
        recording.states.append(state)

    def record_final(_: nn.Module, inputs: Any, output: Tensor) -> None:
        recording.last = output

    for name in ("input_projection", "input_norm"):
        part = cast("nn.Module | None", getattr(stack, name))
        if part is not None:
            hooks.enter_context(part.register_forward_hook(_record_entry(recording, name)))
    for block in stack.blocks:
        hooks.enter_context(block.register_forward_pre_hook(record_input))
    hooks.enter_context(stack.blocks[-1].register_forward_hook(record_output))
    hooks.enter_context(stack.register_forward_hook(record_final))
    return recording


def _record_entry(recording: StackPass, name: str) -> Any:
    def record(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        recording.entry[f"{name}.in"], recording.entry[name] = inputs[0], output

    return record


@contextmanager
def evaluating(model: nn.Module) -> Generator[None]:
    """Within it the model is in evaluation mode."""
    modes = [(module, module.training) for module in named_modules(model).values()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


class Intervention(Protocol):
    """A change of the forward pass, other than a scaled head."""

    @property
    def address(self) -> str:
        """The address that it changes."""
        ...

    def apply(self, hooks: ExitStack, model: Transformer) -> None:
        """Put the change in force until `hooks` close."""
        ...


@contextmanager
def scaled(
    model: Transformer, scales: HeadScales, edits: Sequence[Intervention] = ()
) -> Generator[None]:
    """Within it, the outputs of some heads are scaled before the output projection; and edits act.

    Args:
        model: the model.
        scales: heads that are scaled.
        edits: other changes of the pass.
    """
    with ExitStack() as hooks:
        for edit in edits:
            edit.apply(hooks, model)
        for place, scale in scales.items():
            layer = cast("Any", attention_at(model, place))
            width = layer.output.in_features // layer.n_heads
            hooks.enter_context(
                layer.output.register_forward_pre_hook(_scaling(place.head, width, scale))
            )
        yield


def _scaling(head: int, width: int, scale: HeadScale) -> Any:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        mixed = inputs[0].clone()
        head_output = mixed[..., head * width : (head + 1) * width]
        head_output.copy_(
            head_output.mean(-2, keepdim=True) if scale == "mean" else head_output * scale
        )
        return (mixed,)

    return hook


def attention_at(model: Transformer, place: HeadPlace) -> nn.Module:
    """The attention that a head belongs to."""
    stack = model.decoder if place.side == "decoder" else model.encoder
    assert stack is not None
    block = cast("Any", stack.blocks[place.layer])
    return block.cross_attention if place.cross else block.attention
