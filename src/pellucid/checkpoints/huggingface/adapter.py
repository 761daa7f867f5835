"""Adapters without their base, in the directory format of `peft`.

    adapter_config.json  adapter_model.safetensors

A family may publish several layers as one matrix. Then the file's metadata names the blocks of its
update, so that it reads back unchanged. If an update of such a matrix has no blocks, because `peft`
trained it, it becomes three updates with the same `down`: the same numbers from more parameters.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import safetensors.torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints.huggingface.adapter_config import (
    ADAPTER_CONFIG,
    AdapterNumbers,
    describe_adapter,
    read_adapter_numbers,
    write_table,
)
from pellucid.checkpoints.huggingface.adapter_layers import (
    Base,
    join_updates,
    shortest_targets,
    split_blocks,
)
from pellucid.checkpoints.huggingface.directory import read_json, read_tensors
from pellucid.errors import CheckpointError, ConfigError, PellucidError
from pellucid.json_text import json_text
from pellucid.reader import parse_json_table

ADAPTER_WEIGHTS = "adapter_model.safetensors"
#: All that `write_adapter` writes.
ADAPTER_FILES = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)

_ROOT = "base_model.model."
_TENSOR = re.compile(re.escape(_ROOT) + r"(.+)\.lora_([AB])\.weight")
#: Metadata: for each joined update, which of queries (0), keys (1) and values (2) have a block.
_BLOCKS = "blocks"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter: its numbers, its tensors by pellucid's names, and the name of its base."""

    lora: config.LoRA
    tensors: dict[str, Tensor]
    base: str | None


def is_adapter(path: Path) -> bool:
    """Whether `path` is a folder with an `adapter_config.json`."""
    return (path / ADAPTER_CONFIG).is_file()


def base_of_adapter(folder: Path) -> str | None:
    """The name or path of the base that the adapter states, or None."""
    base = read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    return base if isinstance(base, str) else None


def write_adapter(
    folder: Path,
    model: config.Transformer,
    lora: config.LoRA,
    tensors: Mapping[str, Tensor],
    *,
    base: str | None = None,
    family: str | None = None,
) -> str:
    """Write the adapters among `tensors` into an existing folder; returns the family.

    Args:
        folder: where to write.
        model: the base's config.
        lora: rank, alpha and targets.
        tensors: the state of the adapted model, or a part of it.
        base: the name or path of the base, for `peft`.
        family: the `model_type` of the base's files, whose names the updates get; by default the
            first that fits, as which `write_published` writes the base.

    Raises:
        CheckpointError: no family fits the base, or `family` does not, there are no adapters, there
            is a classification head, which is not an adapter, or an adapted layer is published as a
            part of a tensor with all experts.
    """
    heads = [name for name in tensors if name.split(".")[0] == "classifier"]
    if heads:
        raise CheckpointError(
            f"{heads[0]} is fully trained, and an adapter cannot contain it: export the model with "
            "its updates merged"
        )
    base_layers = Base(model, family)
    adapted = {name.removesuffix(".lora_down") for name in tensors if name.endswith(".lora_down")}
    if not adapted:
        raise CheckpointError("this model has no adapters: export the whole model")
    stacked = (path for path in base_layers.layers if base_layers.source(path).stacked)
    if stacked_update := next((path for path in stacked if path in adapted), None):
        raise CheckpointError(
            f"{stacked_update} has an update, but a {base_layers.family} has all experts of a "
            "layer in one tensor, and an adapter updates linear layers alone: export the model "
            "with its updates merged"
        )
    published: dict[str, Tensor] = {}
    blocks: dict[str, list[int]] = {}
    modules: list[str] = []
    for module, layers in base_layers.modules.items():
        updates = {
            path: (tensors[f"{path}.lora_down"].cpu(), tensors[f"{path}.lora_up"].cpu())
            for path in layers
            if path in adapted
        }
        if not updates:
            continue
        sources = [base_layers.source(path) for path in updates]
        if sources[0].members:
            blocks[module] = [source.index for source in sources]
        modules.append(module)
        down, up = join_updates(base_layers, list(updates), list(updates.values()))
        published[f"{_ROOT}{module}.lora_A.weight"] = down.detach().contiguous()
        published[f"{_ROOT}{module}.lora_B.weight"] = up.detach().contiguous()
    table = describe_adapter(
        lora,
        model,
        modules=modules,
        fused=_patterns({module: len(parts) for module, parts in blocks.items()}),
        transposed=base_layers.transposed,
        base=base,
    )
    write_table(folder, table)
    metadata = {"format": "pt", _BLOCKS: json_text(blocks)} if blocks else {"format": "pt"}
    file = folder / ADAPTER_WEIGHTS
    cast("Any", safetensors.torch).save_file(published, file, metadata=metadata)
    # safetensors makes the file readable for the owner only, but other users may need it too
    shutil.copymode(folder / ADAPTER_CONFIG, file)
    return base_layers.family


