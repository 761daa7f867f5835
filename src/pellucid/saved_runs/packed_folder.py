"""A model's packed matrices on disk, next to it: written once, and mapped by every later start.

    packed/int8/               or int4-calibrated
        matrices.safetensors   all packed matrices as one piece, and the other tensors
        packed.json            what they were made from, and the SHA-256 of the other file

A later start reads no weight of the model. It compares the bytes with their checksum, and the
model's files with those that were packed: by size and times, and if these differ by checksum.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from pellucid import reader
from pellucid.disk import write_folder, write_text
from pellucid.errors import CheckpointError
from pellucid.json_text import json_text
from pellucid.model.packed.packer import Packer
from pellucid.version import __version__

_log = logging.getLogger(__name__)

_MATRICES, _MANIFEST = "matrices.safetensors", "packed.json"
#: Raise it if packed matrices are laid out, or fitted, in another way.
_LAYOUT = 1
#: Fewer bytes than this are packed in less time than they are checked.
LEAST_BYTES = 2**24
_PAGE = 4096
#: The name of the packed matrices among the tensors; a tensor of a model has none such.
_ROOM = ""
_TYPES = {torch.uint8: "U8", torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}
#: Windows can neither replace nor delete a mapped file.
_WINDOWS = os.name == "nt"


class PackedFolder:
    """The folder of a model's packed matrices.

    Args:
        model_folder: the folder of a run or of a published model, in which it lies.
        sources: the files that the model is made from.
        packer: of the model, which was built on the meta device.
    """

    def __init__(self, model_folder: Path, sources: Sequence[Path], packer: Packer) -> None:
        name = packer.weights if packer.calibration is None else f"{packer.weights}-calibrated"
        self.path = model_folder / "packed" / name
        self._sources, self._packer = sources, packer

    def fill(self, pack: Callable[[], None]) -> None:
        """Fill the model from this folder, or by packing; then the folder is written, if it can be.

        Args:
            pack: lets the packer take all matrices, and sets the other tensors.
        """
        is_quick = self._packer.n_bytes < LEAST_BYTES and self._packer.calibration is None
        if _WINDOWS or is_quick:
            pack()
            return
        tensors = self._tensors()
        if tensors is not None:
            self._packer.adopt(tensors.pop(_ROOM), tensors)
            return
        stamps = self._stamps()
        pack()
        if stamps == self._stamps():
            self._keep(stamps)

    def _tensors(self) -> dict[str, Tensor] | None:
        """The tensors in the folder; None if it is not there, or does not belong to the model."""
        if not os.path.lexists(self.path):
            return None
        try:
            manifest = reader.read_json_table(self.path / _MANIFEST, refusal=CheckpointError)
            return self._verified(manifest)
        except (CheckpointError, OSError) as error:
            _log.warning("the matrices are packed anew: in %s %s", self.path, error)
            return None

    def _verified(self, manifest: dict[str, Any]) -> dict[str, Tensor]:
        """The tensors of the folder.

        Raises:
            CheckpointError: it is damaged, or was made from other weights or in another way.
        """
        for name, description in self._description().items():
            if manifest.get(name) != description:
                raise CheckpointError(
                    f"{name} is {reader.short(manifest.get(name))}, expected "
                    f"{reader.short(description)}"
                )
        stamps = self._stamps()
        records = cast("dict[str, Any]", manifest.get("sources"))
        if not isinstance(cast("object", records), dict) or records.keys() != stamps.keys():
            raise CheckpointError("they were made from other files")
        for source in self._sources:
            if not _is_same(records[source.name], source, stamps[source.name]):
                raise CheckpointError(f"they were made from another {source.name}")
        file = self.path / _MATRICES
        if not file.is_file() or reader.file_sha256(file) != manifest.get("sha256"):
            raise CheckpointError(f"{_MATRICES} is damaged: its content differs from the saved one")
        new_records = {name: records[name] | stamp for name, stamp in stamps.items()}
        if new_records != records:  # it was copied: the next start needs no checksum of its files
            with suppress(OSError):
                write_text(self.path / _MANIFEST, json_text(manifest | {"sources": new_records}))
        return reader.read_tensors(file, refusal=CheckpointError)

    def _keep(self, stamps: dict[str, dict[str, int]]) -> None:
        """Write the folder; where that fails, only the next start takes longer."""
        packed = self._packer.packed()
        if packed is None or any(tensor.dtype not in _TYPES for tensor in packed[1].values()):
            return
        memory, others = packed
        sources = {
            file.name: stamps[file.name] | {"sha256": reader.file_sha256(file)}
            for file in self._sources
        }

        def write(folder: Path) -> None:
            widest_first = sorted(others.items(), key=lambda item: -item[1].itemsize)  # aligned
            _write_tensors(folder / _MATRICES, {_ROOM: memory, **dict(widest_first)})
            checksum = reader.file_sha256(folder / _MATRICES)
            manifest = self._description() | {"sources": sources, "sha256": checksum}
            (folder / _MANIFEST).write_text(json_text(manifest), encoding="utf-8")

        try:
            write_folder(self.path, (_MATRICES, _MANIFEST), write, replace=True)
        except OSError as error:
            _log.info("the packed matrices are not kept: %s", error)

    def _description(self) -> dict[str, Any]:
        """What the tensors are, apart from their numbers, as JSON."""
        packer = self._packer
        return {
            "layout": _LAYOUT,
            "pellucid": __version__,
            "byteorder": sys.byteorder,
            "calibration": packer.calibration,
            "matrices": {n: [*packer.shapes[n], kind] for n, kind in packer.kinds.items()},
            "others": {name: list(shape) for name, shape in packer.others.items()},
        }

    def _stamps(self) -> dict[str, dict[str, int]]:
        """The size and the times of each source."""
        stamps: dict[str, dict[str, int]] = {}
        for file in self._sources:
            status = file.stat()
            stamps[file.name] = {
                "bytes": status.st_size,
                "modified_ns": status.st_mtime_ns,
                "changed_ns": status.st_ctime_ns,
            }
        return stamps


def _is_same(record: object, file: Path, stamp: Mapping[str, int]) -> bool:
    """Whether a file is the one that was packed."""
    if not isinstance(record, dict):
        return False
    table = cast("dict[str, object]", record)
    if stamp.items() <= table.items():
        return True
    return table.get("bytes") == stamp["bytes"] and table.get("sha256") == reader.file_sha256(file)


def _write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write safetensors, the first tensor at the start of a page; no tensor is copied in memory."""
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        kind = _TYPES[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json_text(header).encode()
    text += b" " * (-(len(text) + 8) % _PAGE)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        for tensor in tensors.values():
            numbers: Any = tensor.contiguous().flatten().view(torch.uint8).numpy()
            stream.write(numbers)
