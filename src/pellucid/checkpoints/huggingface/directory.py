"""The files of a Hugging Face directory: JSON tables, and tensors that are read one by one.

    config.json  generation_config.json  model.safetensors
    model.safetensors.index.json  model-00001-of-00002.safetensors  ...

Nothing is ever unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from pellucid import reader
from pellucid.checkpoints.huggingface.attributes import Table, as_table
from pellucid.errors import CheckpointError

CONFIG = "config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_FLOATS = {"F32", "F16", "BF16", "F64"}
#: Converts the tensors of a pickle without running other code in it.
_CONVERT = (
    'python -c "import torch, safetensors.torch as s; s.save_file({k: v.clone() for k, v in '
    "torch.load('FILE', weights_only=True).items()}, 'model.safetensors')\""
)


def is_huggingface(path: Path) -> bool:
    """Whether `path` is a folder with a `config.json`."""
    return (path / CONFIG).is_file()


def read_json(file: Path) -> Table:
    """The object in a JSON file.

    Raises:
        CheckpointError: the file is missing or has something else.
    """
    return reader.read_json_table(file, refusal=CheckpointError)


@dataclass(frozen=True, slots=True)
class Stored:
    """The file of a tensor, and its shape and type by the file's header."""

    file: Path
    shape: tuple[int, ...]
    dtype: str


class Shards:
    """The tensors of a folder by name; it reads only headers until you read a tensor.

    Raises:
        CheckpointError: there are none, a shard is missing, cut off or not safetensors, or there
            are pickles instead; tells how to convert these.
    """

    def __init__(self, folder: Path) -> None:
        if (folder / WEIGHTS).is_file():
            files = {folder / WEIGHTS: None}
        elif (folder / INDEX).is_file():
            files = _indexed(folder)
        else:
            raise _no_weights(folder)
        self.folder = folder
        self.stored: dict[str, Stored] = {}
        for file, names in files.items():
            tensors = _header(file)
            if names is not None and (missing := sorted(names - tensors.keys())):
                raise CheckpointError(
                    f"{folder / INDEX} says that {missing[0]} is in {file.name}, but it is not"
                )
            self.stored.update(tensors)

    def read(self, name: str) -> Tensor:
        """One tensor, in the memory of the mapped file."""
        with _opened(self.stored[name].file) as file:
            return cast("Tensor", file.get_tensor(name))

    def read_rows(self, name: str, first: int, last: int) -> Tensor:
        """Some rows of a tensor in float32, copied to memory: the file's pages are released.

        Raises:
            CheckpointError: it has no floating-point numbers.
        """
        with _opened(self._float(name).file) as file:
            return cast("Tensor", file.get_slice(name)[first:last]).to(torch.float32, copy=True)

    def read_float(
        self, name: str, dtype: torch.dtype = torch.float32, part: int | None = None
    ) -> Tensor:
        """One tensor in a dtype, in the file's memory if it has that dtype there.

        Args:
            name: of the tensor.
            part: reads only the tensor of this index in it.

        Raises:
            CheckpointError: it has no floating-point numbers.
        """
        self._float(name)
        tensor = self.read(name)
        return (tensor if part is None else tensor[part]).to(dtype)

    def _float(self, name: str) -> Stored:
        stored = self.stored[name]
        if stored.dtype not in _FLOATS:
            raise CheckpointError(
                f"{stored.file}: {name} is of type {stored.dtype}, and only "
                f"{', '.join(sorted(_FLOATS))} are handled, but no quantised weights"
            )
        return stored


def read_tensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of one small file as float32, copied to memory, and its metadata.

    Raises:
        CheckpointError: it is missing, not safetensors, or has a tensor that is not floating-point.
    """
    if not file.is_file():
        raise _no_weights(file.parent, file.name)
    headers = _header(file)
    for name, stored in headers.items():
        if stored.dtype not in _FLOATS:
            raise CheckpointError(f"{file}: {name} is of type {stored.dtype}, expected floats")
    with _opened(file) as opened:
        metadata = cast("dict[str, str] | None", opened.metadata()) or {}
        # a copy releases the file's memory
        tensors = {name: opened.get_tensor(name).to(torch.float32, copy=True) for name in headers}
        return tensors, metadata


def _indexed(folder: Path) -> dict[Path, set[str] | None]:
    index = folder / INDEX
    shards: Mapping[str, Any] = as_table(
        read_json(index).get("weight_map"), f"weight_map in {index}"
    )
    files: dict[Path, set[str] | None] = {}
    for name, shard in shards.items():
        if not isinstance(shard, str) or os.path.basename(shard) != shard:
            raise CheckpointError(
                f"{index} names the shard {shard!r}: expected the name of a file in its folder"
            )
        file = folder / shard
        if file not in files and not file.is_file():
            raise CheckpointError(
                f"{file} is missing: {index.name} says that {name} is in it; download the whole "
                "directory again"
            )
        names = files.setdefault(file, set())
        assert names is not None
        names.add(name)
    if not files:
        raise CheckpointError(f"{index} names no tensor")
    return files


def _header(file: Path) -> dict[str, Stored]:
    with _opened(file) as opened:
        headers: dict[str, Stored] = {}
        for name in opened.keys():  # noqa: SIM118  it is not a dict
            part = opened.get_slice(name)
            headers[name] = Stored(file, tuple(part.get_shape()), part.get_dtype())
        return headers


def _opened(file: Path) -> Any:
    return reader.open_tensors(file, refusal=CheckpointError)


def _no_weights(folder: Path, expected: str = WEIGHTS) -> CheckpointError:
    pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
    if pickles:
        return CheckpointError(
            f"{folder} has {pickles[0]}, which is a pickle, and no {expected}: a pickle can run "
            "any code, so pellucid does not read it; if you trust it, convert it there with "
            + _CONVERT.replace("FILE", pickles[0]).replace(WEIGHTS, expected)
        )
    if expected != WEIGHTS:
        return CheckpointError(f"{folder} has no {expected}: there are no weights")
    return CheckpointError(f"{folder} has neither {WEIGHTS} nor {INDEX}: there are no weights")