def read_adapter(folder: Path, model: config.Transformer) -> Adapter:
    """The adapter in a directory, for the base that `model` describes.

    Raises:
        CheckpointError: files are missing or damaged, have something unsupported, or belong to
            another base; says which.
    """
    table = read_json(folder / ADAPTER_CONFIG)
    numbers = read_adapter_numbers(table)
    file = folder / ADAPTER_WEIGHTS
    stored, metadata = read_tensors(file)
    blocks = _blocks(metadata.get(_BLOCKS), file)
    pairs = _pairs(stored, file)
    base = Base.with_modules(model, pairs)
    tensors: dict[str, Tensor] = {}
    alphas: dict[str, float] = {}
    for module, (down, up) in pairs.items():
        layers = base.paths_in(module)
        _check_shapes(base, module, layers, down, up, numbers)
        alpha = numbers.for_layer(module)[1]
        if (parts := blocks.get(module)) is not None:
            layers = [path for path in layers if base.source(path).index in parts]
            updates = split_blocks(base, layers, down, up, source=f"{file}: {module}")
            alpha /= len(layers)
        else:
            updates = [(down, base.layout.take(f"{path}.weight", up)) for path in layers]
        for path, (own_down, own_up) in zip(layers, updates, strict=True):
            tensors[f"{path}.lora_down"] = own_down.contiguous().clone()
            tensors[f"{path}.lora_up"] = own_up.contiguous().clone()
            alphas[path] = alpha
    lora = _lora(base, tensors, alphas, numbers.dropout)
    return Adapter(lora, tensors, base_of_adapter(folder))


def _pairs(stored: Mapping[str, Tensor], file: Path) -> dict[str, tuple[Tensor, Tensor]]:
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, tensor in stored.items():
        match = _TENSOR.fullmatch(name)
        if match is None:
            raise CheckpointError(
                f"{file} has the tensor {name}, which is not part of an update of a linear layer "
                f"({_ROOT}PATH.lora_A.weight or lora_B): nothing is read"
            )
        pairs.setdefault(match[1], {})[match[2]] = tensor
    for module, pair in pairs.items():
        if len(pair) == 1:
            missing = "B" if "A" in pair else "A"
            raise CheckpointError(f"{file} has no {_ROOT}{module}.lora_{missing}.weight")
    if not pairs:
        raise CheckpointError(f"{file} has no tensors")
    return {module: (pair["A"], pair["B"]) for module, pair in pairs.items()}


def _check_shapes(
    base: Base,
    module: str,
    layers: Sequence[str],
    down: Tensor,
    up: Tensor,
    numbers: AdapterNumbers,
) -> None:
    rank, layer = numbers.for_layer(module)[0], base.layers[layers[0]]
    outputs = sum(base.layers[path].out_features for path in layers)
    expected = [(rank, layer.in_features), (outputs, rank)]
    if [tuple(down.shape), tuple(up.shape)] != expected:
        raise CheckpointError(
            f"the update of {module} has the shapes {list(down.shape)} and {list(up.shape)}; for "
            f"this base and {ADAPTER_CONFIG} they must be {list(expected[0])} and "
            f"{list(expected[1])}"
        )


def _lora(
    base: Base, tensors: dict[str, Tensor], alphas: Mapping[str, float], dropout: float
) -> config.LoRA:
    """One rank and one alpha for all layers; updates of a lower rank are padded with zeros.

    Raises:
        CheckpointError: the scales, alpha / rank, differ.
    """
    kinds: dict[tuple[int, float], str] = {}
    for path, alpha in alphas.items():
        kinds.setdefault((tensors[f"{path}.lora_down"].shape[0], alpha), path)
    if len({alpha / rank for rank, alpha in kinds}) > 1:
        scales = " and ".join(
            f"{r} and {a:g} of {path}" for (r, a), path in list(kinds.items())[:2]
        )
        raise CheckpointError(
            f"the adapter has layers of different scale, by rank and alpha ({scales}), but LoRA "
            "here has one scale: merge the adapter into its base with peft, and import the model"
        )
    rank, alpha = max(kinds)
    for path in alphas:
        down, up = f"{path}.lora_down", f"{path}.lora_up"
        n_missing = rank - tensors[down].shape[0]
        tensors[down] = nn.functional.pad(tensors[down], (0, 0, 0, n_missing))
        tensors[up] = nn.functional.pad(tensors[up], (0, n_missing))
    try:
        return config.LoRA(
            rank=rank, alpha=alpha, dropout=dropout, targets=shortest_targets(alphas, base.layers)
        )
    except ConfigError as error:
        raise CheckpointError(f"{ADAPTER_CONFIG} describes no adapter: {error}") from None


def _patterns(counts: dict[str, int]) -> dict[str, int]:
    """The joined layers, by the last part of their paths if that is enough, for old versions."""
    fused = {module: n for module, n in counts.items() if n > 1}
    if len(set(counts.values())) == 1:
        return {module.rpartition(".")[2]: n for module, n in fused.items()}
    return fused


def _blocks(text: str | None, file: Path) -> dict[str, list[int]]:
    if text is None:
        return {}
    try:
        table = cast("dict[str, list[int]]", parse_json_table(text, _BLOCKS))
        return {str(module): [int(part) for part in parts] for module, parts in table.items()}
    except (ValueError, TypeError, PellucidError):
        raise CheckpointError(f"{file}: its metadata {_BLOCKS!r} cannot be read") from None
