"""A tape while it is written: where things stand in a row's scratch, one instruction after another.

Nothing is guessed: a module is written down only where its very class is known here.
"""

from __future__ import annotations

from ctypes import pointer
from typing import Any, NoReturn, assert_never

import torch
from torch import Tensor, nn

from pellucid.model import Narrow, Transformer
from pellucid.model.facts import (
    ActivationName,
    FeedForwardFacts,
    IdentityFacts,
    LinearFacts,
    LoRAFacts,
    NormFacts,
    SandwichFacts,
    UnknownFacts,
    feed_forward_facts,
    linear_facts,
    norm_facts,
    tensor_at,
)
from pellucid.native import Activation, Attention, Instruction, NormKind, Operation, Precision

_ACTIVATIONS: dict[ActivationName, Activation] = {
    "relu": Activation.RELU,
    "relu_squared": Activation.RELU_SQUARED,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELU_TANH,
    "silu": Activation.SILU,
}
_PRECISIONS = {
    torch.float32: Precision.FLOAT32,
    torch.bfloat16: Precision.BFLOAT16,
    torch.int8: Precision.INT8,
}
#: Floats of a cache line: where places begin.
_LINE = 16


class CannotCompile(Exception):  # noqa: N818  an answer, not an error
    """A model that no tape says; the message says what of it."""


def refuse(what: object) -> NoReturn:
    """Refuse what no instruction says."""
    raise CannotCompile(f"{what if isinstance(what, str) else type(what).__name__}")


def activation(name: ActivationName | None) -> Activation:
    """The number of an activation; None is a function of the user's own."""
    return refuse("an activation of your own") if name is None else _ACTIVATIONS[name]


