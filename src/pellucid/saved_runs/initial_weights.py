"""The first weights of a run that starts from other weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints import Checkpoint, save
from pellucid.errors import CheckpointError
from pellucid.model import Transformer, merged
from pellucid.saved_runs.folder import RunFolder, existing_folder, is_published
from pellucid.saved_runs.load import load, read_config
from pellucid.saved_runs.published import published_config

#: The parts after the last states: they depend on the task.
_HEADS = (
    "head.",
    "head_transform.",
    "head_bias",
    "classifier.",
    "classifier_transform.",
    "pooler.",
)


def config_of(path: Path) -> config.Run:
    """The config of a run, a checkpoint or a published model to start from.

    Raises:
        RunError: there is neither a run nor a published model.
    """
    if is_published(path):
        return published_config(path)
    folder, _ = existing_folder(path)
    return read_config(folder)


def copy_start(path: Path, folder: RunFolder) -> None:
    """Copy the weights at `path` into the folder of the run that starts from them.

    The run then no longer needs the other one. Adapters are merged into the weights.
    """
    start_run = load(path)
    start = Checkpoint(
        model=merged(start_run.model),
        optimiser={},
        random={},
        state={"from": str(start_run.checkpoint)},
    )
    save(folder.start, start)


def fill_body(
    model: Transformer, tensors: Mapping[str, Tensor], device: torch.device
) -> tuple[str, ...]:
    """Give a model the weights of another; new tensors keep their own values.

    Returns the names of the new tensors.

    Args:
        model: the model to fill.
        tensors: the weights of the other model by name.
        device: the device of the filled model.

    Raises:
        CheckpointError: as `matching_body`, or the model has no weights.
    """
    matching = matching_body(model, tensors)
    new = tuple(name for name in model.state_dict() if name not in matching)
    if new and model.device.type == "meta":
        raise CheckpointError(
            f"{new[0]} is not in the model to start from, and was not drawn: build the model with "
            "weights of its own first"
        )
    model.load_state_dict(matching, strict=False, assign=model.device.type == "meta")
    model.to(device)
    return new


def matching_body(model: Transformer, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of another model that fit a model.

    Tensors of the head and the pooler may be missing, left over or of another shape. All others
    must be there and fit.

    Args:
        model: the model to fill.
        tensors: the weights of the other model by name.

    Raises:
        CheckpointError: the bodies differ (names the tensors).
    """
    expected = model.state_dict()
    matching = {
        name: tensors[name]
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape == tensor.shape
    }
    if wrong := [
        problem
        for name in dict.fromkeys((*expected, *tensors))
        if name not in matching and not name.startswith(_HEADS)
        for problem in [_difference(name, expected.get(name), tensors.get(name))]
    ]:
        remainder = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise CheckpointError(
            "the model to start from has another body than this one: "
            f"{'; '.join(wrong[:3])}{remainder}; take its config, all but the head"
        )
    return matching


def _difference(name: str, model_tensor: Tensor | None, start_tensor: Tensor | None) -> str:
    if start_tensor is None:
        return f"it has no {name}"
    if model_tensor is None:
        return f"it has {name}, which this one has not"
    return f"{name} is {tuple(start_tensor.shape)} there and {tuple(model_tensor.shape)} here"
