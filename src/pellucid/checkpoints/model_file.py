"""A checkpoint's parameters, read some rows at a time: memory never holds the whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from pellucid import reader
from pellucid.checkpoints.files import MODEL, verify
from pellucid.errors import CheckpointError


class ModelFile:
    """The verified file of a checkpoint's parameters.

    Raises:
        CheckpointError: as `files.verify`.
    """

    def __init__(self, checkpoint: Path) -> None:
        verify(checkpoint)
        self.path = checkpoint / MODEL
        with self._opened() as opened:
            #: the shape and type of each tensor, as tensors without memory
            self.headers = {
                name: torch.empty_like(opened.get_tensor(name), device="meta")
                for name in opened.keys()  # noqa: SIM118  it is not a dict
            }

    def tensor(self, name: str) -> Tensor:
        """One tensor, copied to memory."""
        with self._opened() as opened:
            return cast("Tensor", opened.get_tensor(name)).clone()

    def rows(self, name: str, first: int, last: int) -> Tensor:
        """Some rows of a tensor, copied to memory.

        Args:
            name: of the tensor.
            first: the first row.
            last: the row after the last one.
        """
        with self._opened() as opened:  # closing it unmaps the file, and so releases its pages
            return cast("Tensor", opened.get_slice(name)[first:last]).clone()

    def _opened(self) -> Any:
        return reader.open_tensors(self.path, refusal=CheckpointError)
