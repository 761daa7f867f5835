"""One checkpoint: a folder of safetensors and JSON, with a manifest of checksums.

    model.safetensors       parameters by name
    optimiser.safetensors   the optimiser's state, as "parameter::key"
    random.safetensors      the states of torch's random generators
    state.json              step, place in the data, config, plan, and the rest
    checkpoint.json         format, version, and the SHA-256 of each file above

Ranks that hold a share of a large model write a file each instead of the first two: see `shares`.
Everything that is read is verified first, and nothing is ever unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import safetensors.torch
from torch import Tensor

from pellucid import reader
from pellucid.checkpoints.atomic import refuse_full_disk, write_folder
from pellucid.checkpoints.progress import read_progress
from pellucid.checkpoints.shares import (
    GROUPS,
    SharedTensors,
    Shares,
    file_of,
    names_of,
    write_shares,
)
from pellucid.errors import CheckpointError
from pellucid.json_text import json_text
from pellucid.version import FORMAT, READABLE, __version__

MODEL = "model.safetensors"
OPTIMISER = "optimiser.safetensors"
RANDOM = "random.safetensors"
#: How far a run is, as JSON.
STATE = "state.json"
MANIFEST = "checkpoint.json"
#: All files of a checkpoint's folder.
FILES = (MODEL, OPTIMISER, RANDOM, STATE, MANIFEST)

_WINDOWS = os.name == "nt"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint; with `shares`, model and optimiser are this rank's shares.

    Attributes:
        model: tensors by name.
        optimiser: tensors by name.
        random: states of random generators.
        state: how far the run is, as JSON.
    """

    model: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    random: Mapping[str, Tensor]
    state: Mapping[str, Any]
    shares: Shares | None = None


def save(folder: Path, checkpoint: Checkpoint, *, run_id: str = "", replace: bool = False) -> None:
    """Write `folder` atomically, after a check of the free space.

    Args:
        folder: of the checkpoint.
        checkpoint: its content.
        run_id: of the run that saves it.
        replace: whether it may replace a checkpoint of pellucid.

    Raises:
        CheckpointError: the disk is full or cannot be written, or the folder has other files.
    """
    groups = {MODEL: checkpoint.model, OPTIMISER: checkpoint.optimiser, RANDOM: checkpoint.random}
    text, shares = json_text(checkpoint.state, indent=1), checkpoint.shares
    tensors = [tensor for group in groups.values() for tensor in group.values()]
    refuse_full_disk(folder, tensors * (shares.ranks if shares else 1), text_bytes=len(text))
    names = {*FILES, *names_of(shares.ranks if shares else 0), *(own_files(folder, run_id) or ())}

    def write(partial: Path) -> None:
        sums: dict[str, str] = {}
        if shares is not None:
            sums = shares.write(partial)
            del groups[MODEL], groups[OPTIMISER]
        for name, group in groups.items():
            save_tensors(partial / name, group)
        (partial / STATE).write_text(text, encoding="utf-8")
        manifest = {
            "format": FORMAT,
            "pellucid": __version__,
            "name": folder.name,
            "run": run_id,
            "sha256": sums
            | {name: reader.file_sha256(partial / name) for name in (*groups, STATE)},
        }
        (partial / MANIFEST).write_text(json_text(manifest, indent=1), encoding="utf-8")

    write_folder(folder, sorted(names), write, replace=replace)


def write_own(folder: Path, checkpoint: Checkpoint, rank: int) -> dict[str, str]:
    """Write this rank's files of a checkpoint in shares; returns their checksums by name.

    Args:
        folder: where all ranks write.
        checkpoint: has this rank's shares.
        rank: of this process.
    """
    assert checkpoint.shares is not None
    groups = dict(zip(GROUPS, (checkpoint.model, checkpoint.optimiser), strict=True))
    sums: dict[str, str] = {}
    for group, tensors in groups.items():
        file = folder / file_of(group, rank)
        write_shares(file, tensors, checkpoint.shares.places)
        sums[file.name] = reader.file_sha256(file)
    return sums


def verify(folder: Path) -> None:
    """Compare every file with the manifest.

    Raises:
        CheckpointError: a file is missing or damaged, or the format is unknown; names it.
    """
    manifest = _read_json(folder / MANIFEST)
    if manifest.get("format") not in READABLE:
        saver = reader.short(manifest.get("pellucid", "of its time")).strip("'")
        raise CheckpointError(
            f"{folder} has checkpoint format {reader.short(manifest.get('format'))}; pellucid "
            f"{__version__} reads {' and '.join(map(str, READABLE))}: use pellucid {saver} for it"
        )
    for name, expected in _sums(manifest, folder / MANIFEST).items():
        file = folder / name
        if not file.is_file():
            raise CheckpointError(f"{file} is missing: the checkpoint is damaged")
        if reader.file_sha256(file) != expected:
            raise CheckpointError(f"{file} is damaged: its content differs from the saved one")


