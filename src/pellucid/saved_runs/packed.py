"""Opening a run's model with its matrices packed while they are read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Protocol

from torch import Tensor

from pellucid.checkpoints import ModelFile, refuse_non_finite
from pellucid.model import Transformer, Weights
from pellucid.model.packed.layers import packed_of
from pellucid.model.packed.packer import Packer


class RowReader(Protocol):
    """Reads some rows of a matrix by its name."""

    def __call__(self, name: str, first: int, last: int, /) -> Tensor:
        """The rows from the first up to the last."""
        ...


def finite_rows(read: RowReader, source: Path) -> RowReader:
    """The same rows; a number that is not finite is refused before it is packed."""

    def checked(name: str, first: int, last: int, /) -> Tensor:
        rows = read(name, first, last)
        refuse_non_finite({name: rows}, source)
        return rows

    return checked


def fill_packed(model: Transformer, file: ModelFile, weights: Weights) -> None:
    """Fill a model that was built on the meta device from a checkpoint's file, which fits it.

    Raises:
        NonFiniteError: a weight is NaN or infinite; names the first.
    """
    packer = Packer(model, weights)
    read = finite_rows(file.rows, file.path)
    for name in packer.names:
        packer.take(name, partial(read, name))
    others = {name: file.tensor(name) for name in file.headers if not _is_packed(model, name)}
    refuse_non_finite(others, file.path)
    model.load_state_dict(others, strict=False, assign=True)


def _is_packed(model: Transformer, name: str) -> bool:
    layer, _, leaf = name.rpartition(".")
    return leaf == "weight" and packed_of(model.get_submodule(layer)) is not None
