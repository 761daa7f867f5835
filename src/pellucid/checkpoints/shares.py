"""A checkpoint whose tensors lie in one file for each rank, with their places in the whole.

    model.rank-0.safetensors      optimiser.rank-0.safetensors
    model.rank-1.safetensors      optimiser.rank-1.safetensors

The header of each file has, for each tensor, the shape of the whole and where the share begins.
One process puts them together without the ranks that wrote them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import safetensors.torch
import torch
from torch import Tensor

from pellucid import reader
from pellucid.errors import CheckpointError
from pellucid.json_text import json_text

#: The key of a file's header.
_PLACES = "places"
#: The kinds of tensors that are shared.
GROUPS = ("model", "optimiser")


class Place(NamedTuple):
    """The shape of a whole tensor, and where a share of it begins.

    Attributes:
        shape: of the whole tensor.
        offset: where the share begins, for each dimension.
    """

    shape: tuple[int, ...]
    offset: tuple[int, ...]


def _refuse_to_write(folder: Path) -> dict[str, str]:
    raise AssertionError(f"no rank writes into {folder} yet")


class Shares(NamedTuple):
    """How a rank's tensors are shares of a checkpoint's.

    Attributes:
        places: Of each tensor that this rank writes, by name.
        ranks: How many ranks write.
        write: Has every rank write its files into a folder; gives their checksums by name.
    """

    places: Mapping[str, Place]
    ranks: int
    write: Callable[[Path], dict[str, str]] = _refuse_to_write


def file_of(group: str, rank: int) -> str:
    """The name of a rank's file."""
    return f"{group}.rank-{rank}.safetensors"


def names_of(ranks: int) -> set[str]:
    """The names of all files of so many ranks."""
    return {file_of(group, rank) for group in GROUPS for rank in range(ranks)}


def write_shares(file: Path, tensors: Mapping[str, Tensor], places: Mapping[str, Place]) -> None:
    """Write the tensors that have a place.

    Args:
        file: of this rank.
        tensors: the shares by name.
        places: of those that this rank writes.
    """
    shares = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in tensors.items()
        if name in places
    }
    header = {_PLACES: json_text({name: places[name] for name in shares})}
    cast("Any", safetensors.torch).save_file(shares, file, metadata=header)


class SharedTensors(Mapping[str, Tensor]):
    """The whole tensors in the files of all ranks; each is put together when you ask for it.

    Args:
        files: of all ranks, with one kind of tensors.

    Raises:
        CheckpointError: a share is missing or lies outside of its tensor; names file and tensor.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        #: the shares of each tensor, each in the memory of its file, and where it begins
        self._shares: dict[str, list[tuple[Tensor, tuple[int, ...]]]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        for file in files:
            self._add(file)
        for name, shape in self._shapes.items():
            if sum(share.numel() for share, _ in self._shares[name]) != math.prod(shape):
                raise CheckpointError(
                    f"the checkpoint is damaged: shares of {name} are missing, or there are too "
                    "many"
                )

    def _add(self, file: Path) -> None:
        with reader.open_tensors(file, refusal=CheckpointError) as opened:
            places = _read_places(opened.metadata(), file)
            for name in opened.keys():  # noqa: SIM118
                if name not in places:
                    raise CheckpointError(f"{file} is damaged: {name} has no place in its header")
                shape, offset = places[name]
                share: Tensor = opened.get_tensor(name)
                ends = [start + length for start, length in zip(offset, share.shape, strict=False)]
                fits = len(shape) == len(offset) == share.ndim
                fits &= self._shapes.setdefault(name, shape) == shape
                if not fits or any(end > length for end, length in zip(ends, shape, strict=True)):
                    raise CheckpointError(
                        f"{file} is damaged: {name} of {tuple(share.shape)} at {offset} is no "
                        f"share of {self._shapes[name]}"
                    )
                # Windows can neither replace nor delete a file whose memory is in use
                share = share.clone() if os.name == "nt" else share
                self._shares.setdefault(name, []).append((share, offset))

    def region(self, name: str, region: Sequence[slice]) -> Tensor:
        """A part of a tensor, copied; only the pages of the files that have it are read.

        Args:
            name: of the tensor.
            region: a slice for each dimension.
        """
        bounds = [part.indices(n)[:2] for part, n in zip(region, self._shapes[name], strict=True)]
        result = self.describe(name).new_empty([b - a for a, b in bounds], device="cpu")
        for share, offset in self._shares[name]:
            source, target = list[slice](), list[slice]()
            for (start, end), first, length in zip(bounds, offset, share.shape, strict=True):
                a, b = max(start, first), max(start, first, min(end, first + length))
                source.append(slice(a - first, b - first))
                target.append(slice(a - start, b - start))
            result[tuple(target)] = share[tuple(source)]
        return result

    def describe(self, name: str) -> Tensor:
        """A tensor without memory, of the shape and the type of the whole."""
        dtype = self._shares[name][0][0].dtype
        return torch.empty(self._shapes[name], dtype=dtype, device="meta")

    def __getitem__(self, name: str) -> Tensor:
        return self.region(name, [slice(None)] * len(self._shapes[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def read_region(tensors: Mapping[str, Tensor], name: str, region: Sequence[slice]) -> Tensor:
    """A part of a saved tensor, copied; no other part of a file is read.

    Args:
        tensors: of a checkpoint that was loaded.
        name: of the tensor.
        region: a slice for each dimension.
    """
    if isinstance(tensors, SharedTensors):
        return tensors.region(name, region)
    return tensors[name][tuple(region)].clone()


def describe(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The shape and the type of each saved tensor; nothing is read."""
    if isinstance(tensors, SharedTensors):
        return {name: tensors.describe(name) for name in tensors}
    return tensors


def _read_places(metadata: Mapping[str, str] | None, file: Path) -> dict[str, Place]:
    text = (metadata or {}).get(_PLACES)
    table = reader.parse_json(text or "null", f"the header of {file}", refusal=CheckpointError)
    places: dict[str, Place] = {}
    for name, value in reader.as_table(table, f"{_PLACES} in {file}", CheckpointError).items():
        match value:
            case [[*shape], [*offset]] if all(type(n) is int and n >= 0 for n in (*shape, *offset)):
                places[name] = Place(tuple(shape), tuple(offset))
            case _:
                raise CheckpointError(
                    f"{file} is damaged: the place of {name} must be two lists of whole numbers, "
                    f"was {reader.short(value)}"
                )
    return places
