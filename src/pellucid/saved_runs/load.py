"""Opening a trained run: its model, tokenizer and config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid import config, reader
from pellucid.checkpoints import ModelFile, load_model_tensors, refuse_non_finite
from pellucid.checkpoints.files import MODEL
from pellucid.config import decode, run_from_table, with_new_kinds
from pellucid.counting import parameter_count
from pellucid.display.numbers import short
from pellucid.errors import CheckpointError, ConfigError, PellucidError, RunError, TextError
from pellucid.free_memory import forcing
from pellucid.hub import local_model
from pellucid.model import (
    Transformer,
    Weights,
    assemble,
    assemble_trained,
    check_weights,
    narrow,
)
from pellucid.model.packed.layers import is_packed
from pellucid.model.packed.packer import Packer, can_pack
from pellucid.model.quantization import refuse_calibration
from pellucid.presets import find
from pellucid.saved_runs.calibration import Calibration, read_calibration
from pellucid.saved_runs.folder import RunFolder, existing_folder, is_published
from pellucid.saved_runs.machine import find_device
from pellucid.saved_runs.memory_check import check_opening
from pellucid.saved_runs.packed import fill_packed
from pellucid.saved_runs.packed_folder import PackedFolder
from pellucid.saved_runs.published import load_published
from pellucid.tokenizers import Tokenizer, no_tokenizer


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A model with its tokenizer and config; unpacks as `model, tokenizer`.

    `tokenizer` is None if a published model's directory has none: then it reads token ids only.

    Attributes:
        model: the trained model.
        config: the whole config of the run.
        folder: the run's folder.
        checkpoint: the folder of the checkpoint whose weights these are.
    """

    model: Transformer
    tokenizer: Tokenizer | None
    config: config.Run
    folder: Path
    checkpoint: Path

    def __repr__(self) -> str:
        size = short(parameter_count(self.config.model))
        return f"Run({str(self.folder)!r}, {size} parameters, {self.checkpoint.name})"

    def __iter__(self) -> Iterator[Transformer | Tokenizer | None]:
        return iter((self.model, self.tokenizer))

    def require_tokenizer(self) -> Tokenizer:
        """The tokenizer, for what reads or writes text.

        Raises:
            TextError: there is none; tells where it would be, and what works without it.
        """
        if self.tokenizer is None:
            raise TextError(
                f"{no_tokenizer(self.folder)}. So the model reads token ids and no text. Put the "
                "tokenizer there, or make a run with it: pellucid import "
                f"{self.folder} RUN --tokenizer PATH. Without one use ids: pellucid.trace(run, "
                "ids), pellucid.evaluate(run, ids), and --ids of pellucid explain, evaluate and "
                "check"
            )
        return self.tokenizer


def load(
    path: str | Path,
    *,
    device: str = "cpu",
    weights: Weights = "float32",
    allow_non_finite: bool = False,
    packed: bool = False,
    calibrate: Iterable[str] | None = None,
    force: bool = False,
) -> Run:
    """Open a run, one of its checkpoints, or a published model.

    The model is in evaluation mode: `run.model(ids)` on (batch, time) token ids gives logits
    (batch, time, vocab_size).

    Args:
        path: a run, for its latest checkpoint; a checkpoint; a folder with a published model
            (`config.json` and safetensors), which is opened in place; or the name of a model on a
            hub, such as `owner/name` or `owner/name@revision`.
        device: the device of the model.
        weights: the type of the model's matrices; "bfloat16" and "int8" make it write faster. A
            published model in half precision stays so with "stored", "bfloat16" or "float16": its
            matrices stay in the mapped file if they have that type and layout there.
        allow_non_finite: open a model with broken weights too, to find the problem.
        packed: with "bfloat16", "int8" or "int4" on a CPU, keep the matrices in these few bits
            alone, packed while they are read. This takes a half to a seventh of the memory. The
            model reads and writes texts, but has no parameters to look into or to train. From
            16 MiB on they are kept in the folder `packed` next to the model, which later calls map.
        calibrate: files, folders, patterns or "-": a text like those that the model will read.
            With "int4", each matrix is then rounded so that what it computes from this text changes
            least.
        force: open it even if pellucid expects the weights not to fit into memory.

    Raises:
        ConfigError: `weights` is none of these, or has no use for a calibration text.
        TextError: the calibration text is missing or too short, or the model has no tokenizer.
        RunError: there is no run at `path`, or it does not fit into memory.
        CheckpointError: the checkpoint is damaged or missing.
        NonFiniteError: a weight is NaN or infinite; names the first.
    """
    check_weights(weights)
    if calibrate is not None:
        refuse_calibration(weights)
    with forcing(force):
        packed = packed and not allow_non_finite
        run = _load(local_model(path), device, weights, packed=packed, calibrate=calibrate)
    if is_packed(run.model):  # its matrices were checked before they were packed
        refuse_non_finite(dict(run.model.named_parameters()), run.checkpoint)
        return run
    if not allow_non_finite:
        refuse_non_finite(run.model.state_dict(), run.checkpoint)
    text = read_calibration(calibrate, run.model, run.tokenizer, run.folder)
    narrow(run.model, weights, calibration=text and text.windows)
    return run


