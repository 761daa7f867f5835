"""Write files and folders atomically; errors of the disk become a `CheckpointError`."""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec

import safetensors
from torch import Tensor

from pellucid import disk
from pellucid.errors import CheckpointError

P = ParamSpec("P")

#: A file needs more than its content: a header per tensor, and the rest of its last blocks.
_PER_TENSOR, _PER_FILE = 256, 8192
_FILES = 5


def _explain_errors(
    write: Callable[Concatenate[Path, P], None],
) -> Callable[Concatenate[Path, P], None]:
    """The same function; errors of the disk become a `CheckpointError`."""

    @wraps(write)
    def write_or_explain(path: Path, *args: P.args, **names: P.kwargs) -> None:
        with _disk_errors(path):
            write(path, *args, **names)

    return write_or_explain


@contextmanager
def _disk_errors(path: Path) -> Generator[None]:
    try:
        yield
    except FileExistsError as error:
        raise CheckpointError(
            f"{error.filename or path} is in the way: {error.strerror}; nothing was overwritten: "
            "move it away, then resume"
        ) from error
    except (OSError, safetensors.SafetensorError) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        reason = "the disk is full" if full else str(error)
        raise CheckpointError(
            f"{path} could not be written: {reason}; earlier checkpoints are intact: "
            "make room, then resume"
        ) from error


#: Write a text file whole, as `disk.write_text`; a full disk is a `CheckpointError`.
write_text = _explain_errors(disk.write_text)
#: Write a file of bytes whole, as `disk.write_bytes`.
write_bytes = _explain_errors(disk.write_bytes)
#: Write a folder whole, as `disk.write_folder`.
write_folder = _explain_errors(disk.write_folder)


def refuse_full_disk(folder: Path, tensors: Iterable[Tensor], *, text_bytes: int) -> None:
    """Refuse to start a checkpoint that the disk cannot hold.

    Args:
        folder: of the checkpoint.
        tensors: its tensors.
        text_bytes: the size of its texts.

    Raises:
        CheckpointError: the disk has less space than the checkpoint needs; tells both.
    """
    content = sum(tensor.numel() * tensor.element_size() + _PER_TENSOR for tensor in tensors)
    n_bytes = content + text_bytes + _FILES * _PER_FILE
    free = disk.free_bytes(folder)
    if free < n_bytes:
        raise CheckpointError(
            f"{folder} was not written: it needs {n_bytes / 1e6:,.1f} MB and its disk has "
            f"{free / 1e6:,.1f} MB left; earlier checkpoints are intact: make room, then resume"
        )
