"""Packing a model's matrices into few bits while they are read, some rows at a time.

So memory never holds a matrix in float32, nor the file that it is read from.
"""

from __future__ import annotations

from torch import nn

from pellucid.free_memory import return_freed_memory
from pellucid.model.packed.layers import pack_layer
from pellucid.model.packed.room import ReadRows, Room
from pellucid.model.precision import Weights
from pellucid.model.quantization import PACKED, matrices, matrix_shape
from pellucid.model.transformer import Transformer


class Packer:
    """Takes the matrices of a model that was built on the meta device.

    Attributes:
        names: the matrices that it packs; the other tensors are the caller's.
        weights: the type that was asked for.
    """

    def __init__(self, model: Transformer, weights: Weights) -> None:
        self._model = model
        self.weights: Weights = weights
        kinds = matrices(model, weights)
        shapes = {name: matrix_shape(model.get_parameter(name)) for name in kinds}
        self.names = kinds.keys()
        return_freed_memory()  # of what was done before, such as reading a tokenizer
        self._room = Room(shapes, kinds)

    def take(self, name: str, read: ReadRows) -> None:
        """Pack one matrix, and put it into its layer."""
        layer = self._model.get_submodule(name.removesuffix(".weight"))
        pack_layer(layer, self._room.fill(name, read))
        return_freed_memory()  # what it was made from


def can_pack(model: Transformer, weights: Weights) -> bool:
    """Whether all matrices belong to plain layers, where a packed one replaces the parameter."""
    if weights not in PACKED:
        return False
    layers = [
        model.get_submodule(name.removesuffix(".weight")) for name in matrices(model, weights)
    ]
    return all(type(layer) in (nn.Linear, nn.Embedding) for layer in layers)
