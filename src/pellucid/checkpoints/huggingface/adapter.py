"""An adapter alone, in the directory format that `peft` reads and writes.

    adapter_config.json  adapter_model.safetensors

Comes in: a base's config, and the tensors of its adapters by our names. Goes out: that directory;
and the other way. It does not know the base's weights, nor runs.

Of layers that are one matrix in a family, the file's metadata says which blocks there are, so that
it reads back as it was. An update of such a matrix that is not of blocks (one that `peft` trained)
is read as three that have the same `down`: the same numbers too, from more parameters.
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
    blocks_apart,
    joined,
    shortest_targets,
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
#: In the metadata: of each fused layer, which of queries (0), keys (1) and values (2) are blocks.
_BLOCKS = "blocks"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter of a model of ours: its numbers, its tensors by our names, and its base's name."""

    lora: config.LoRA
    tensors: dict[str, Tensor]
    base: str | None


def is_adapter(path: Path) -> bool:
    """Whether `path` is a folder with an `adapter_config.json`."""
    return (path / ADAPTER_CONFIG).is_file()


def base_of_adapter(folder: Path) -> str | None:
    """Where the adapter in a directory says that its base is, if it does."""
    base = read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    return base if isinstance(base, str) else None


def write_adapter(
    folder: Path,
    model: config.Transformer,
    lora: config.LoRA,
    tensors: Mapping[str, Tensor],
    *,
    base: str | None = None,
) -> str:
    """Write the adapters among `tensors` into a folder that is there; gives back the family.

    `model` is the base's config, `tensors` the state of the adapted model or a part of it, `base`
    where `peft` will look for the base if nobody says.

    Raises:
        CheckpointError: no family can say the base, there are no adapters, or there is a
            classification head, which was trained whole.
    """
    whole = [name for name in tensors if name.split(".")[0] == "classifier"]
    if whole:
        raise CheckpointError(
            f"{whole[0]} was trained whole, and an adapter alone does not hold it: export the "
            "model with its updates merged"
        )
    base_layers = Base(model)
    adapted = {name.removesuffix(".lora_down") for name in tensors if name.endswith(".lora_down")}
    if not adapted:
        raise CheckpointError("there are no adapters in this model: export it whole")
    written: dict[str, Tensor] = {}
    blocks: dict[str, list[int]] = {}
    modules: list[str] = []
    for module, layers in base_layers.modules.items():
        updates = {
            ours: (tensors[f"{ours}.lora_down"].cpu(), tensors[f"{ours}.lora_up"].cpu())
            for ours in layers
            if ours in adapted
        }
        if not updates:
            continue
        thirds = [base_layers.sources[ours].third for ours in updates]
        if None not in thirds:
            blocks[module] = [third for third in thirds if third is not None]
        modules.append(module)
        down, up = joined(base_layers, list(updates), list(updates.values()))
        written[f"{_ROOT}{module}.lora_A.weight"] = down.detach().contiguous()
        written[f"{_ROOT}{module}.lora_B.weight"] = up.detach().contiguous()
    table = describe_adapter(
        lora,
        model,
        modules=[
            n.removeprefix(_ROOT).removesuffix(".lora_A.weight") for n in written if "_A" in n
        ],
        fused=_patterns({module: len(parts) for module, parts in blocks.items()}),
        transposed=base_layers.transposed,
        base=base,
    )
    write_table(folder, table)
    metadata = {"format": "pt", _BLOCKS: json_text(blocks)} if blocks else {"format": "pt"}
    file = folder / ADAPTER_WEIGHTS
    cast("Any", safetensors.torch).save_file(written, file, metadata=metadata)
    # the library lets nobody else read what it writes; the directory is for others too
    shutil.copymode(folder / ADAPTER_CONFIG, file)
    return base_layers.family


