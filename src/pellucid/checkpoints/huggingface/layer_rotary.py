"""Rotary positions that differ between layers with a sliding window and layers without.

    old: rope_theta = 1e6, rope_local_base_freq = 1e4, rope_scaling = {...}
    new: rope_parameters = {"full_attention": {"rope_theta": 1e6, ...}, "sliding_attention": {...}}

pellucid reads both. It writes the old form if it can say the same, because every version of
`transformers` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.mapping import DirectoryContents, Row, Unfit
from pellucid.checkpoints.huggingface.rotary import ROTARY_RULES, describe_rotary, read_rotary
from pellucid.config import decode, encode
from pellucid.errors import CheckpointError

_FULL, _SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, slots=True)
class LayerBase:
    """The base of one type of layer in the old form.

    `name`: its attribute; None if it has none. `default`: without the attribute. `scaled`: whether
    `rope_scaling` changes its angles.
    """

    name: str | None
    default: float
    scaled: bool


def layer_rotary_row(stack: str, *, full: LayerBase, sliding: LayerBase) -> Row:
    """The rotary positions of layers that attend to the full text, and of those with a window.

    Args:
        stack: its name.
        full: the base of layers without a window.
        sliding: of layers with one.
    """
    bases = {_FULL: full, _SLIDING: sliding}
    rules = {
        **{name: rule for name, rule in ROTARY_RULES.items() if name != "rope_theta"},
        **{base.name: Read(float, None) for base in bases.values() if base.name},
    }

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        for layer in tree[stack]["layers"]:
            kind = _type_of(layer)
            layer["positions"] = encode(_read_scheme(attributes, tree, layer, bases[kind], kind))

    def write(tree: Table) -> Table:
        schemes = _schemes(tree[stack]["layers"])
        old = dict.fromkeys(rules) | _describe_old(schemes, bases)
        layers = {_type_of(layer): layer for layer in tree[stack]["layers"]}
        old_form_fits = all(
            _read_scheme(old, tree, layers[kind], bases[kind], kind) == scheme
            for kind, scheme in schemes.items()
        )
        if old_form_fits:
            # a base of a kind of layer that the model lacks is no number
            return {name: value for name, value in old.items() if value is not None}
        return {"rope_parameters": {kind: _new_form(scheme) for kind, scheme in schemes.items()}}

    return Row(rules=rules, read=read, write=write)


def _type_of(layer: Table) -> str:
    return _FULL if layer["attention"].get("window") is None else _SLIDING


def _read_scheme(
    attributes: Table, tree: Table, layer: Table, base: LayerBase, kind: str
) -> config.Rotary:
    by_type: Table = attributes["rope_parameters"] or {}
    if unknown := sorted(by_type.keys() - {_FULL, _SLIDING}):
        raise CheckpointError(
            f"config.json: rope_parameters has {unknown[0]!r}, which is no type of layer; this "
            f"family has: {_FULL}, {_SLIDING}"
        )
    parameters = by_type.get(kind)
    if not isinstance(parameters, dict | None):
        raise CheckpointError(
            f"config.json: rope_parameters.{kind} must be a table, was {parameters!r}"
        )
    return read_rotary(
        {
            "rope_theta": attributes[base.name] if base.name else None,
            "rope_scaling": attributes["rope_scaling"] if base.scaled else None,
            "rope_parameters": parameters,
        },
        d_head=layer["attention"]["d_head"],
        context_length=tree["context_length"],
        base=base.default,
    )


def _schemes(layers: list[Table]) -> dict[str, config.Rotary]:
    """The scheme of each type of layer; all layers of a type must have the same."""
    schemes: dict[str, config.Rotary] = {}
    for layer in layers:
        if layer["positions"]["kind"] != "Rotary":
            raise Unfit(f"positions is {layer['positions']['kind']}, but this family has Rotary")
        scheme = decode(config.Rotary, layer["positions"], "positions")
        if schemes.setdefault(_type_of(layer), scheme) != scheme:
            raise Unfit(
                "positions differ between layers of one type, but this family has one scheme for "
                "layers with a window, and one for layers without"
            )
    return schemes


def _describe_old(schemes: Mapping[str, config.Rotary], bases: Mapping[str, LayerBase]) -> Table:
    table: Table = {}
    for kind, scheme in schemes.items():
        attributes = describe_rotary(scheme)
        if (name := bases[kind].name) is not None:
            table[name] = attributes["rope_theta"]
        if bases[kind].scaled:
            table["rope_scaling"] = attributes["rope_scaling"]
    return table


def _new_form(scheme: config.Rotary) -> Table:
    attributes = describe_rotary(scheme)
    return {
        "rope_theta": attributes["rope_theta"],
        **(attributes["rope_scaling"] or {"rope_type": "default"}),
    }
