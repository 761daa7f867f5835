"""A decode program: its instructions, and the places of values in a row's scratch memory.

It includes only modules whose facts an instruction can express.
"""

from __future__ import annotations

from ctypes import pointer
from typing import Any, NoReturn, assert_never

import torch
from torch import Tensor, nn

from pellucid.model import Narrow, Stack, Transformer
from pellucid.model.facts import (
    ActivationName,
    ClampedFeedForwardFacts,
    ExpertsFacts,
    FeedForwardFacts,
    IdentityFacts,
    LinearFacts,
    LoRAFacts,
    NormFacts,
    SandwichFacts,
    StackFacts,
    TransformerFacts,
    UnknownFacts,
    feed_forward_facts,
    linear_facts,
    model_facts,
    norm_facts,
    stack_facts,
    tensor_at,
)
from pellucid.model.packed.layers import packed_of
from pellucid.native import Activation, Attention, Instruction, NormKind, Operation, Precision

_ACTIVATIONS: dict[ActivationName, Activation] = {
    "relu": Activation.RELU,
    "relu_squared": Activation.RELU_SQUARED,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELU_TANH,
    "quick_gelu": Activation.QUICK_GELU,
    "silu": Activation.SILU,
    "sigmoid": Activation.SIGMOID,
    "tanh": Activation.TANH,
}
_PRECISIONS = {
    torch.float32: Precision.FLOAT32,
    torch.bfloat16: Precision.BFLOAT16,
    torch.int8: Precision.INT8,
    torch.uint8: Precision.INT4,
}
#: Floats of a cache line, at which places start.
_LINE = 16


class CannotCompile(Exception):  # noqa: N818  an answer, not an error
    """No program can compute the model; the message names the part."""


def refuse(part: object) -> NoReturn:
    """Refuse a part, or a description of one, for which there is no instruction."""
    raise CannotCompile(f"{part if isinstance(part, str) else type(part).__name__}")


def activation(name: ActivationName | None) -> Activation:
    """The code of an activation; None means a function of your own."""
    return refuse("an activation of your own") if name is None else _ACTIVATIONS[name]