class DecodeProgram:
    """Instructions, and the tensors that they point into."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.instructions: list[Instruction] = []
        self.width = 0
        self.tensors: list[Tensor] = []
        self._narrow = {
            id(model.get_parameter(name)): (model.get_parameter(name), narrow)
            for name, narrow in model.narrow.items()
        }

    def place(self, n: int) -> int:
        """Room for `n` floats in each row's scratch."""
        begins = self.width
        self.width += -(-n // _LINE) * _LINE
        return begins

    def write(self, operation: Operation, *, wait: bool = True, **fields: Any) -> None:
        """One instruction; what follows `wait`s until all of it is done."""
        absent = {"times": -1, "plus": -1, "input": -1, "factor": 1.0}
        self.instructions.append(Instruction(operation=operation, wait=wait, **(absent | fields)))

    def address(self, tensor: Tensor | None, dtype: torch.dtype = torch.float32) -> int | None:
        """Where a tensor's numbers are; it is kept as long as the tape."""
        if tensor is None:
            return None
        if tensor.dtype != dtype or tensor.device.type != "cpu" or not tensor.is_contiguous():
            refuse(f"a tensor of {tensor.dtype} on {tensor.device}, or with gaps")
        self.tensors.append(tensor)
        return tensor.data_ptr()

    def matrix(self, weight: Tensor) -> dict[str, Any]:
        """A matrix as an instruction wants it: in few bits, where it was rounded to them."""
        _, narrow = self._narrow.get(id(weight), (weight, Narrow(weight, None)))
        if narrow.values is not weight and narrow.version != weight._version:
            refuse("a matrix that was written to since it was rounded")
        return {
            "precision": _PRECISIONS.get(narrow.values.dtype, Precision.FLOAT32),
            "matrix": self.address(narrow.values.detach(), narrow.values.dtype)
            if narrow.values is not weight
            else self.address(weight.detach()),
            "scales": self.address(narrow.scales),
        }

    def product(
        self,
        weight: Tensor,
        bias: Tensor | None,
        *,
        input: int,
        output: int,
        kind: Activation = Activation.LINEAR,
        **fields: Any,
    ) -> None:
        """act(W x + b), times one place, plus a factor times another."""
        n_out, n_in = weight.shape
        self.write(
            Operation.PRODUCT,
            kind=kind,
            input=input,
            output=output,
            n_in=n_in,
            n_out=n_out,
            bias=self.address(None if bias is None else bias.detach()),
            **self.matrix(weight),
            **fields,
        )

    def linear(self, layer: nn.Module, **fields: Any) -> None:
        """A linear layer; one with an adapter only while that is merged and active."""
        facts = linear_facts(layer)
        match facts:
            case LinearFacts(computed=True):
                refuse("a matrix that is computed from others")
            case LoRAFacts(merged=False) | LoRAFacts(active=False):
                refuse("an adapter that is not merged")
            case LinearFacts() | LoRAFacts():
                bias = None if facts.bias is None else tensor_at(layer, facts.bias)
                self.product(tensor_at(layer, facts.weight), bias, **fields)
            case UnknownFacts():
                refuse(layer)
            case _:
                assert_never(facts)

    def norm(self, norm: nn.Module, *, input: int, output: int, vectors: int = 1) -> int:
        """A norm of each of some vectors that lie side by side; returns where its output is."""
        facts = norm_facts(norm)
        match facts:
            case IdentityFacts():
                return input
            case NormFacts(over="features", gain=str(name)) if _can_norm(facts, vectors):
                gain = tensor_at(norm, name)
                gain = gain + 1 if facts.gain_offset == 1 else gain
                bias = None if facts.bias is None else tensor_at(norm, facts.bias)
                groups = facts.n_groups
                self.write(
                    Operation.NORM,
                    kind=NormKind.LAYER_NORM if facts.centred else NormKind.RMS_NORM,
                    input=input,
                    output=output,
                    n_in=len(gain) // groups,
                    n_out=vectors * groups,
                    stride=0 if groups == 1 else len(gain) // groups,
                    number=facts.eps,
                    gain=self.address(gain.detach()),
                    bias=self.address(None if bias is None else bias.detach()),
                )
                return output
            case NormFacts() | SandwichFacts() | UnknownFacts():
                refuse(norm)
            case _:
                assert_never(facts)

    def feed_forward(self, layer: nn.Module, *, input: int, **fields: Any) -> None:
        """A feed-forward layer; `fields` are those of its last product."""
        facts = feed_forward_facts(layer)
        match facts:
            case FeedForwardFacts(gate=gate):
                up = self.place(facts.d_ff)
                kind = activation(facts.activation)
                inner = layer.get_submodule(facts.up)
                if gate is None:
                    self.linear(inner, input=input, output=up, kind=kind)
                else:
                    open_share = self.place(facts.d_ff)
                    gated = layer.get_submodule(gate)
                    self.linear(gated, input=input, output=open_share, kind=kind)
                    self.linear(inner, input=input, output=up, times=open_share)
                self.linear(layer.get_submodule(facts.down), input=up, **fields)
            case UnknownFacts():
                refuse(layer)
            case _:
                assert_never(facts)

    def attend(self, how: Attention, *, output: int) -> None:
        """Rotation, the new key and value put into the cache, and attention over all of them."""
        for operation in (Operation.KEEP, Operation.ATTEND):
            self.write(operation, output=output, attention=pointer(how))


def _can_norm(facts: NormFacts, vectors: int) -> bool:
    """Whether one instruction does it: groups are strides, and there is one kind of either."""
    plain = facts.gain_offset in (0, 1) and (facts.centred or facts.bias is None)
    return plain and (facts.n_groups == 1 or (facts.centred and vectors == 1))


def both_norms(norm: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The norm of what a layer reads, and the norm of what it writes."""
    facts = norm_facts(norm)
    match facts:
        case SandwichFacts():
            return norm.get_submodule(facts.before), norm.get_submodule(facts.after)
        case NormFacts() | IdentityFacts() | UnknownFacts():
            return refuse(norm)
        case _:
            assert_never(facts)
