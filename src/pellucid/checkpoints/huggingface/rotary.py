"""Rotary positions in a `config.json`, which has an old and a new form.

    old: rope_theta = 5e5, rope_scaling = {"rope_type": "llama3", "factor": 8.0, ...}
    new: rope_parameters = {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0, ...}

pellucid reads both and writes the old form, which every version of `transformers` reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Rules, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.mapping import DirectoryContents, Row, Unfit
from pellucid.checkpoints.huggingface.rotary_scaling import (
    REFUSED_TYPES,
    ROPE_TYPES,
    describe_scaling,
    take_number,
)
from pellucid.config import decode, encode
from pellucid.errors import CheckpointError

#: The attributes of families with rotary positions.
ROTARY_RULES: Rules = {
    "rope_theta": Read(float, None),
    "rope_scaling": Read(dict, None),
    "rope_parameters": Read(dict, None),
}


def rotary_row(
    stack: str = "decoder",
    *,
    base: float | str = 10_000.0,
    share: Mapping[str, float | None] | None = None,
    interleaved: bool = False,
    width: str = "d_head",
    original: str | None = None,
) -> Row:
    """The positions of every layer of a stack that has rotary ones.

    Args:
        stack: its name.
        base: if the rope attributes have none, or the attribute of the family that has it.
        share: attributes with the rotated share of each head's features, and their defaults; the
            first one with a value counts, and
            the last one is written. For a family without one, `transformers` ignores
            `partial_rotary_factor` and rotates all features.
        interleaved: whether features are rotated in pairs of neighbours.
        width: the key of attention with the number of features that can rotate.
        original: the attribute with the length of texts in training, before the model was trained
            on longer ones.
    """
    path, shares = f"{stack}.layers.positions:Rotary", share or {}
    rules = {name: Read(float, default) for name, default in shares.items()}
    if isinstance(base, str):
        rules[base] = Read(float, 10_000.0)

    if original is not None:
        rules[original] = Read(int, None)

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        if original is not None and attributes[original] is not None:
            attributes = _with_original(attributes, attributes[original])
        positions = read_rotary(
            attributes,
            d_head=values_at(tree, f"{stack}.layers.attention.{width}")[0],
            context_length=tree["context_length"],
            base=attributes[base] if isinstance(base, str) else base,
            share=next((attributes[n] for n in shares if attributes[n] is not None), None),
        )
        table = {**encode(positions), "pairing": "interleaved" if interleaved else "half_split"}
        for key, value in table.items():
            set_values(tree, f"{path}.{key}", value)
        if isinstance(positions.scaling, config.DynamicNTK):  # it acts on longer texts alone
            scaling = positions.scaling
            tree["context_length"] = int(scaling.original_context_length * scaling.factor)

    def write(tree: Table) -> Table:
        d_head = values_at(tree, f"{stack}.layers.attention.{width}")[0]
        rotated = values_at(tree, f"{path}.n_features")
        if not rotated:
            return {}
        schemes = [p for p in values_at(tree, f"{stack}.layers.positions") if p["kind"] == "Rotary"]
        if any(scheme != schemes[0] for scheme in schemes):
            raise Unfit("positions differ between layers, but this family has one scheme")
        rotary = decode(config.Rotary, schemes[0], "positions")
        table = describe_rotary(rotary)
        match rotary.scaling:
            case config.DynamicNTK(original_context_length=length):
                table["max_position_embeddings"] = length
            case config.LongRoPE(original_context_length=length) if original is not None:
                table[original] = length
            case _:
                pass
        if isinstance(base, str):
            table[base] = table.pop("rope_theta")
        if shares:
            table[list(shares)[-1]] = (rotated[0] or d_head) / d_head
        return table

    return Row(rules={**ROTARY_RULES, **rules}, read=read, write=write)


def rotary_row_with_default(default: Table, *, base: float) -> Row:
    """As `rotary_row`, for a family that stretches the angles if a file says nothing.

    Args:
        default: the parameters without rope attributes. base: as in `rotary_row`.
    """
    row = rotary_row(base=base)

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        if attributes["rope_scaling"] is None and attributes["rope_parameters"] is None:
            attributes = {**attributes, "rope_parameters": default}
        row.read(attributes, tree, stored)

    def write(tree: Table) -> Table:
        table = row.write(tree)
        scaling = table.pop("rope_scaling") or {"rope_type": "default"}
        rotary = {"rope_theta": table.pop("rope_theta"), **scaling}
        return {**table, "rope_parameters": rotary}

    return Row(rules=row.rules, read=read, write=write)


def _with_original(attributes: Table, length: int) -> Table:
    """The attributes with the length of texts in training among the parameters of scaling."""
    parameters = _parameters(attributes)
    if (parameters.get("rope_type") or parameters.get("type") or "default") == "default":
        return attributes
    parameters["original_max_position_embeddings"] = length
    return {**attributes, "rope_theta": None, "rope_scaling": None, "rope_parameters": parameters}


def read_rotary(
    attributes: Table,
    *,
    d_head: int,
    context_length: int,
    base: float = 10_000.0,
    share: float | None = None,
) -> config.Rotary:
    """The positions that the rope attributes describe.

    Args:
        attributes: of the family.
        d_head: features per head.
        context_length: of the model.
        base: if the attributes have none.
        share: the rotated share of each head's features, if the attributes have none. None for a
            family that rotates all features.

    Raises:
        CheckpointError: the kind of scaling is not handled, or one of its numbers is unknown.
    """
    parameters = _parameters(attributes)
    kind = parameters.pop("rope_type", None) or parameters.pop("type", None) or "default"
    parameters.pop("type", None)
    base = float(take_number(parameters, "rope_theta", base))
    rotated_share = float(
        take_number(parameters, "partial_rotary_factor", 1.0 if share is None else share)
    )
    if share is None and rotated_share != 1.0:
        raise CheckpointError(
            f"config.json: the rope parameter 'partial_rotary_factor' = {rotated_share} is not "
            "handled in this family, which rotates all features of a head: the only value is 1"
        )
    if not isinstance(kind, str):
        raise CheckpointError(f"config.json: rope_type must be a name, was {kind!r}")
    if kind not in ROPE_TYPES:
        reason = REFUSED_TYPES.get(kind, "it is unknown")
        raise CheckpointError(
            f"config.json: rope_type {kind!r} is not handled: {reason}; those that are: "
            f"{', '.join(ROPE_TYPES)}"
        )
    names, make = ROPE_TYPES[kind]
    if extra := sorted(parameters.keys() - names):
        raise CheckpointError(
            f"config.json: the rope parameter {extra[0]!r} = {parameters[extra[0]]!r} is not one "
            f"of rope_type {kind!r}: {', '.join(sorted(names)) or 'it has none'}"
        )
    width = int(d_head * rotated_share)
    return config.Rotary(
        base=base,
        n_features=None if width == d_head else width,
        scaling=make(parameters, context_length),
    )


def describe_rotary(rotary: config.Rotary) -> Table:
    """`rope_theta` and `rope_scaling`."""
    return {"rope_theta": rotary.base, "rope_scaling": describe_scaling(rotary.scaling)}


def _parameters(attributes: Table) -> Table:
    """The numbers of both forms as one table; contradictions are refused."""
    old: Table = dict(attributes["rope_scaling"] or {})
    if attributes["rope_theta"] is not None:
        old["rope_theta"] = attributes["rope_theta"]
    new: Table = dict(attributes["rope_parameters"] or {})
    for name in old.keys() & new.keys():
        if old[name] != new[name]:
            raise CheckpointError(
                f"config.json has {name} twice, {old[name]!r} and {new[name]!r} (in "
                "rope_parameters): remove one"
            )
    return old | new
