"""One checkpoint: a folder of safetensors and JSON, with a manifest of checksums.

    model.safetensors       parameters by name
    optimiser.safetensors   the optimiser's memory, as "parameter::what"
    random.safetensors      the states of torch's random generators
    state.json              step, place in the data, config, plan, and the rest
    checkpoint.json         format, version, and the SHA-256 of each file above

Comes in: tensors and a JSON-able state. Goes out: the same, verified. It does not know what they
mean, and never unpickles.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import safetensors.torch
from torch import Tensor

from pellucid import reader
from pellucid.checkpoints.atomic import write_folder
from pellucid.checkpoints.disk_space import refuse_full_disk
from pellucid.config import decode
from pellucid.config.checks import at_least
from pellucid.errors import CheckpointError, ConfigError
from pellucid.json_text import json_text
from pellucid.version import FORMAT, READABLE, __version__

MODEL = "model.safetensors"
OPTIMISER = "optimiser.safetensors"
RANDOM = "random.safetensors"
STATE = "state.json"
MANIFEST = "checkpoint.json"
#: All that is in a checkpoint's folder.
FILES = (MODEL, OPTIMISER, RANDOM, STATE, MANIFEST)

_WINDOWS = os.name == "nt"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint holds."""

    model: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    random: Mapping[str, Tensor]
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedProgress:
    """Everything that changes in a run except tensors; a loss is None until it is measured."""

    step: int
    tokens: int
    best_loss: float | None
    best_saved_loss: float | None

    def __post_init__(self) -> None:
        at_least("step", self.step, 0)
        at_least("tokens", self.tokens, 0)


def read_progress(state: Mapping[str, Any], file: Path) -> SavedProgress:
    """The progress in a checkpoint's state; `file` is for messages.

    Raises:
        CheckpointError: it is missing, or a number is impossible; names file, key and value.
    """
    try:
        return decode(SavedProgress, state.get("progress"), "progress")
    except ConfigError as error:
        raise CheckpointError(f"{file} is damaged: {error}") from None


def save(folder: Path, checkpoint: Checkpoint, *, run_id: str = "", replace: bool = False) -> None:
    """Write `folder` all at once; with `replace`, in the place of a checkpoint that is ours.

    It looks first at how much room there is.

    Raises:
        CheckpointError: the disk is full or cannot be written, or what is there is not ours.
    """
    groups = (checkpoint.model, checkpoint.optimiser, checkpoint.random)
    text = json_text(checkpoint.state, indent=1)
    tensors = (tensor for group in groups for tensor in group.values())
    refuse_full_disk(folder, tensors, text_bytes=len(text))

    def write(partial: Path) -> None:
        for name, group in zip((MODEL, OPTIMISER, RANDOM), groups, strict=True):
            save_tensors(partial / name, group)
        (partial / STATE).write_text(text, encoding="utf-8")
        manifest = {
            "format": FORMAT,
            "pellucid": __version__,
            "name": folder.name,
            "run": run_id,
            "sha256": {name: _sha256(partial / name) for name in FILES if name != MANIFEST},
        }
        (partial / MANIFEST).write_text(json_text(manifest, indent=1), encoding="utf-8")

    write_folder(folder, FILES, write, replace=replace)


def verify(folder: Path) -> None:
    """Compare every file with the manifest.

    Raises:
        CheckpointError: names the file that is missing or damaged, or the format that is unknown.
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
        if _sha256(file) != expected:
            raise CheckpointError(f"{file} is damaged: its content is not what was saved")


def load(folder: Path) -> Checkpoint:
    """Read a whole checkpoint, verified.

    Raises:
        CheckpointError: as `verify`.
    """
    verify(folder)
    return Checkpoint(
        model=_load_tensors(folder / MODEL),
        optimiser=_load_tensors(folder / OPTIMISER),
        random=_load_tensors(folder / RANDOM),
        state=_read_json(folder / STATE),
    )


def load_state(folder: Path) -> dict[str, Any]:
    """Read what a checkpoint says besides tensors, verified.

    Raises:
        CheckpointError: as `verify`.
    """
    verify(folder)
    return _read_json(folder / STATE)


def load_model_tensors(folder: Path) -> dict[str, Tensor]:
    """Read the parameters alone, verified.

    Raises:
        CheckpointError: as `verify`.
    """
    verify(folder)
    return _load_tensors(folder / MODEL)


def load_optimiser(folder: Path) -> tuple[dict[str, Tensor], int]:
    """Read the optimiser's memory alone, verified, and after how many updates it was.

    Raises:
        CheckpointError: as `verify`.
    """
    verify(folder)
    step = read_progress(_read_json(folder / STATE), folder / STATE).step
    return _load_tensors(folder / OPTIMISER), step


def save_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name, copied to the CPU."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    cast("Any", safetensors.torch).save_file(on_cpu, file)


def _load_tensors(file: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = reader.read_tensors(file, refusal=CheckpointError)
    if _WINDOWS:  # where a file that is mapped can be neither replaced nor deleted
        return {name: tensor.clone() for name, tensor in tensors.items()}
    return tensors


def _sums(manifest: Mapping[str, Any], file: Path) -> dict[str, str]:
    """The checksum of each file of a checkpoint, as its manifest lists them.

    Raises:
        CheckpointError: one is missing or no text, or a file is listed that no checkpoint has.
    """
    sums = cast("object", manifest.get("sha256"))
    listed = cast("dict[str, object]", sums if isinstance(sums, dict) else {})
    if listed.keys() != set(FILES) - {MANIFEST}:
        raise CheckpointError(
            f"{file} is damaged: it has no checksums of {MODEL}, {OPTIMISER}, {RANDOM} and {STATE} "
            f"in sha256, which is {reader.short(manifest.get('sha256'))}"
        )
    for name, checksum in listed.items():
        if not isinstance(checksum, str):
            raise CheckpointError(
                f"{file} is damaged: sha256.{name} must be a text, was {reader.short(checksum)}"
            )
    return cast("dict[str, str]", listed)


def _read_json(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise CheckpointError(f"{file} does not exist: {file.parent} is not a whole checkpoint")
    return reader.read_json_table(file, refusal=CheckpointError)


def own_files(folder: Path, run_id: str) -> tuple[str, ...] | None:
    """The files that a run's checkpoint lists; None if that run did not save it under this name.

    Checkpoints of 0.1 do not say whose they are: they count as the run's in whose folder they lie.
    """
    try:
        manifest = _read_json(folder / MANIFEST)
        listed = _sums(manifest, folder / MANIFEST)
    except CheckpointError:
        return None
    owner = manifest.get("run", run_id), manifest.get("name", folder.name)
    if folder.is_symlink() or owner != (run_id, folder.name):
        return None
    return (*listed, MANIFEST)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
