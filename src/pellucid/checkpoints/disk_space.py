"""Whether the disk has room for a checkpoint, asked before it is written.

Comes in: a folder, and what is to be written there. Goes out: nothing, or a refusal with figures.
It does not know what the tensors mean.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from pellucid.errors import CheckpointError

#: What a file may take beyond its bytes: a header per tensor, and the rest of its last blocks.
_PER_TENSOR, _PER_FILE = 256, 8192
_FILES = 5


def refuse_full_disk(folder: Path, tensors: Iterable[Tensor], *, text_bytes: int) -> None:
    """Refuse to begin a checkpoint that the disk cannot hold.

    Raises:
        CheckpointError: says how much is needed and how much is free.
    """
    content = sum(tensor.numel() * tensor.element_size() + _PER_TENSOR for tensor in tensors)
    needed = content + text_bytes + _FILES * _PER_FILE
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise CheckpointError(
            f"{folder} was not written: it takes {needed / 1e6:,.1f} MB and its disk has "
            f"{free / 1e6:,.1f} MB left; what was saved before is whole: make room, then resume"
        )