class DecodeProgram:
    """Instructions, and the tensors that they point to."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.instructions: list[Instruction] = []
        self.width = 0
        #: the instruction at which the head begins: before it all keys and values are there
        self.head_at = 0
        #: the instruction that reads the last states at `states`: the first after the final norm
        self.logits_at = self.states = 0
        self.tensors: list[Tensor] = []
        self._narrow = {
            id(model.get_parameter(name)): (model.get_parameter(name), narrow)
            for name, narrow in model.narrow.items()
        }

    def place(self, n: int) -> int:
        """Reserve `n` floats in each row's scratch memory; returns their place."""
        place = self.width
        self.width += -(-n // _LINE) * _LINE
        return place

    def write(self, operation: Operation, *, wait: bool = True, **fields: Any) -> None:
        """Append an instruction; with `wait`, the next one starts when all of it is done."""
        absent = {"times": -1, "plus": -1, "input": -1, "factor": 1.0}
        self.instructions.append(Instruction(operation=operation, wait=wait, **(absent | fields)))

    def address(self, tensor: Tensor | None, dtype: torch.dtype = torch.float32) -> int | None:
        """The address of a tensor's numbers; the program keeps the tensor alive."""
        if tensor is None:
            return None
        if tensor.dtype != dtype or tensor.device.type != "cpu" or not tensor.is_contiguous():
            refuse(f"a tensor of {tensor.dtype} on {tensor.device}, or not contiguous")
        self.tensors.append(tensor)
        return tensor.data_ptr()

    def matrix(self, weight: Tensor | Narrow) -> dict[str, Any]:
        """An instruction's fields for a matrix: in few bits, if it was rounded to them."""
        if isinstance(weight, Narrow):
            return self._few_bits(weight)
        _, narrow = self._narrow.get(id(weight), (weight, None))
        if narrow is None:
            dtype = self._dtype_of(weight)
            address = self.address(weight.detach(), dtype)
            return {"precision": _PRECISIONS[dtype], "matrix": address}
        if narrow.version != weight._version:
            refuse("a matrix that changed after it was rounded")
        return self._few_bits(narrow)

    def _few_bits(self, narrow: Narrow) -> dict[str, Any]:
        values, scales = narrow.values, narrow.scales
        return {
            "precision": _PRECISIONS[values.dtype],
            "matrix": self.address(values, values.dtype),
            "scales": None if scales is None else self.address(scales, scales.dtype),
        }

    @staticmethod
    def _dtype_of(matrix: Tensor) -> torch.dtype:
        """bfloat16 if the matrix is in it; every other dtype but float32 is refused."""
        return torch.bfloat16 if matrix.dtype == torch.bfloat16 else torch.float32

    def product(
        self,
        weight: Tensor | Narrow,
        bias: Tensor | None,
        *,
        input: int,
        output: int,
        kind: Activation = Activation.LINEAR,
        **fields: Any,
    ) -> None:
        """act(W x + b), times one place, plus a factor times another place."""
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
        """A linear layer; a layer with an adapter only if it is merged and active."""
        facts = linear_facts(layer)
        match facts:
            case LinearFacts(computed=True):
                refuse("a matrix that is computed from other parameters")
            case LoRAFacts(merged=False) | LoRAFacts(active=False):
                refuse("an adapter that is not merged")
            case LinearFacts() | LoRAFacts():
                bias = None if facts.bias is None else tensor_at(layer, facts.bias)
                weight = packed_of(layer) or tensor_at(layer, facts.weight)
                self.product(weight, bias, **fields)
            case UnknownFacts():
                refuse(layer)
            case _:
                assert_never(facts)

    def norm(self, norm: nn.Module, *, input: int, output: int, vectors: int = 1) -> int:
        """A norm of each of `vectors` adjacent vectors; returns the place of its output."""
        facts = norm_facts(norm)
        match facts:
            case IdentityFacts():
                return input
            case NormFacts(mean_over="features") if _can_norm(facts, vectors):
                gain = _gain(norm, facts)
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
        """A feed-forward layer; `fields` are for its last product."""
        facts = feed_forward_facts(layer)
        match facts:
            case FeedForwardFacts(gate=gate):
                up = self.place(facts.d_ff)
                kind = activation(facts.activation)
                inner = layer.get_submodule(facts.up)
                if gate is None:
                    self.linear(inner, input=input, output=up, kind=kind)
                else:
                    gated = self.place(facts.d_ff)
                    gate_layer = layer.get_submodule(gate)
                    self.linear(gate_layer, input=input, output=gated, kind=kind)
                    self.linear(inner, input=input, output=up, times=gated)
                self.linear(layer.get_submodule(facts.down), input=up, **fields)
            case ClampedFeedForwardFacts() | ExpertsFacts() | UnknownFacts():
                refuse(layer)
            case _:
                assert_never(facts)

    def attend(self, attention: Attention, *, output: int) -> None:
        """Rotate, put the new key and value into the cache, and attend to all keys."""
        for operation in (Operation.KEEP, Operation.ATTEND):
            self.write(operation, output=output, attention=pointer(attention))


def _gain(norm: nn.Module, facts: NormFacts) -> Tensor:
    """What a norm multiplies its features by; 1 if it has no gain."""
    if facts.gain is None:
        assert facts.width is not None  # `_can_norm` says so
        return torch.ones(facts.width)
    gain = tensor_at(norm, facts.gain)
    return gain + 1 if facts.gain_offset == 1 else gain


def _can_norm(facts: NormFacts, vectors: int) -> bool:
    """Whether one instruction computes the norm."""
    plain = facts.gain_offset in (0, 1) and (facts.centred or facts.bias is None)
    plain = plain and (facts.gain is not None or facts.width is not None)
    return plain and (facts.n_groups == 1 or vectors == 1)


def both_norms(norm: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The norm of a layer's input, and the norm of its output."""
    facts = norm_facts(norm)
    match facts:
        case SandwichFacts():
            return norm.get_submodule(facts.before), norm.get_submodule(facts.after)
        case NormFacts() | IdentityFacts() | UnknownFacts():
            return refuse(norm)
        case _:
            assert_never(facts)


def is_plain_decoder(model: Transformer, stack: Stack) -> bool:
    """Whether a model is a decoder only, of parts that state facts."""
    facts = model_facts(model)
    match facts:
        case TransformerFacts(stacks="decoder"):
            pass
        case TransformerFacts() | UnknownFacts():
            return False
        case _:
            assert_never(facts)
    of_stack = stack_facts(stack)
    match of_stack:
        case StackFacts():
            return True
        case UnknownFacts():
            return False
        case _:
            assert_never(of_stack)
