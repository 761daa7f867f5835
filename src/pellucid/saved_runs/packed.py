"""Opening a run's model with its matrices packed while they are read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Protocol

from torch import Tensor

from pellucid.checkpoints import ModelFile, refuse_non_finite
from pellucid.model import Transformer
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


def fill_packed(packer: Packer, model: Transformer, file: ModelFile) -> None:
    """Fill a model that was built on the meta device from a checkpoint's file, which fits it.

    Raises:
        NonFiniteError: a weight is NaN or infinite; names the first.
    """
    read = finite_rows(file.rows, file.path)
    for name in packer.kinds:
        packer.take(name, partial(read, name))
    others = {name: file.tensor(name) for name in packer.others}
    refuse_non_finite(others, file.path)
    model.load_state_dict(others, strict=False, assign=True)
