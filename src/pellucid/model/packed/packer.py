"""Packing a model's matrices into few bits while they are read, some rows at a time.

So memory never holds a matrix in float32, nor the file that it is read from.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Int
from torch import Tensor, nn

from pellucid.free_memory import return_freed_memory, unmap_idle_code
from pellucid.model.packed.layers import pack_layer
from pellucid.model.packed.room import ReadRows, Room, room_bytes
from pellucid.model.precision import Weights
from pellucid.model.quantization import PACKED, matrices, matrix_shape, round_matrices
from pellucid.model.transformer import Transformer


class Packer:
    """Takes the matrices of a model that was built on the meta device.

    Attributes:
        kinds: the type of each matrix that it packs; the other tensors are the caller's.
        shapes: their rows and columns.
        others: the shapes of the other tensors.
        weights: the type that was asked for.
        calibration: the SHA-256 of the calibration text; None without one.
    """

    def __init__(
        self, model: Transformer, weights: Weights, calibration: str | None = None
    ) -> None:
        self._model, self.calibration = model, calibration
        self.weights: Weights = weights
        self.kinds = matrices(model, weights)
        self.shapes = {name: matrix_shape(model.get_parameter(name)) for name in self.kinds}
        self.others = {
            name: tuple(tensor.shape)
            for name, tensor in model.state_dict().items()
            if name not in self.kinds
        }
        # of what was done before, such as reading a tokenizer
        return_freed_memory()
        unmap_idle_code()
        self._room: Room | None = None
        self._n_taken = 0

    @property
    def n_bytes(self) -> int:
        """The size of all packed matrices."""
        return room_bytes(self.shapes, self.kinds)

    def take(self, name: str, read: ReadRows) -> None:
        """Pack one matrix, and put it into its layer."""
        self._room = self._room or Room(self.shapes, self.kinds)
        pack_layer(self._layer(name), self._room.fill(name, read))
        self._n_taken += 1
        return_freed_memory()  # what it was made from

    def calibrate(self, wide: Transformer, windows: Int[Tensor, "windows time"]) -> None:
        """Pack all matrices of the same model in float32, which are rounded, with such a text."""
        room = round_matrices(wide, self.weights, windows)
        tensors = wide.state_dict()
        self.adopt(room.memory, {name: tensors[name] for name in self.others})

    def packed(self) -> tuple[Tensor, dict[str, Tensor]] | None:
        """The bytes of all packed matrices, and the other tensors; None if some are not packed."""
        if self._room is None or self._n_taken < len(self.kinds):
            return None
        others: dict[str, Tensor] = {}
        for name in self.others:
            path, _, leaf = name.rpartition(".")
            others[name] = getattr(self._model.get_submodule(path), leaf).detach()
        return self._room.memory, others

    def adopt(self, memory: Tensor, others: Mapping[str, Tensor]) -> None:
        """Fill the model with what `packed` returned for the same model."""
        self._room = Room(self.shapes, self.kinds, memory)
        for name in self.kinds:
            pack_layer(self._layer(name), self._room.place(name))
        self._n_taken = len(self.kinds)
        self._model.load_state_dict(dict(others), strict=False, assign=True)

    def _layer(self, name: str) -> nn.Module:
        return self._model.get_submodule(name.removesuffix(".weight"))


def can_pack(model: Transformer, weights: Weights) -> bool:
    """Whether all matrices belong to plain layers, where a packed one replaces the parameter."""
    if weights not in PACKED:
        return False
    layers = [
        model.get_submodule(name.removesuffix(".weight")) for name in matrices(model, weights)
    ]
    return all(type(layer) in (nn.Linear, nn.Embedding) for layer in layers)
