"""Write a model as a Hugging Face directory, which `transformers` reads.

The files are `config.json`, `generation_config.json` and `model.safetensors`.

A family fits a model if its files read back as the same model (`fit`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import safetensors.torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.checkpoints.huggingface.directory import CONFIG, GENERATION, WEIGHTS
from pellucid.checkpoints.huggingface.families import FAMILIES
from pellucid.checkpoints.huggingface.family import Family
from pellucid.checkpoints.huggingface.fit import reasons_against
from pellucid.checkpoints.huggingface.mapping import Unfit
from pellucid.checkpoints.huggingface.names import Layout, shapes_of
from pellucid.errors import CheckpointError
from pellucid.json_text import json_text

#: More differences than any comparison finds, for a family that does not fit at all.
_NO_FIT = 1000

#: All that `write_published` may write.
PUBLISHED_FILES = (CONFIG, GENERATION, WEIGHTS)


def families_that_fit(model: config.Transformer, parameters: Iterable[str]) -> list[str]:
    """The `model_type` of every family that fits a model with these parameters, in their order."""
    parameters = list(parameters)
    fitting: list[str] = []
    for family in FAMILIES.values():
        try:
            reasons = reasons_against(family, model, parameters, family.describe(model))
        except Unfit:
            continue
        if not reasons:
            fitting.append(family.model_type)
    return fitting


def choose_family(model: config.Transformer, parameters: Iterable[str]) -> tuple[Family, Table]:
    """The first family that fits a model with these parameters, and its attributes.

    Raises:
        CheckpointError: none fits; names the differences from the nearest one.
    """
    parameters = list(parameters)
    nearest: tuple[int, str, list[str]] | None = None
    for family in FAMILIES.values():
        try:
            attributes = family.describe(model)
            reasons = reasons_against(family, model, parameters, attributes)
            distance = len(reasons)
        except Unfit as unfit:
            attributes, reasons = {}, list(unfit.reasons)
            distance = (2 if unfit.shape else 1) * _NO_FIT + len(reasons)
        if not reasons:
            return family, attributes
        if nearest is None or distance < nearest[0]:
            nearest = distance, family.model_type, reasons
    assert nearest is not None
    raise CheckpointError(
        "no family of transformers that pellucid writes fits this model. The nearest is "
        f"{nearest[1]}, but: {'; '.join(nearest[2])}"
    )


def write_published(
    folder: Path,
    model: config.Transformer,
    tensors: Mapping[str, Tensor],
    ends: Mapping[str, int | None],
    *,
    problem_type: str | None = None,
) -> str:
    """Write a model into an existing folder; returns its family.

    Args:
        folder: where to write.
        model: the config.
        tensors: by pellucid's names.
        ends: ids such as `bos_token_id`.
        problem_type: for a classifier, whether a text can have several classes.

    Raises:
        CheckpointError: no family fits the model.
    """
    family, attributes = choose_family(model, tensors)
    table: Table = {
        "architectures": [family.architecture_for(model)],
        "model_type": family.model_type,
        **dict.fromkeys(family.absent_ids),
        **ends,
        **attributes,  # a family may count positions from the padding id
        **({} if problem_type is None else {"problem_type": problem_type}),
        "torch_dtype": "float32",
    }
    _write_json(folder / CONFIG, table)
    if isinstance(model.head, config.LanguageHead):
        _write_json(folder / GENERATION, dict(ends))
    save_file = cast("Any", safetensors.torch).save_file
    save_file(_renamed(model, tensors, family), folder / WEIGHTS, metadata={"format": "pt"})
    # safetensors makes the file readable for the owner only, but other users may need it too
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)
    return family.model_type


def _renamed(
    model: config.Transformer, tensors: Mapping[str, Tensor], family: Family
) -> dict[str, Tensor]:
    """The published tensors, in which several parameters may be joined."""
    layout = Layout(model, family.names_for(model), shapes_of(tensors.items()))
    bare = isinstance(model.head, config.NoHead)
    published = {
        name.removeprefix(family.prefix) if bare else name: tensor.contiguous()
        for name, tensor in layout.publish({n: t.detach().cpu() for n, t in tensors.items()})
    }
    repeated = family.repeated(model).items()
    return published | {name: published[original].clone() for name, original in repeated}


def _write_json(file: Path, table: Table) -> None:
    file.write_text(json_text(table, indent=2) + "\n", encoding="utf-8")
