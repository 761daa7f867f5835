"""Write a model as a Hugging Face directory, which `transformers` reads.

The files are `config.json`, `generation_config.json` and `model.safetensors`.

A family fits a model if its files read back as the same model. Rates of dropout and initial weights
may differ: they do not change what a trained model computes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import safetensors.torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Table, read_attributes
from pellucid.checkpoints.huggingface.config_tree import STACKS, expand
from pellucid.checkpoints.huggingface.directory import CONFIG, GENERATION, WEIGHTS
from pellucid.checkpoints.huggingface.families import FAMILIES
from pellucid.checkpoints.huggingface.family import Family
from pellucid.checkpoints.huggingface.mapping import DirectoryContents, Unfit
from pellucid.checkpoints.huggingface.names import Layout, shapes_of, source_of
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
    reasons = list(_compare("model", _normal_form(model), _normal_form(reread)))
    missing = [parameter for parameter, source in sources.items() if source is None]
    if missing and not reasons:
        reasons.append(f"there is no tensor for {missing[0]}")
    return reasons


def _compare(path: str, before: Any, after: Any) -> Iterator[str]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        if before != after:
            yield f"{path} is {_format_value(before)}, it could only be {_format_value(after)}"
        return
    table, other_table = cast("Table", before), cast("Table", after)
    if table.get("kind") != other_table.get("kind"):
        yield f"{path} is {_format_value(table)}, it could only be {_format_value(other_table)}"
        return
    for key in dict.fromkeys((*table, *other_table)):
        if key == "layers":
            yield from _compare_layers(path, table[key], other_table[key])
        else:
            yield from _compare(f"{path}.{key}", table.get(key), other_table.get(key))


def _compare_layers(path: str, before: list[Table], after: list[Table]) -> list[str]:
    """The differences of the first layer that differs."""
    if len(before) != len(after):
        return [f"{path}.n_layers is {len(before)}, it could only be {len(after)}"]
    for layer, other_layer in zip(before, after, strict=True):
        if differences := list(_compare(path, layer, other_layer)):
            return differences
    return []


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return str(cast("Table", value)["kind"])
    return "absent" if value is None else str(value)


def _normal_form(model: config.Transformer) -> Table:
    """The table of a model without settings that do not change its numbers."""
    tree = expand(model)
    del tree["initialisation"]
    for rate in ("dropout", "input_dropout"):
        tree["head"].pop(rate, None)
    if tree["head"]["kind"] != "LanguageHead":
        del tree["embedding"]["tied"]
    for stack in (tree[name] for name in STACKS if name in tree):
        del stack["dropout"]
        stack.pop("embedding_dropout", None)
        for layer in stack["layers"]:
            _plain_attention(layer["attention"])
            positions = layer["positions"]
            if positions.get("n_features") == layer["attention"]["d_head"]:
                del positions["n_features"]
        if "cross_attention" in stack:
            _plain_attention(stack["cross_attention"])
    return tree


def _plain_attention(attention: Table) -> None:
    defaults = {"dropout": attention.get("dropout"), "d_value": attention["d_head"]}
    defaults["scale"] = attention["d_head"] ** -0.5
    if "qk_norm" not in attention:
        defaults["qk_norm_over"] = attention.get("qk_norm_over")
    for key, value in defaults.items():
        if attention.get(key) == value:
            attention.pop(key, None)