def read_adapter(folder: Path, model: config.Transformer) -> Adapter:
    """The adapter in a directory, for the base that `model` describes.

    Raises:
        CheckpointError: files are missing or damaged, something in them is not supported, or they
            are of another base; says which.
    """
    table = read_json(folder / ADAPTER_CONFIG)
    numbers = read_adapter_numbers(table)
    file = folder / ADAPTER_WEIGHTS
    stored, metadata = read_tensors(file)
    blocks = _blocks(metadata.get(_BLOCKS), file)
    base = Base(model)
    tensors: dict[str, Tensor] = {}
    alphas: dict[str, float] = {}
    for module, (down, up) in _pairs(stored, file).items():
        layers = base.ours(module)
        _check_shapes(base, module, layers, down, up, numbers)
        alpha = numbers.of(module)[1]
        if (parts := blocks.get(module)) is not None:
            layers = [ours for ours in layers if base.sources[ours].third in parts]
            updates = blocks_apart(base, layers, down, up, f"{file}: {module}")
            alpha /= len(layers)
        else:
            updates = [(down, base.sources[o].take(up, n_heads=base.n_heads)) for o in layers]
        for ours, (own_down, own_up) in zip(layers, updates, strict=True):
            tensors[f"{ours}.lora_down"] = own_down.contiguous().clone()
            tensors[f"{ours}.lora_up"] = own_up.contiguous().clone()
            alphas[ours] = alpha
    lora = _lora(base, tensors, alphas, numbers.dropout)
    return Adapter(lora, tensors, base_of_adapter(folder))


def _pairs(stored: Mapping[str, Tensor], file: Path) -> dict[str, tuple[Tensor, Tensor]]:
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, tensor in stored.items():
        match = _TENSOR.fullmatch(name)
        if match is None:
            raise CheckpointError(
                f"{file} holds the tensor {name}, which is not of an update of a linear layer "
                f"({_ROOT}PATH.lora_A.weight or lora_B): nothing is read"
            )
        pairs.setdefault(match[1], {})[match[2]] = tensor
    for module, pair in pairs.items():
        if len(pair) == 1:
            missing = "B" if "A" in pair else "A"
            raise CheckpointError(f"{file} has no {_ROOT}{module}.lora_{missing}.weight")
    if not pairs:
        raise CheckpointError(f"{file} holds no tensors")
    return {module: (pair["A"], pair["B"]) for module, pair in pairs.items()}


def _check_shapes(
    base: Base,
    module: str,
    layers: Sequence[str],
    down: Tensor,
    up: Tensor,
    numbers: AdapterNumbers,
) -> None:
    rank, layer = numbers.of(module)[0], base.layers[layers[0]]
    outputs = sum(base.layers[ours].out_features for ours in layers)
    expected = [(rank, layer.in_features), (outputs, rank)]
    if [tuple(down.shape), tuple(up.shape)] != expected:
        raise CheckpointError(
            f"the update of {module} has the shapes {list(down.shape)} and {list(up.shape)}; this "
            f"base and {ADAPTER_CONFIG} ask for {list(expected[0])} and {list(expected[1])}"
        )


def _lora(
    base: Base, tensors: dict[str, Tensor], alphas: Mapping[str, float], dropout: float
) -> config.LoRA:
    """One rank and one alpha for all, as a config says them; thinner updates get zeros beside.

    Raises:
        CheckpointError: the scales, alpha / rank, are different.
    """
    kinds: dict[tuple[int, float], str] = {}
    for ours, alpha in alphas.items():
        kinds.setdefault((tensors[f"{ours}.lora_down"].shape[0], alpha), ours)
    if len({alpha / rank for rank, alpha in kinds}) > 1:
        scales = " and ".join(
            f"{r} and {a:g} of {ours}" for (r, a), ours in list(kinds.items())[:2]
        )
        raise CheckpointError(
            f"the adapter has layers of different scale, by rank and alpha ({scales}), and LoRA "
            "has one for all: merge the adapter into its base with peft, and import the model"
        )
    rank, alpha = max(kinds)
    for ours in alphas:
        down, up = f"{ours}.lora_down", f"{ours}.lora_up"
        lacking = rank - tensors[down].shape[0]
        tensors[down] = nn.functional.pad(tensors[down], (0, 0, 0, lacking))
        tensors[up] = nn.functional.pad(tensors[up], (0, lacking))
    try:
        return config.LoRA(
            rank=rank, alpha=alpha, dropout=dropout, targets=shortest_targets(alphas, base.layers)
        )
    except ConfigError as error:
        raise CheckpointError(f"{ADAPTER_CONFIG} describes no adapter: {error}") from None


def _patterns(counts: dict[str, int]) -> dict[str, int]:
    """The fused layers by the ends of their paths where that is enough, which old versions read."""
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
