"""Write a model as a Hugging Face directory, which `transformers` reads.

The files are `config.json`, `generation_config.json` and `model.safetensors`.

A family fits a model if its files read back as the same model. Rates of dropout and initial weights
may differ: they do not change what a trained model computes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import safetensors.torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Table, read_attributes
from pellucid.checkpoints.huggingface.directory import CONFIG, GENERATION, WEIGHTS
from pellucid.checkpoints.huggingface.families import FAMILIES
from pellucid.checkpoints.huggingface.family import (
    DirectoryContents,
    Family,
    Unfit,
    alternating,
    multi_head,
)
from pellucid.checkpoints.huggingface.names import Source, source_of
from pellucid.config import encode
from pellucid.errors import CheckpointError, ConfigError
from pellucid.json_text import json_text

#: More differences than any comparison finds, for a family that does not fit at all.
_NO_FIT = 1000

#: All that `write_published` may write.
PUBLISHED_FILES = (CONFIG, GENERATION, WEIGHTS)


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
            reasons = _differences(model, parameters, family, attributes)
            distance = len(reasons)
        except Unfit as unfit:
            attributes, reasons = {}, [str(unfit)]
            distance = 2 * _NO_FIT if unfit.shape else _NO_FIT
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
        **attributes,
        **ends,
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
    """The published tensors, in which queries, keys and values may be joined."""
    n_heads = multi_head(model.stacks[0]).n_heads
    groups: dict[str, list[tuple[Source, Tensor]]] = {}
    for parameter, tensor in tensors.items():
        source = source_of(parameter, family.names_for(model))
        assert source is not None  # choose_family has looked
        groups.setdefault(source.name, []).append((source, tensor.detach().cpu()))
    bare = isinstance(model.head, config.NoHead)
    published: dict[str, Tensor] = {}
    for name, group in groups.items():
        group.sort(key=lambda pair: pair[0].third or 0)
        joined = group[0][0].join([tensor for _, tensor in group], n_heads=n_heads)
        published[name.removeprefix(family.prefix) if bare else name] = joined.contiguous()
    return published


def _write_json(file: Path, table: Table) -> None:
    file.write_text(json_text(table, indent=2) + "\n", encoding="utf-8")


def _differences(
    model: config.Transformer, parameters: list[str], family: Family, attributes: Table
) -> list[str]:
    """The differences of a model that is written and read back."""
    sources = {parameter: source_of(parameter, family.names_for(model)) for parameter in parameters}
    tensor_names = frozenset(source.name for source in sources.values() if source is not None)
    try:
        read = read_attributes(attributes, family.rules, family=family.model_type)
        reread = family.read(read, DirectoryContents(family.architecture_for(model), tensor_names))
    except (CheckpointError, ConfigError) as error:
        return [str(error)]
    reasons = list(_compare("model", encode(_plain(model)), encode(_plain(reread))))
    missing = [parameter for parameter, source in sources.items() if source is None]
    if missing and not reasons:
        reasons.append(f"there is no tensor for {missing[0]}")
    return reasons


def _compare(path: str, before: Any, after: Any) -> Iterable[str]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        if before != after:
            yield f"{path} is {_format_value(before)}, it could only be {_format_value(after)}"
        return
    table, other_table = cast("Table", before), cast("Table", after)
    if table["kind"] != other_table["kind"]:
        yield f"{path} is {_format_value(table)}, it could only be {_format_value(other_table)}"
        return
    for key in dict.fromkeys((*table, *other_table)):
        yield from _compare(f"{path}.{key}", table.get(key), other_table.get(key))


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return str(cast("Table", value)["kind"])
    return "absent" if value is None else str(value)


def _plain(model: config.Transformer) -> config.Transformer:
    """An equal model in a normal form, without settings that do not change its numbers."""
    head = model.head
    spells = isinstance(head, config.LanguageHead)
    return replace(
        model,
        head=replace(head, dropout=0.0) if isinstance(head, config.ClassificationHead) else head,
        embedding=model.embedding if spells else replace(model.embedding, tied=True),
        encoder=None if model.encoder is None else _plain_stack(model.encoder),
        decoder=None if model.decoder is None else _plain_stack(model.decoder),
        initialisation=config.Initialisation(
            weights=config.He(), embedding_std=1.0, outputs="plain"
        ),
    )


def _plain_stack(stack: config.Stack) -> config.Stack:
    layers = tuple(_plain_attention(layer.attention) for layer in stack.layers)
    heads = tuple(layer for layer in layers if isinstance(layer, config.MultiHead))
    crossed = stack.cross_attention
    return replace(
        stack,
        positions=config.map_kinds(
            stack.positions, lambda scheme: _plain_positions(scheme, stack.d_head)
        ),
        attention=alternating(heads) if len(heads) == len(layers) else stack.attention,
        cross_attention=None
        if crossed is None
        else cast("config.MultiHead", _plain_attention(crossed)),
        dropout=0.0,
    )


def _plain_positions(scheme: config.OnePositions, d_head: int) -> config.OnePositions:
    if isinstance(scheme, config.Rotary) and scheme.n_features == d_head:
        return replace(scheme, n_features=None)
    return scheme


def _plain_attention(layer: config.OneAttention) -> config.OneAttention:
    if not isinstance(layer, config.MultiHead):
        return layer
    return replace(
        layer,
        dropout=0.0,
        d_value=None if layer.d_value == layer.d_head else layer.d_value,
        scale=None if layer.scale == layer.d_head**-0.5 else layer.scale,
        # without a norm this setting has no effect
        qk_norm_over=layer.qk_norm_over if layer.qk_norm is not None else "each_head",
    )
