"""A checkpoint whose tensors lie in one file for each rank, with their places in the whole.

    model.rank-0.safetensors      optimiser.rank-0.safetensors
    model.rank-1.safetensors      optimiser.rank-1.safetensors

The header of each file has, for each tensor, the shape of the whole and where the share begins.
One process puts them together without the ranks that wrote them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
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


def read_shares(files: Iterable[Path]) -> dict[str, Tensor]:
    """The whole tensors, put together from the files of all ranks.

    Raises:
        CheckpointError: a share is missing or lies outside of its tensor; names file and tensor.
    """
    tensors: dict[str, Tensor] = {}
    missing: dict[str, int] = {}
    for file in files:
        with reader.open_tensors(file, refusal=CheckpointError) as opened:
            places = _read_places(opened.metadata(), file)
            for name in opened.keys():  # noqa: SIM118
                share: Tensor = opened.get_tensor(name)
                if name not in places:
                    raise CheckpointError(f"{file} is damaged: {name} has no place in its header")
                _copy_share(share, places[name], tensors, missing, name, file)
    unfinished = [name for name, n in missing.items() if n]
    if unfinished:
        raise CheckpointError(
            f"the checkpoint is damaged: shares of {unfinished[0]} are missing, or there are too "
            "many"
        )
    return tensors


def _copy_share(
    share: Tensor,
    place: Place,
    tensors: dict[str, Tensor],
    missing: dict[str, int],
    name: str,
    file: Path,
) -> None:
    """Copy a share to its place in the whole, and count the missing numbers."""
    shape, offset = place
    if name not in tensors:
        tensors[name] = torch.empty(shape, dtype=share.dtype)
        missing[name] = math.prod(shape)
    target = tensors[name]
    ends = [start + length for start, length in zip(offset, share.shape, strict=False)]
    fits = len(shape) == len(offset) == share.ndim and target.shape == torch.Size(shape)
    if not fits or any(end > length for end, length in zip(ends, shape, strict=True)):
        raise CheckpointError(
            f"{file} is damaged: {name} of {tuple(share.shape)} at {offset} is no share of "
            f"{tuple(target.shape)}"
        )
    target[tuple(slice(a, b) for a, b in zip(offset, ends, strict=True))] = share
    missing[name] -= share.numel()


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
