"""How well a family holds a model: what differs if its files are read back.

Rates of dropout and initial weights may differ: they do not change what a trained model computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Table, read_attributes
from pellucid.checkpoints.huggingface.config_tree import STACKS, expand
from pellucid.checkpoints.huggingface.family import Family
from pellucid.checkpoints.huggingface.mapping import DirectoryContents
from pellucid.checkpoints.huggingface.names import source_of
from pellucid.errors import CheckpointError, ConfigError


class Difference(NamedTuple):
    """A setting that a family would change: its path, its value, and the family's."""

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        before, after = _format_value(self.before), _format_value(self.after)
        return f"{self.path} is {before}, it could only be {after}"


def reread(
    family: Family, model: config.Transformer, parameters: Iterable[str], attributes: Table
) -> config.Transformer:
    """The model that a family reads from its own description of a model.

    Args:
        family: the family.
        model: the model.
        parameters: its names of parameters.
        attributes: the description.

    Raises:
        CheckpointError: the family does not handle a value.
        ConfigError: the values describe no model.
    """
    sources = (source_of(parameter, family.names_for(model)) for parameter in parameters)
    tensor_names = frozenset(source.name for source in sources if source is not None)
    table = read_attributes(attributes, family.rules, family=family.model_type)
    return family.read(table, DirectoryContents(family.architecture_for(model), tensor_names))


def reasons_against(
    family: Family, model: config.Transformer, parameters: Iterable[str], attributes: Table
) -> list[str]:
    """Why a family does not hold a model, as sentences; empty if it does.

    Args:
        family: the family.
        model: the model.
        parameters: its names of parameters.
        attributes: the family's description of it.
    """
    parameters = list(parameters)
    try:
        other = reread(family, model, parameters, attributes)
    except (CheckpointError, ConfigError) as error:
        return [str(error)]
    reasons = [str(difference) for difference in differences(model, other)]
    names = family.names_for(model)
    missing = [parameter for parameter in parameters if source_of(parameter, names) is None]
    if missing and not reasons:
        reasons.append(f"there is no tensor for {missing[0]}")
    return reasons


def differences(model: config.Transformer, other: config.Transformer) -> list[Difference]:
    """The settings in which two models differ; of layers, only of the first that differs."""
    return list(_compare("model", _normal_form(model), _normal_form(other)))


def _compare(path: str, before: Any, after: Any) -> Iterator[Difference]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        if before != after:
            yield Difference(path, before, after)
        return
    table, other_table = cast("Table", before), cast("Table", after)
    if table.get("kind") != other_table.get("kind"):
        yield Difference(path, table, other_table)
        return
    for key in dict.fromkeys((*table, *other_table)):
        if key == "layers":
            yield from _compare_layers(path, table[key], other_table[key])
        else:
            yield from _compare(f"{path}.{key}", table.get(key), other_table.get(key))


def _compare_layers(path: str, before: list[Table], after: list[Table]) -> list[Difference]:
    """The differences of the first layer that differs."""
    if len(before) != len(after):
        return [Difference(f"{path}.n_layers", len(before), len(after))]
    for layer, other_layer in zip(before, after, strict=True):
        if found_differences := list(_compare(path, layer, other_layer)):
            return found_differences
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
            _plain_experts(layer["feed_forward"])
            positions = layer["positions"]
            if positions.get("n_features") == layer["attention"]["d_head"]:
                del positions["n_features"]
        if "cross_attention" in stack:
            _plain_attention(stack["cross_attention"])
    return tree


def _plain_experts(feed_forward: Table) -> None:
    """How a training balances experts changes no number; whether there is a bias for it does."""
    if feed_forward["kind"] == "Experts":
        for key in ("load_loss", "router_z_loss"):
            feed_forward.pop(key, None)
        if "balancing_rate" in feed_forward["router"]:
            feed_forward["router"]["balancing_rate"] = 0.0


def _plain_attention(attention: Table) -> None:
    defaults = {"dropout": attention.get("dropout"), "d_value": attention["d_head"]}
    defaults["scale"] = attention["d_head"] ** -0.5
    if "qk_norm" not in attention:
        defaults["qk_norm_over"] = attention.get("qk_norm_over")
    for key, value in defaults.items():
        if attention.get(key) == value:
            attention.pop(key, None)