def _load(
    path: Path, device: str, weights: Weights, *, packed: bool, calibrate: Iterable[str] | None
) -> Run:
    if is_published(path):
        published, tokenizer, run = load_published(
            path, find_device(device), weights, packed=packed, calibrate=calibrate
        )
        return Run(published, tokenizer, run, path, path)
    folder, checkpoint = existing_folder(path)
    checkpoint = checkpoint or folder.shelf.latest()
    run = read_config(folder)
    with torch.device("meta"):
        model = assemble(run.model, seed=0)
        assemble_trained(model, run.trained, seed=0)
    packed = packed and find_device(device).type == "cpu" and can_pack(model, weights)
    packed = packed and (checkpoint / MODEL).is_file()  # ranks may have written their shares
    width = 2 if packed and calibrate is None else 4
    check_opening(run.model, device=find_device(device), bytes_per_weight=width)
    tokenizer = Tokenizer.load(folder.tokenizer)
    if packed:
        text = read_calibration(calibrate, model, tokenizer, folder.path)
        packer = Packer(model, weights, text and text.sha256)
        packed_folder = PackedFolder(folder.path, [checkpoint / MODEL], packer)
        packed_folder.fill(partial(_pack, packer, model, checkpoint, text))
    else:
        fill(model, load_model_tensors(checkpoint), find_device(device))
    model.eval()
    return Run(model, tokenizer, run, folder.path, checkpoint)


def _pack(
    packer: Packer, model: Transformer, checkpoint: Path, calibration: Calibration | None
) -> None:
    if calibration is not None:
        packer.calibrate(load(checkpoint).model, calibration.windows)
        return
    file = ModelFile(checkpoint)
    check_fit(model.state_dict(), file.headers)
    fill_packed(packer, model, file)


def read_config(folder: RunFolder) -> config.Run:
    """The config of a run.

    Raises:
        ConfigError: it cannot be read, or is no config; names the file.
    """
    table = read_toml(folder.config)
    try:
        return run_from_table(table, find)
    except ConfigError as error:
        raise ConfigError(f"{folder.config}: {error}") from None


def read_toml(file: Path) -> dict[str, Any]:
    """The config in a TOML file; for names of 0.1 you see one warning.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    return with_new_kinds(reader.read_toml(file, refusal=ConfigError), warn_for=str(file))


def read_plan(folder: RunFolder) -> config.Plan:
    """The plan of a run: the choices for its machine.

    Raises:
        RunError: it is missing or damaged.
    """
    if not folder.plan.exists():
        raise RunError(
            f"{folder.plan} is missing: an imported model has none, and cannot be continued; "
            f"train on from its weights with pellucid train TEXT --from {folder.path}"
        )
    try:
        return decode(config.Plan, reader.read_json(folder.plan), "plan")
    except PellucidError as error:
        raise RunError(
            f"{folder.plan} is damaged ({error}): the run cannot be continued, but "
            "its checkpoints can be used"
        ) from None


def fill(model: Transformer, tensors: Mapping[str, Tensor], device: torch.device) -> None:
    """Put tensors into a model that was built on the meta device, or into one that has weights.

    Raises:
        CheckpointError: a tensor is missing, is not expected, or has another shape or type.
    """
    check_fit(model.state_dict(), tensors)
    model.load_state_dict(dict(tensors), assign=model.device.type == "meta")
    model.to(device)


def check_fit(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that do not fit a model.

    Raises:
        CheckpointError: as `fill`.
    """
    if expected.keys() != tensors.keys():
        missing = sorted(expected.keys() - tensors.keys())
        extra = sorted(tensors.keys() - expected.keys())
        raise CheckpointError(
            f"the checkpoint does not fit the config: missing {missing or 'nothing'}, "
            f"not expected {extra or 'nothing'}"
        )
    for name, tensor in expected.items():
        if tensor.shape != tensors[name].shape:
            raise CheckpointError(
                f"the checkpoint does not fit the config: {name} is {tuple(tensors[name].shape)}, "
                f"the config says {tuple(tensor.shape)}"
            )
        if tensor.dtype != tensors[name].dtype:
            raise CheckpointError(
                f"the checkpoint does not fit the config: {name} is of {tensors[name].dtype}, "
                f"expected {tensor.dtype}"
            )