def load(folder: Path, *, is_verified: bool = False) -> Checkpoint:
    """Open a whole checkpoint, verified. Its tensors lie in the memory of the files.

    Args:
        folder: of the checkpoint.
        is_verified: another rank has verified it; this one reads only what it uses.

    Raises:
        CheckpointError: as `verify`.
    """
    if not is_verified:
        verify(folder)
    return Checkpoint(
        model=_load_group(folder, "model"),
        optimiser=_load_group(folder, "optimiser"),
        random=_load_tensors(folder / RANDOM),
        state=_read_json(folder / STATE),
    )


def load_state(folder: Path) -> dict[str, Any]:
    """Read a checkpoint's state without tensors, verified.

    Raises:
        CheckpointError: as `verify`.
    """
    verify(folder)
    return _read_json(folder / STATE)


def load_model_tensors(folder: Path, *, is_verified: bool = False) -> Mapping[str, Tensor]:
    """Read the parameters only, verified.

    Args:
        folder: of the checkpoint.
        is_verified: as `load`.

    Raises:
        CheckpointError: as `verify`.
    """
    if not is_verified:
        verify(folder)
    return _load_group(folder, "model")


def load_optimiser(folder: Path) -> tuple[Mapping[str, Tensor], int]:
    """Read the optimiser's state only, verified, and the number of updates before it.

    Raises:
        CheckpointError: as `verify`.
    """
    verify(folder)
    step = read_progress(_read_json(folder / STATE), folder / STATE).step
    return _load_group(folder, "optimiser"), step


def save_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name, copied to the CPU."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    cast("Any", safetensors.torch).save_file(on_cpu, file)


def _load_group(folder: Path, group: str) -> Mapping[str, Tensor]:
    """The whole tensors of a checkpoint, from one file, or from a file of each rank."""
    names = _sums(_read_json(folder / MANIFEST), folder / MANIFEST)
    shared = [name for name in names if name.startswith(f"{group}.rank-")]
    if shared:
        return SharedTensors(folder / name for name in shared)
    return _load_tensors(folder / f"{group}.safetensors")


def _load_tensors(file: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = reader.read_tensors(file, refusal=CheckpointError)
    if _WINDOWS:  # Windows can neither replace nor delete a mapped file
        return {name: tensor.clone() for name, tensor in tensors.items()}
    return tensors


def _sums(manifest: Mapping[str, Any], file: Path) -> dict[str, str]:
    """The checksum of each file of a checkpoint, from its manifest.

    Raises:
        CheckpointError: a checksum is missing or not a text, or the manifest lists another file.
    """
    value = cast("object", manifest.get("sha256"))
    sums = cast("dict[str, object]", value if isinstance(value, dict) else {})
    others = {RANDOM, STATE}
    ranks = (len(sums) - len(others)) // len(GROUPS)
    if sums.keys() not in ({MODEL, OPTIMISER} | others, names_of(ranks) | others):
        raise CheckpointError(
            f"{file} is damaged: it has no checksums of {MODEL}, {OPTIMISER}, {RANDOM} and {STATE} "
            f"in sha256, which is {reader.short(manifest.get('sha256'))}"
        )
    for name, checksum in sums.items():
        if not isinstance(checksum, str):
            raise CheckpointError(
                f"{file} is damaged: sha256.{name} must be a text, was {reader.short(checksum)}"
            )
    return cast("dict[str, str]", sums)


def _read_json(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise CheckpointError(f"{file} does not exist: {file.parent} is not a whole checkpoint")
    return reader.read_json_table(file, refusal=CheckpointError)


def own_files(folder: Path, run_id: str) -> tuple[str, ...] | None:
    """The files of a run's checkpoint; None if this run did not save it under this name.

    Checkpoints of 0.1 do not name their run: they belong to the run whose folder they are in.
    """
    try:
        manifest = _read_json(folder / MANIFEST)
        sums = _sums(manifest, folder / MANIFEST)
    except CheckpointError:
        return None
    owner = manifest.get("run", run_id), manifest.get("name", folder.name)
    if folder.is_symlink() or owner != (run_id, folder.name):
        return None
    return (*sums, MANIFEST)
