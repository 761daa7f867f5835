"""A tape while it is written: where things stand in a row's scratch, one instruction after another.

Comes in: modules that are one step each, places. Goes out: instructions. It knows norms and linear
layers, and no block.

Nothing is guessed: a module is written down only where its very class is known here.
"""

from __future__ import annotations

from ctypes import pointer
from typing import Any, NoReturn, cast

import torch
from torch import Tensor, nn

from pellucid.model import GroupNorm, LayerNorm, LoRALinear, Narrow, RMSNorm, Transformer
from pellucid.model.feed_forward import Activate, gelu, gelu_tanh, relu, relu_squared, silu
from pellucid.native import Activation, Attention, Instruction, NormKind, Operation, Precision

_ACTIVATIONS: dict[Activate, Activation] = {
    relu: Activation.RELU,
    relu_squared: Activation.RELU_SQUARED,
    gelu: Activation.GELU,
    gelu_tanh: Activation.GELU_TANH,
    silu: Activation.SILU,
}
_PRECISIONS = {
    torch.float32: Precision.FLOAT32,
    torch.bfloat16: Precision.BFLOAT16,
    torch.int8: Precision.INT8,
}
#: Floats of a cache line: where places begin.
_LINE = 16


class Unwritable(Exception):  # noqa: N818  an answer, not an error
    """A model that no tape says; the message says what of it."""


def unwritable(what: object) -> NoReturn:
    """Refuse what no instruction says."""
    raise Unwritable(f"{what if isinstance(what, str) else type(what).__name__}")


def activation(bend: Activate) -> Activation:
    """The number of an activation."""
    return _ACTIVATIONS.get(bend) or unwritable(f"the activation {bend}")


class Tape:
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
            unwritable(f"a tensor of {tensor.dtype} on {tensor.device}, or with gaps")
        self.tensors.append(tensor)
        return tensor.data_ptr()

    def matrix(self, weight: Tensor) -> dict[str, Any]:
        """A matrix as an instruction wants it: in few bits, where it was rounded to them."""
        _, narrow = self._narrow.get(id(weight), (weight, Narrow(weight, None)))
        if narrow.values is not weight and narrow.version != weight._version:
            unwritable("a matrix that was written to since it was rounded")
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
        """A linear layer; one with an adapter where that is merged, and on."""
        if type(layer) is LoRALinear:
            if layer.kept is None or not layer.active:
                unwritable("an adapter that is not merged")
        elif type(layer) is not nn.Linear:
            unwritable(layer)
        layer = cast("nn.Linear", layer)
        self.product(layer.weight, cast("Tensor | None", layer.bias), **fields)

    def norm(self, norm: nn.Module, *, input: int, output: int, vectors: int = 1) -> int:
        """A norm of each of some vectors that stand side by side; where the outcome stands."""
        gain, bias, stride, groups = None, None, 0, 1
        if type(norm) is nn.Identity:
            return input
        if type(norm) is LayerNorm:
            kind, gain, bias = NormKind.LAYER_NORM, norm.gain, norm.bias
        elif type(norm) is RMSNorm:
            kind, gain = NormKind.RMS_NORM, norm.gain + 1 if norm.unit_offset else norm.gain
        elif type(norm) is GroupNorm and vectors == 1:
            kind, gain, bias, groups = NormKind.LAYER_NORM, norm.gain, norm.bias, norm.n_groups
            stride = len(gain) // groups
        else:
            unwritable(norm)
        self.write(
            Operation.NORM,
            kind=kind,
            input=input,
            output=output,
            n_in=len(gain) // groups,
            n_out=vectors * groups,
            stride=stride,
            number=norm.eps,
            gain=self.address(gain.detach()),
            bias=self.address(None if bias is None else bias.detach()),
        )
        return output

    def attend(self, how: Attention, *, output: int) -> None:
        """Rotation, the new key and value put into the cache, and attention over all of them."""
        for operation in (Operation.KEEP, Operation.ATTEND):
            self.write(operation, output=output, attention=pointer(how))
