"""Safetensors from outside: opened when they are whole, or refused.

Nothing is ever unpickled.

The library maps the file and compares its header with its length. On a pipe it would wait forever,
so it gets files only. It loads torch when a file is opened, not before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pellucid.errors import PellucidError
from pellucid.reader.opening import Refusal, is_pipe, open_file


def open_tensors(file: Path, *, refusal: Refusal = PellucidError) -> Any:
    """The library's handle on a file: `keys()`, `get_slice`, `get_tensor`, `metadata()`.

    Raises:
        PellucidError: the file is missing, was cut off, or is something else.
    """
    import safetensors

    if is_pipe(file):
        raise refusal(f"{file} is a pipe: expected a safetensors file, to be read in any order")
    open_file(file, refusal=refusal).close()
    try:
        return cast("Any", safetensors).safe_open(str(file), framework="pt")
    except (OSError, safetensors.SafetensorError) as error:
        raise refusal(f"{file} {_NOT_WHOLE.format(error)}") from None


def read_tensors(file: Path, *, refusal: Refusal = PellucidError) -> dict[str, Any]:
    """All tensors of a file by name, on the CPU, in the file's own memory.

    Raises:
        PellucidError: as `open_tensors`.
    """
    with open_tensors(file, refusal=refusal) as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


def parse_tensors(content: bytes, name: str, *, refusal: Refusal = PellucidError) -> dict[str, Any]:
    """All tensors in the bytes of a file.

    Args:
        content: the bytes.
        name: what errors call them.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: it was cut off, or is something else.
    """
    import safetensors.torch

    try:
        return cast("dict[str, Any]", safetensors.torch.load(content))
    except safetensors.SafetensorError as error:
        raise refusal(f"{name} {_NOT_WHOLE.format(error)}") from None


_NOT_WHOLE = (
    "is not a whole safetensors file ({}): it was cut off, or is something else; get it again"
)
