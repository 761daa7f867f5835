"""Whether the tensors of a directory are those of the model that its config describes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints.huggingface.directory import Shards
from pellucid.checkpoints.huggingface.family import Family
from pellucid.checkpoints.huggingface.names import Layout
from pellucid.errors import CheckpointError
from pellucid.model import Transformer

#: How far a table in half precision may be from the computed one.
_ROUNDING = 1e-2


def find_places(
    layout: Layout, stored: dict[str, str], zero_if_missing: frozenset[str], folder: Path
) -> dict[str, tuple[str, ...]]:
    """The names of each parameter's tensors in the files.

    Args:
        layout: where each parameter is in its tensor.
        stored: from full names to those in the files.
        zero_if_missing: parameters that are zero without a tensor.
        folder: of the files, for the message.

    Raises:
        CheckpointError: a tensor is missing; names the first.
    """
    places: dict[str, tuple[str, ...]] = {}
    missing: list[str] = []
    for parameter, source in layout.sources.items():
        names = ("no name",) if source is None else layout.tensor_names(parameter)
        absent = next((name for name in names if name not in stored), None)
        if absent is None:
            places[parameter] = tuple(stored[name] for name in names)
        elif parameter not in zero_if_missing:
            missing.append(f"{parameter} (there {absent})")
    if missing:
        suffix = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(
            f"{folder} has no tensor for {missing[0]}{suffix}, which its config.json needs: the "
            "files belong to another model, or some are missing"
        )
    return places


def check_shapes(places: dict[str, tuple[str, ...]], layout: Layout, shards: Shards) -> None:
    """Refuse a tensor of another shape than the config needs.

    Args:
        places: the names of each parameter's tensors. layout: of the parameters. shards: the files.

    Raises:
        CheckpointError: names it, with both shapes.
    """
    for parameter, names in places.items():
        expected = layout.published_shape(parameter)
        for name in names:
            stored = shards.stored[name]
            if stored.shape != expected:
                raise CheckpointError(
                    f"{stored.file}: {name} has the shape {list(stored.shape)}, but config.json "
                    f"needs {list(expected)}"
                )


def find_copies(family: Family, model: config.Transformer) -> dict[str, str]:
    """Tensors that must equal another one, including a head that is tied to the embedding."""
    copies = dict(family.copies(model) if callable(family.copies) else family.copies)
    names = family.names_for(model)
    tied = model.embedding.tied and isinstance(model.head, config.LanguageHead)
    if tied and "head.weight" in names:
        copies[names["head.weight"].name] = names["token_embedding.weight"].name
    return copies


def find_ignored(
    stored: dict[str, str],
    places: dict[str, tuple[str, ...]],
    family: Family,
    copies: dict[str, str],
    folder: Path,
) -> dict[str, str]:
    """Tensors without a parameter that the family leaves out, with the reason.

    Args:
        stored: from full names to those in the files.
        places: the names of each parameter's tensors.
        family: the family.
        copies: tensors that equal another one.
        folder: of the files, for the message.

    Raises:
        CheckpointError: the family does not have such a tensor.
    """
    used = {name for names in places.values() for name in names}
    ignored_tensors: dict[str, str] = {}
    for full, name in stored.items():
        if name in used or full in copies:
            continue
        reasons = family.ignored_tensors.items()
        reason = next((text for pattern, text in reasons if re.fullmatch(pattern, full)), None)
        if reason is None:
            raise CheckpointError(
                f"{folder} has the tensor {name}, which a {family.model_type} with this "
                "config.json does not have: its purpose is unknown, so nothing is converted"
            )
        ignored_tensors[name] = reason
    return ignored_tensors


def check_copies(copies: dict[str, str], stored: dict[str, str], shards: Shards) -> None:
    """Refuse tensors that differ although the model has them once.

    Args:
        copies: from each copy to its original. stored: from full names to those in the files.
        shards: the files.

    Raises:
        CheckpointError: names both.
    """
    for copy, original in copies.items():
        if copy not in stored or original not in stored:
            continue
        if not torch.equal(shards.read(stored[copy]), shards.read(stored[original])):
            raise CheckpointError(
                f"{shards.folder}: {stored[copy]} should equal {stored[original]}, but they "
                "differ: the model has this tensor once. If they are a head and an embedding that "
                "were trained separately, set tie_word_embeddings to false in config.json. An "
                "encoder and a decoder with separate tables of tokens are not handled"
            )


def check_computed(
    computed: Mapping[str, str], built: Transformer, stored: dict[str, str], shards: Shards
) -> None:
    """Refuse a table of positions that is not the one that the model computes.

    Args:
        computed: from the model's buffers to full names. built: the model.
        stored: from full names to those in the files. shards: the files.

    Raises:
        CheckpointError: names the tensor.
    """
    for buffer, name in computed.items():
        if name not in stored:
            continue
        expected, actual = built.get_buffer(buffer), shards.read_float(stored[name])
        if actual.shape != expected.shape or not torch.allclose(actual, expected, atol=_ROUNDING):
            raise CheckpointError(
                f"{shards.folder}: {stored[name]} is not the table that follows from config.json, "
                "which has fixed sinusoids: other tables are not handled"
            )
